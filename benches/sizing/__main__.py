"""Computes what a fleet needs: brokers, instances, memory, CQL nodes and disk.

    python3 benches/sizing           prints the tables of docs/sizing.md
    python3 benches/sizing --vehicles 2500 --interval 5 --hours 2
    python3 benches/sizing --live SLOW --live FAST
                                     from outputs of cargo bench --bench live, at two rates
    python3 benches/sizing --write   writes the marked parts of docs/sizing.md
    python3 benches/sizing --check   fails if they differ
    python3 benches/sizing --self-test
                                     checks the arithmetic

Every figure is measured (read from the tables of docs/performance.md, or from the output of a
bench), an assumption (a flag), or computed from these. Needs Python 3.8, and no packages.
"""

import argparse
import sys
from pathlib import Path

# Nothing is left in the repository.
sys.dont_write_bytecode = True

from measured import Costs, Problem, live_of_output  # noqa: E402
from need import ASSUMPTIONS, INTERVALS, VEHICLES  # noqa: E402
from page import filled, needs, parts  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = ROOT / "docs/performance.md"
PAGE = ROOT / "docs/sizing.md"


def check(parser, vehicles, given):
    """Refuses assumptions that cannot be."""
    may_be_0 = ("spare", "margin", "midnight", "record", "event")
    if vehicles is not None and vehicles < 1:
        parser.error(f"--vehicles {vehicles} is below 1")
    for name, _, unit, _ in ASSUMPTIONS:
        value = given[name]
        if isinstance(value, str):
            continue
        if not 0 <= value < float("inf") or value == 0 and name not in may_be_0:
            parser.error(f"--{name} {value:g} is not above 0")
        if unit == "share" and value > 1:
            parser.error(f"--{name} {value:g} is above 1; write 0.5 for a half")
    if given["hours"] / 24 > given["peak"]:
        parser.error(f"--hours {given['hours']:g} of 24 are a higher share than --peak "
                     f"{given['peak']:g}, the share at the busiest time")


def arguments():
    parser = argparse.ArgumentParser(
        description="Computes what a fleet needs, from the measured costs of docs/performance.md.")
    parser.add_argument("--vehicles", type=int, metavar="N", help="one fleet instead of four")
    parser.add_argument("--interval", type=int, metavar="SECONDS",
                        help="one interval between samples instead of three")
    parser.add_argument("--live", action="append", type=Path, metavar="FILE",
                        help="output of cargo bench --bench live; twice, at two rates")
    parser.add_argument("--measured", type=Path, default=MEASURED, metavar="FILE",
                        help="page of measurements; default docs/performance.md")
    parser.add_argument("--write", action="store_true", help="write docs/sizing.md")
    parser.add_argument("--check", action="store_true", help="fail if docs/sizing.md differs")
    parser.add_argument("--self-test", action="store_true", help="check the arithmetic")
    for name, default, unit, meaning in ASSUMPTIONS:
        text = f"{meaning}; {unit}, default {default}" if unit else f"{meaning}; default {default}"
        metavar = "NAME" if isinstance(default, str) else "N"
        parser.add_argument(f"--{name}", type=type(default), default=default, metavar=metavar,
                            help=text)
    args = parser.parse_args()
    given = {name: getattr(args, name.replace("-", "_")) for name, _, _, _ in ASSUMPTIONS}
    check(parser, args.vehicles, given)
    is_changed = given != {name: default for name, default, _, _ in ASSUMPTIONS}
    if (args.write or args.check) and (is_changed or args.live or args.vehicles or args.interval):
        parser.error("the page has the default assumptions: leave out the other flags")
    return args, given


def run():
    args, given = arguments()
    if args.self_test:
        import checks
        return checks.run()
    text = args.measured.read_text(encoding="utf-8")
    live = [live_of_output(it.read_text(encoding="utf-8")) for it in args.live or []]
    costs = Costs(text, live)
    if args.write or args.check:
        page = PAGE.read_text(encoding="utf-8")
        fresh = filled(page, parts(costs, given, text))
        if args.write:
            PAGE.write_text(fresh, encoding="utf-8")
        elif fresh != page:
            raise Problem("docs/sizing.md differs from the measured figures; run "
                          "python3 benches/sizing --write")
        return None
    vehicles = [args.vehicles] if args.vehicles else VEHICLES
    for interval in [args.interval] if args.interval else INTERVALS:
        print(f"A sample each {interval} s:\n\n{needs(costs, given, vehicles, interval)}")
    return None


if __name__ == "__main__":
    try:
        run()
    except (Problem, OSError) as problem:
        sys.exit(f"sizing: {problem}")
