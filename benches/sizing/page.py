"""The tables and the marked parts of docs/sizing.md."""

import math

from measured import Problem, number, table
from need import ASSUMPTIONS, INTERVALS, VEHICLES, Need


def rounded(value):
    """Two significant digits, with separators.

    >>> rounded(0.0123), rounded(4.96), rounded(147.6), rounded(123456)
    ('0.012', '5.0', '150', '120,000')
    """
    if value == 0:
        return "0"
    digits = 1 - math.floor(math.log10(abs(value)))
    value = round(value, digits)
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, digits)}f}"


def size(value):
    """Bytes with a decimal unit.

    >>> size(9.96e8), size(2.5e12), size(1.2e15), size(5e5)
    ('1.0 GB', '2.5 TB', '1.2 PB', '0.50 MB')
    """
    for limit, unit in ((995e12, "PB"), (995e9, "TB"), (995e6, "GB")):
        if value >= limit:
            return f"{rounded(value / {'PB': 1e15, 'TB': 1e12, 'GB': 1e9}[unit])} {unit}"
    return f"{rounded(value / 1e6)} MB"


def count(value, by):
    """A count of machines, and what decides it.

    >>> count(3, "copies"), count(1200, "disk")
    ('3', '1,200 (disk)')
    """
    return f"{value:,}" if by == "copies" else f"{value:,} ({by})"


def markdown(head, rows):
    """A table."""
    lines = [head, ["---"] * len(head)] + rows
    return "".join(f"| {' | '.join(row)} |\n".replace("| --- ", "|---").replace("--- |", "---|")
                   for row in lines)


def needs(costs, given, vehicles, interval):
    """The table of an interval."""
    head = ["vehicles", "samples/s, busiest", "to brokers, MB/s", "brokers", "topics, all copies",
            "partitions", "instances", "`--memory`, resident, each", "CQL nodes",
            "rows of a year, all copies"]
    rows = []
    for fleet in vehicles:
        it = Need(costs, given, fleet, interval)
        rows.append([
            f"{fleet:,}", rounded(it.rate), rounded(it.topic_rate / 1e6),
            count(it.brokers, it.brokers_by), size(it.topic_disk), f"{it.partitions:,}",
            f"{it.instances:,}", f"{size(it.memory)}, {size(it.resident)}",
            count(it.nodes, it.nodes_by), size(it.year)])
    return markdown(head, rows)


def assumptions(given):
    """The table of assumptions."""
    rows = []
    for name, _, unit, meaning in ASSUMPTIONS:
        value = given[name]
        if unit == "share":
            text = f"{value * 100:g} %"
        else:
            text = f"{value if isinstance(value, str) else format(value, 'g')} {unit}".strip()
        rows.append([f"`--{name}`", text, meaning])
    return markdown(["flag", "assumed", "meaning"], rows)


def measured(costs, given):
    """The costs, each with its source on the page of measurements."""
    runs = " and ".join(f"{run.rate:,.0f}" for run in costs.runs)
    fit = f"solved from the runs at {runs} samples/s of [Live fleets](performance.md#live-fleets)"
    live = "[Live fleets](performance.md#live-fleets)"
    paths = [costs.path_sample(it, given["trip"] * 60 / it) for it in INTERVALS]
    rows = [
        ["a sample in tstar: record, decoding, trip", f"{costs.replayed:.1f} µs",
         f"the higher replay of the same runs, {live}"],
        ["a row in tstar", f"{costs.row:.0f} µs", fit],
        ["an instance without work", f"{costs.idle / 1000:.0f} ms of CPU a second", "the same"],
        ["a row in Cassandra, one copy", f"{costs.cql_row:.0f} µs", "the same"],
        ["a node without work", f"{costs.cql_idle / 1000:.0f} ms of CPU a second", "the same"],
        ["a row on the wire, in those runs", f"{costs.row_bytes:.0f} bytes",
         "the smaller of bytes by rows of the same runs"],
        ["rows a sample at 1, 10 and 60 s", ", ".join(f"{costs.rows[it]:.3f}" for it in INTERVALS),
         live],
        ["bytes of a sample, canonical JSON", f"{costs.formats['canonical'][0]:.0f} bytes",
         "[Formats](performance.md#formats)"],
        ["a device and its first sample in memory", f"{costs.device:.0f} bytes",
         "[Files](performance.md#files)"],
        ["a further sample in memory, not packed", f"{costs.sample:.0f} bytes",
         "[Files](performance.md#files)"],
        ["`run` besides its trips, at most", f"{size(costs.base)}",
         "peak of (d), [Topics](performance.md#topics)"],
        ["a stored trip without its path", f"{costs.trip:.0f} bytes, in SQLite",
         "[Sizing](performance.md#sizing)"],
        ["a sample of a stored path at 1, 10 and 60 s",
         ", ".join(f"{it:.1f}" for it in paths) + " bytes",
         "at 1 s [Sizing](performance.md#sizing), real data; else "
         "[Paths](performance.md#paths), the largest of the three fleets"],
    ]
    return markdown(["cost", "measured", "from"], rows)


def compared(costs, text):
    """The model next to runs that it was not computed from."""
    rows = []
    for it in table(text, "run", "tstar", "Cassandra", "Kafka Streams", "rows a sample"):
        ours, cql = costs.live(number(it["rows a sample"]), 1_000)
        rows.append([f"1,000 samples/s, next to Kafka Streams, {it['run']}",
                     f"{ours:.0f}", it["tstar"], f"{cql:.0f}", it["Cassandra"]])
    fresh = next(it for it in table(text, "`run` into Cassandra", "rows a sample")
                 if it["`run` into Cassandra"] == "now")
    # As fast as it can, so the idle seconds do not count.
    ours, cql = costs.live(number(fresh["rows a sample"]), math.inf)
    rows.append(["a backlog of new devices", f"{ours:.0f}", fresh["CPU s per million"],
                 f"{cql:.0f}", fresh["server's CPU"]])
    return markdown(["run", "tstar, computed µs a sample", "measured", "Cassandra, computed",
                     "measured"], rows)


def example(costs, given):
    """A fleet in words, by the same numbers as the tables."""
    it = Need(costs, given, 100_000, 10)
    size_of_record = costs.formats[given["format"]][0] + given["record"]
    return "".join(f"{nth}. {line}\n" for nth, line in enumerate([
        f"**Samples.** At the busiest time {given['peak'] * 100:g} % of 100,000 vehicles drive and send "
        f"each {it.interval} s: {it.rate:,.0f} samples a second. Over the day it is "
        f"{given['hours']:g} h of 24: {it.mean_rate:,.0f} a second.",
        f"**Brokers.** A sample is a record of {size_of_record:.0f} bytes, and {it.rows:.3f} of an "
        f"event of {given['event']:.0f}: {it.topic_rate / 1e6:.1f} MB/s. "
        f"{given['topic-copies']:g} copies are "
        f"{it.topic_rate * given['topic-copies'] / 1e6:.1f} MB/s; {given['retention']:g} days are "
        f"{size(it.topic_disk)}. {count(it.brokers, it.brokers_by)} brokers.",
        f"**Instances.** A sample takes {costs.replayed:.1f} µs, and {it.rows:.3f} of a row of "
        f"{costs.row:.0f} µs; a row has {it.row:,.0f} bytes, {it.larger:.2f} times those measured: "
        f"{it.cpu:.1f} µs together, {it.rate * it.cpu / 1e6:.2f} cores. Of "
        f"{given['cores']:g} cores it may use {given['use'] * 100:g} %, less its idle work: working "
        f"instances {it.instances - given['spare']:g}, spare ones {given['spare']:g}.",
        f"**Memory.** {it.driving:,.0f} running trips of up to {it.samples_a_trip:.0f} samples: "
        f"{size(it.state)}, and {given['margin'] * 100:g} % more, on the instances without the spare. "
        f"`--memory` is {size(it.memory)} each, and resident {size(it.resident)}.",
        f"**CQL nodes.** {it.rate * it.rows:,.0f} rows a second of {costs.cql_row:.0f} µs, "
        f"{it.larger:.2f} times, in {given['row-copies']:g} copies: "
        f"{it.rate * it.rows * costs.cql_row * it.larger * given['row-copies'] / 1e6:.1f} cores. "
        f"A trip is stored in {it.stored_trip:,.0f} bytes; a year of them, copies and compaction "
        f"included, takes {size(it.year)}. {count(it.nodes, it.nodes_by)} nodes.",
    ], 1))


def parts(costs, given, text):
    """The generated parts of the page, by name."""
    made = {f"{it} s": needs(costs, given, VEHICLES, it) for it in INTERVALS}
    made["example"] = example(costs, given)
    made["measured"] = measured(costs, given)
    made["compared"] = compared(costs, text)
    made["assumptions"] = assumptions(given)
    return made


def filled(page, made):
    """The page with its marked parts replaced; each part has to be there once."""
    for name, text in made.items():
        begin, end = f"<!-- sizing: {name} -->\n", "<!-- end of sizing -->"
        if page.count(begin) != 1:
            raise Problem(f"the page has the mark `{begin.strip()}` {page.count(begin)} times")
        before, rest = page.split(begin)
        if end not in rest:
            raise Problem(f"part `{name}` of the page has no `{end}`")
        page = before + begin + text + end + rest.split(end, 1)[1]
    return page
