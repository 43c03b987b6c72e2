"""How near the simulator comes to a real TPU v3, beside four other simulators.

    python benchmarks/accuracy.py [--table FILE] [--memory simple|banked] [--set FIGURE=VALUE ...] [--json]

Each workload of the table (see workloads.py for the names, which may have any sizes) is traced, compiled and simulated
as any user's model is. FILE has a column `workload`, and may have `tpu_v3_cycles`, what was measured, and columns of
other simulators. With `--json` there is one object on stdout and nothing else. The exit status is 1 when a workload
could not be simulated, and 2 when FILE or an option makes no sense.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from workloads import UnknownWorkload, workload

import workbench as wb
from simulator.errors import WorkbenchError
from simulator.machine.machine import Machine

TABLE = Path(__file__).parent / "data" / "tpu_v3_cycles.csv"
MACHINE = "tpu-v3"


@dataclass(frozen=True)
class Row:
    """A workload, and what is known of it."""

    workload: str
    measured: int | None
    others: dict[str, int]
    """What other simulators say."""


class BadTable(ValueError):
    """A table that cannot be read."""


def read_table(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if "workload" not in (reader.fieldnames or ()):
            raise BadTable(f"{path} has no column `workload`; its columns are {', '.join(reader.fieldnames or ())}")
        rows: list[Row] = []
        for line in reader:
            name = line.pop("workload")
            try:
                numbers = {key: int(text) for key, text in line.items() if key and text}
            except ValueError as error:
                raise BadTable(f"{path}: {name}: {error}") from None
            rows.append(Row(name, numbers.pop("tpu_v3_cycles", None), numbers))
    return rows


def cycles(name: str, machine: Machine) -> int:
    """What the workload takes on the machine."""
    given = workload(name)
    return wb.trace(given.function, *given.inputs, machine=machine).simulated.cycles


def error_of(simulated: int, measured: int) -> float:
    return (simulated - measured) / measured


def mean_abs_error(pairs: list[tuple[int, int | None]]) -> float | None:
    """Of (simulated, measured) pairs, over those that were measured; None without any."""
    errors = [abs(error_of(simulated, measured)) for simulated, measured in pairs if measured is not None]
    return statistics.fmean(errors) if errors else None


def table(rows: list[Row], simulated: dict[str, int]) -> str:
    """The rows for reading, beside what other simulators say, and the mean error of each column."""
    others = list(dict.fromkeys(name for row in rows for name in row.others))
    lines = ["| workload | measured | simulated | error |" + "".join(f" {name} |" for name in others)]
    lines.append("|---|--:|--:|--:|" + "--:|" * len(others))
    for row in rows:
        numbers = {"": simulated[row.workload], **row.others}
        shown = {
            name: "" if row.measured is None else f"{error_of(number, row.measured):+.1%}"
            for name, number in numbers.items()
        }
        measured = "" if row.measured is None else f"{row.measured:,}"
        cells = [row.workload, measured, f"{simulated[row.workload]:,}", shown[""]]
        cells += [f"{row.others[name]:,} ({shown[name]})" if name in row.others else "" for name in others]
        lines.append("| " + " | ".join(cells) + " |")
    ours = [(simulated[row.workload], row.measured) for row in rows]
    theirs = [[(row.others[name], row.measured) for row in rows if name in row.others] for name in others]
    means = ["" if mean is None else f"{mean:.1%}" for mean in map(mean_abs_error, [ours, *theirs])]
    lines.append("| mean of absolute errors | | | " + " | ".join(means) + " |")
    return "\n".join(lines)


def simulate(rows: list[Row], machine: Machine) -> dict[str, int]:
    """Cycles of every workload that can be simulated; says on stderr what was done and what failed."""
    found: dict[str, int] = {}
    for row in rows:
        began = time.perf_counter()
        try:
            found[row.workload] = cycles(row.workload, machine)
        except UnknownWorkload:
            raise
        except Exception as error:  # one workload that fails should not hide the others
            print(f"{row.workload}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        print(f"{row.workload}: {found[row.workload]:,} ({time.perf_counter() - began:.0f} s)", file=sys.stderr)
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """The options that choose the machine's figures; they end up in `figures`."""
    parser.set_defaults(figures={})
    parser.add_argument("--memory", choices=("simple", "banked"), default="simple", help="the model of the DRAM")
    parser.add_argument("--set", action=SetFigure, metavar="FIGURE=VALUE", help="a figure of the machine; repeatable")


class SetFigure(argparse.Action):
    """Collects `FIGURE=VALUE`."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, option: object = None) -> None:
        key, _, value = str(values).partition("=")
        namespace.figures = {**namespace.figures, key: figure(value)}


def figure(text: str) -> int | float | str:
    """A figure of the machine as TOML would read it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulated beside measured cycles of a TPU v3.", allow_abbrev=False)
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    options(parser)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        machine = wb.machine(MACHINE, memory=given.memory, **given.figures)
        rows = read_table(given.table)
        simulated = simulate(rows, machine)
    except (OSError, ValueError, WorkbenchError) as error:
        print(error, file=sys.stderr)
        return 2
    shown = [row for row in rows if row.workload in simulated]
    if given.json:
        pairs = [(simulated[row.workload], row.measured) for row in shown]
        listed = [
            {"workload": row.workload, "measured": row.measured, "simulated": simulated[row.workload]} for row in shown
        ]
        print(json.dumps({"rows": listed, "mean_abs_error": mean_abs_error(pairs)}, indent=1))
    else:
        print(table(shown, simulated))
    return 0 if len(shown) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
