"""Checks of the arithmetic, on round figures, and of what is refused."""

import doctest
import math

import measured
import need
import page
from measured import Costs, Problem, Run, live_of_output
from need import Need
from page import compared, filled

PLANTED = """
A stored trip takes about 200 bytes and 5 for each sample (simulated; real data at 1 s: 4).
500 bytes were resident for each, before 822 (the target: 400 without the sample, which takes 50).

| samples a second | bytes to Cassandra a sample | tstar | tstar, replayed | Cassandra | rows a sample |
|---|---|---|---|---|---|
| 1,000 | 300 | 55 | 5 | 400 | 0.5 |
| 10,000 | 125 | 18 | 4 | 130 | 0.25 |

| a sample each | rows a sample |
|---|---|
| 1 s | 0.02 |
| 10 s | 0.4 |

| records of a topic | bytes a sample | CPU s per million |
|---|---|---|
| canonical | 100 | 0.3 |
| slow | 200 | 2.3 |

| step | CPU s per million | peak MiB |
|---|---|---|
| (d) `run` into Cassandra | 1.7 | 100 |

| samples | message, bytes: buses, cars, simulated | zstd saves |
|---|---|---|
| 100 | 800, 1000, 900 | 10 to 20 % |
| 200 | 1800, 1700, 1600 | 15 % |

| run | tstar | Cassandra | Kafka Streams | rows a sample |
|---|---|---|---|---|
| whole | 40 | 200 | 100 | 0.5 |

| `run` into Cassandra | CPU s per million | server's CPU | rows a sample |
|---|---|---|---|
| before | 90 | 90 | 0.9 |
| now | 26.4 | 150 | 0.25 |
"""

OUTPUT = """fleet: 5 000 devices, a sample each 5 s, one in twenty late by up to 10 minutes

| program | samples | tstar us a sample | replayed | times | CQL server | replayed | broker | x | rows | bytes | f | m |
|:--------|--------:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| old     | 120 000 | 99.0 | 5.0 | 11.0 | 400.0 | 9.0 | 8.0 | - | 0.500, 0.0040 | 300.0 | - | - |
| tstar   | 120 000 | 55.0 | 5.0 | 11.0 | 400.0 | 9.0 | 8.0 | - | 0.500, 0.0040 | 300.0 | - | - |
"""


def fails(part, work):
    """Expects a problem whose message has a part."""
    try:
        work()
    except Problem as problem:
        assert part in str(problem), problem
    else:
        raise AssertionError(f"no problem with `{part}`")


def run():
    """Runs the examples of the modules, and the checks below."""
    results = [doctest.testmod(it) for it in (measured, need, page)]
    failed, tried = (sum(counts) for counts in zip(*results))
    assert failed == 0 and tried >= 5, f"{failed} of {tried} examples failed"
    costs, given = Costs(PLANTED), {name: default for name, default, _, _ in need.ASSUMPTIONS}
    # 50 = 0.5 row + idle / 1,000 and 13 = 0.25 row + idle / 10,000: row 40, idle 30 ms.
    assert (costs.replayed, costs.row, costs.idle) == (5, 40, 30_000), vars(costs)
    # 400 = 0.5 row + idle / 1,000 and 130 = 0.25 row + idle / 10,000.
    assert (costs.cql_row, costs.cql_idle, costs.row_bytes) == (450, 175_000, 500), vars(costs)
    assert (costs.base, costs.trip, costs.device) == (100 * 2**20, 200, 500), vars(costs)
    # The largest of a row of the table, less the least saving; at 1 s the figure of the text.
    assert [costs.path_sample(*it) for it in ((10, 180), (10, 240), (60, 9), (1, 1800))] == [
        9.0, 7.65, 9.0, 4.0]

    # 20,000 drive; 2,000 samples/s at the busiest time, 4,000 / 3 over the day.
    given.update(peak=0.5, hours=8.0, midnight=0.0)
    it = Need(costs, given, 40_000, 10)
    assert (it.rate, it.samples_a_trip, it.rows) == (2_000, 180, 0.4), vars(it)
    assert it.topic_rate == 2_000 * (100 + 30 + 0.4 * 800), it.topic_rate
    assert math.isclose(it.topic_disk, 40_000 / 30 * 450 * 86_400 * 7 * 3), it.topic_disk
    assert (it.brokers, it.brokers_by) == (3, "copies"), it.brokers
    # Half of 180 samples of 9 bytes and 200: twice the measured row and more.
    assert (it.row, it.larger) == (1_010, 2.02), vars(it)
    assert math.isclose(it.cpu, 5 + 0.4 * 40 * 2.02), it.cpu
    # 0.075 of the 0.97 cores of an instance; one to spare.
    assert (it.instances, it.partitions) == (2, 8), vars(it)
    assert it.state == 20_000 * (500 + 180 * 50) and it.memory == 512e6, vars(it)
    # 2.18 cores of 3.025; 640,000 trips a day of 1,820 bytes, 6 times: 2.55 TB of 4 a node.
    assert (it.nodes, it.nodes_by) == (3, "copies"), vars(it)
    assert math.isclose(it.year, 640_000 * 365 * 1_820 * 6), it.year

    large = Need(costs, given, 40_000_000, 10)
    # 2.7 GB/s of 50 MB/s; 1,000 times the topics above, 0.33 TB each 1,000: by disk.
    assert (large.brokers, large.brokers_by) == (545, "disk"), vars(large)
    assert (large.instances, large.nodes, large.nodes_by) == (78, 722, "CPU"), vars(large)
    assert math.isclose(large.memory, 190e9 / 77 * 1.25), large.memory
    # Another format costs what its decoding costs more.
    slow = Need(costs, {**given, "format": "slow"}, 40_000, 10)
    assert math.isclose(slow.cpu - it.cpu, 2.0) and slow.topic_rate == 2_000 * 550, vars(slow)

    run = live_of_output(OUTPUT)
    assert run == Run(1_000, 55, 5, 400, 0.5, 300), run
    assert Costs(PLANTED, [run, Run(10_000, 18, 4, 130, 0.25, 125)]).row == 40
    assert "| 55 | 40 | 400 | 200 |" in compared(costs, PLANTED), compared(costs, PLANTED)
    assert "| 15 | 26.4 | 112 | 150 |" in compared(costs, PLANTED), compared(costs, PLANTED)

    fails("not measured at an interval of 7 s", lambda: Need(costs, given, 1, 7))
    fails("`x` is not in", lambda: Need(costs, {**given, "format": "x"}, 1, 10))
    fails("no CPU beyond", lambda: Need(costs, {**given, "use": 0.01}, 1, 10))
    fails("0 tables", lambda: Costs(PLANTED.replace("| step |", "| steps |")))
    fails("reworded", lambda: Costs(PLANTED.replace("were resident", "was resident")))
    fails("disturbed", lambda: Costs(PLANTED.replace("| 125 | 18", "| 125 | 1")))
    fails("TSTAR_BENCH_CQL_PID", lambda: live_of_output(OUTPUT.replace("400.0", "-")))
    fails("is not the output", lambda: live_of_output("fleet: none"))

    text = "a\n<!-- sizing: x -->\nold\n<!-- end of sizing -->\nb\n"
    assert filled(text, {"x": "new\n"}) == text.replace("old", "new")
    fails("0 times", lambda: filled(text, {"y": ""}))
    print(f"the arithmetic is right; {tried} examples ran")
