"""Compares the simulator with a real TPU v3 and a real TPU v4.

    python benchmarks/accuracy.py [--table FILE] [--machine NAME] [--memory simple|banked] [--set FIGURE=VALUE ...]
                                  [--dtype f32|f16|bf16] [--off RULE ...] [--json]

Each workload of the table (see workloads.py for the names, which may have any sizes) is traced, compiled and simulated
twice: as any user's model is (our program), and in the form that the measured chip's compiler is known to give it
(their program, see their_programs.py; where nothing is known it is ours). FILE is a table of cycles of a TPU v3, or
of microseconds of a TPU v4 (see measured_tables.py). `--off RULE` switches a rule of fusion off in our program, and
`--off unmeasured` all those that nothing says the measured chips' compilers have. With `--json` there is one object on
stdout and nothing else. The exit status is 1 when a row makes no sense or could not be simulated, and 2 when FILE or an
option makes no sense.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from accuracy_report import Outcome, Program, as_json, as_text
from compiled_workloads import Compiled, NoSuchWork, both
from measured_tables import CYCLES, Kind, Row, Table, read_table
from their_programs import FUSED_BY_US_ALONE
from workloads import DTYPES

import workbench as wb
from simulator.machine.machine import Machine
from workbench.ground.errors import WorkbenchError
from workbench.lowering.fusion_options import rules_off


def program(compiled: Compiled, machine: Machine, kind: Kind) -> Program:
    """Simulates a program on the machine."""
    trace = compiled.on(machine)
    counters = trace.counters
    asked = counters["dram_read_bytes"] + counters["dram_write_bytes"]
    passes = asked / max(1, compiled.operand_bytes)
    return Program(kind.time(machine, trace.makespan), asked, counters["dram_request_bytes"], passes)


def outcome(row: Row, kind: Kind, machine: Machine, dtype: str, off: Sequence[str]) -> Outcome:
    programs = both(row, kind, machine, dtype, off)
    ours, operands = program(programs.ours, machine, kind), programs.theirs.operand_bytes
    theirs = ours if programs.theirs is programs.ours else program(programs.theirs, machine, kind)
    documented = programs.form and programs.form.asked_bytes(operands, programs.theirs.result_bytes)
    passes = None if documented is None else documented / max(1, operands)
    return Outcome(row, ours, theirs, passes, programs.form and programs.form.words)


def outcomes(table: Table, machine: Machine, dtype: str, off: Sequence[str]) -> Iterator[Outcome]:
    """Of every row that can be simulated; says on stderr what was done and what failed."""
    for row in table.rows:
        began = time.perf_counter()
        where = f"{table.path}, line {row.line}: {row.workload}"
        try:
            found = outcome(row, table.kind, machine, dtype, off)
        except NoSuchWork as error:
            print(f"{where}: {error}", file=sys.stderr)
        except Exception as error:  # one workload that fails should not hide the others
            told = "; ".join(str(error).splitlines())
            print(f"{where}: {type(error).__name__}: {told}", file=sys.stderr)
        else:
            took = f"{time.perf_counter() - began:.0f} s"
            print(f"{row.workload}: {found.ours.time:,.6g}, theirs {found.theirs.time:,.6g} ({took})", file=sys.stderr)
            yield found


def options(parser: argparse.ArgumentParser) -> None:
    """The options that choose the machine's figures; they end up in `figures`."""
    parser.set_defaults(figures={})
    parser.add_argument("--memory", choices=("simple", "banked"), default="simple", help="the model of the DRAM")
    parser.add_argument("--set", action=SetFigure, metavar="FIGURE=VALUE", help="a figure of the machine; repeatable")


class SetFigure(argparse.Action):
    """Collects `FIGURE=VALUE`."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: object = None
    ) -> None:
        key, _, value = str(values).partition("=")
        if key == "memory":
            parser.error("--set memory=...: the memory is chosen with --memory simple or --memory banked")
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
    parser = argparse.ArgumentParser(description="Simulated beside measured times of two TPUs.", allow_abbrev=False)
    parser.add_argument("--table", type=Path, default=CYCLES.table, metavar="FILE")
    parser.add_argument(
        "--machine", metavar="NAME", help="tpu-v3 for a table of cycles, tpu-v4-chip for the other kind"
    )
    parser.add_argument("--dtype", choices=[*DTYPES], default="f32", help="of rows that do not say theirs")
    parser.add_argument("--off", action="append", default=[], metavar="RULE", help="repeatable; `unmeasured`: several")
    options(parser)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    off = [rule for each in given.off for rule in (FUSED_BY_US_ALONE if each == "unmeasured" else (each,))]
    try:
        rules_off({"off": off})  # refuses what is no rule
        table = read_table(given.table)
        machine = wb.machine(given.machine or table.kind.machine, memory=given.memory, **given.figures)
    except (OSError, ValueError, WorkbenchError) as error:
        print(error, file=sys.stderr)
        return 2
    for told in table.refused:
        print(told, file=sys.stderr)
    found = [*outcomes(table, machine, given.dtype, off)]
    print(json.dumps(as_json(found, table.kind), indent=1) if given.json else as_text(found, table.kind))
    return 1 if table.refused or len(found) < len(table.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
