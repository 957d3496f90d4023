"""The measured figures: tables and sentences of docs/performance.md, and outputs of benches."""

import re
from collections import namedtuple

# A run of the live bench: samples a second; CPU us a sample of tstar, of its replay and of the CQL
# server; rows and bytes to the CQL server, for each sample.
Run = namedtuple("Run", "rate tstar replayed cql rows bytes")


class Problem(Exception):
    """Something that the user can correct."""


def tables(text):
    """The Markdown tables of a text, each a list of rows of cells; the head is the first."""
    found, rows = [], []
    for line in text.splitlines() + [""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif rows:
            found.append([rows[0]] + rows[2:])
            rows = []
    return found


def table(text, first, *columns):
    """The rows of the one table whose head starts with `first` and has `columns`."""
    fits = [it for it in tables(text)
            if it[0][0] == first and all(name in it[0] for name in columns)]
    if len(fits) != 1:
        raise Problem(f"{len(fits)} tables start with `{first}` and have {', '.join(columns)}; "
                      "the benches and this script have to name them alike")
    return [dict(zip(fits[0][0], row)) for row in fits[0][1:]]


def number(text):
    """The first number of a cell, such as `10,000`, `0.162, 0.0040` and `5 000`."""
    found = re.match(r"\d{1,3}(?:[ ,]\d{3})+(?!\d)|\d+(?:\.\d+)?", text)
    if not found:
        raise Problem(f"`{text}` does not start with a number")
    return float(re.sub("[ ,]", "", found.group()))


def numbers(text, pattern):
    """The numbers of a sentence."""
    found = re.search(pattern, text)
    if not found:
        raise Problem(f"no sentence matches `{pattern}`; the page was reworded: adapt the script")
    return [float(it) for it in found.groups()]


def live_of_page(text):
    """The runs of the live bench in the table of the page."""
    names = ["samples a second", "tstar", "tstar, replayed", "Cassandra", "rows a sample",
             "bytes to Cassandra a sample"]
    return [Run(*(number(row[name]) for name in names)) for row in table(text, *names)]


def live_of_output(text):
    """The last run in an output of the bench: its last table has a row for each."""
    fleet = re.search(r"^fleet: ([\d ]+) devices, a sample each (\d+) s", text, re.MULTILINE)
    found = [it for it in tables(text) if it[0][:3] == ["program", "samples", "tstar us a sample"]]
    if not fleet or not found:
        raise Problem("this is not the output of `cargo bench --bench live`")
    row = found[-1][-1]
    if "-" in (row[5], row[10]):
        raise Problem("the run did not measure the CQL server; set TSTAR_BENCH_CQL_PID")
    rate = number(fleet.group(1)) / number(fleet.group(2))
    return Run(rate, *(number(row[at]) for at in (2, 3, 5, 9, 10)))


def fitted(name, slow, fast):
    """Cost of a row, us, and of a second without work, us, from two runs.

    A run is its rate, its rows a sample and its cost a sample, us, which is
    rows x row + idle / rate:

    >>> fitted("tstar", (1_000, 0.5, 0.5 * 40 + 30), (10_000, 0.25, 0.25 * 40 + 3))
    (40.0, 30000.0)
    """
    (rate_1, rows_1, cost_1), (rate_2, rows_2, cost_2) = slow, fast
    divisor = rows_2 * rate_2 - rows_1 * rate_1
    if divisor <= 0:
        raise Problem("the run of the higher rate has to write more rows a second than the other")
    row = (cost_2 * rate_2 - cost_1 * rate_1) / divisor
    idle = (cost_1 - rows_1 * row) * rate_1
    if row <= 0 or idle < 0:
        raise Problem(f"{name}: the two runs give {row:.1f} us a row and {idle / 1000:.1f} ms a "
                      "second without work; one was disturbed: repeat them on an idle machine")
    return row, idle


class Costs:
    """Measured figures."""

    def __init__(self, text, live=None):
        runs = sorted(live or live_of_page(text))
        if len(runs) != 2:
            raise Problem(f"{len(runs)} rates of the live bench, two are needed")
        self.runs = runs
        # The higher one: records, decoding and trips, with next to no rows.
        self.replayed = max(run.replayed for run in runs)
        self.row, self.idle = fitted(
            "tstar", *((run.rate, run.rows, run.tstar - self.replayed) for run in runs))
        self.cql_row, self.cql_idle = fitted(
            "CQL server", *((run.rate, run.rows, run.cql) for run in runs))
        self.row_bytes = min(run.bytes / run.rows for run in runs)
        paced = table(text, "a sample each", "rows a sample")
        self.rows = {int(number(it["a sample each"])): number(it["rows a sample"]) for it in paced}
        formats = table(text, "records of a topic", "bytes a sample", "CPU s per million")
        self.formats = {it["records of a topic"]:
                        (number(it["bytes a sample"]), number(it["CPU s per million"]))
                        for it in formats}
        self.trip, self.fast_sample = numbers(
            text, r"takes about (\d+) bytes and \d+ for each sample \(.*real data at 1 s: ([\d.]+)")
        self.device, self.sample = numbers(
            text, r"(\d+) bytes were resident for each, .*without the sample, which takes (\d+)\)")
        programs = table(text, "step", "CPU s per million", "peak MiB")
        self.base = next(number(it["peak MiB"]) for it in programs
                         if it["step"].startswith("(d)")) * 2**20
        # Samples, bytes of the largest message of the three fleets, least that zstd saves.
        self.paths = [(number(it["samples"]),
                       max(float(cell) for cell in
                           it["message, bytes: buses, cars, simulated"].split(",")),
                       number(it["zstd saves"]) / 100)
                      for it in table(text, "samples", "message, bytes: buses, cars, simulated")]

    def path_sample(self, interval, samples):
        """Bytes of a sample in a stored path: real drives at 1 s, or the largest of the table."""
        if interval <= 1:
            return self.fast_sample
        fits = [it for it in self.paths if it[0] <= samples] or self.paths[:1]
        count, size, saved = fits[-1]
        return size * (1 - saved) / count

    def live(self, rows, rate):
        """CPU of a live sample at a rate, us: of tstar and of the CQL server."""
        return (self.replayed + rows * self.row + self.idle / rate,
                rows * self.cql_row + self.cql_idle / rate)
