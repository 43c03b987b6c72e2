"""Tables of measured times: one of cycles of a TPU v3, or one of microseconds of a TPU v4.

    workload,tpu_v3_cycles,mnpusim,...                                       cycles, and those of other simulators
    workload,regime,input_dtype,output_dtype,measured_us,samples             microseconds

The columns tell which it is. Any but `workload` may be missing, and any cell but the workload's empty: then nothing was
measured, or the types are those that the caller gives.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workloads import DTYPES, maker

from simulator.machine.machine import Machine

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Kind:
    """The kind of a table's numbers."""

    unit: str
    measured: str
    """The column of what was measured."""
    machine: str
    """The shipped machine that is the measured chip."""
    table: Path
    """The one that is kept here."""

    def time(self, machine: Machine, cycles: int) -> float:
        """So many cycles in the table's unit."""
        return cycles if self.unit == "cycles" else machine.microseconds(cycles)


CYCLES = Kind("cycles", "tpu_v3_cycles", "tpu-v3", DATA / "tpu_v3_cycles.csv")
MICROSECONDS = Kind("us", "measured_us", "tpu-v4-chip", DATA / "tpu_v4_times.csv")
KINDS = (CYCLES, MICROSECONDS)
_TYPES = ("input_dtype", "output_dtype")
_OF_MICROSECONDS = (MICROSECONDS.measured, "regime", *_TYPES, "samples")


@dataclass(frozen=True)
class Row:
    """A workload, and what is known of it."""

    workload: str
    line: int
    measured: float | None = None
    others: Mapping[str, int] = field(default_factory=dict[str, int])
    """The figures of other simulators."""
    regime: str = ""
    input_dtype: str = ""
    output_dtype: str = ""


@dataclass(frozen=True)
class Table:
    path: Path
    kind: Kind
    rows: Sequence[Row]
    refused: Sequence[str]
    """Of each row that makes no sense, where it is and what was expected."""


LEAST, MOST = 1e-6, 1e15
"""Times between a picosecond and some weeks of cycles: errors of others would be no numbers."""


class BadTable(ValueError):
    """A table of which no row can be read."""


def read_table(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            kind = _kind(path, reader.fieldnames or ())
            lines = [(reader.line_num, cells) for cells in reader]
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadTable(f"{path}: {error}; expected comma-separated values in UTF-8") from None
    rows, refused = list[Row](), list[str]()
    for line, cells in lines:
        try:
            rows.append(_row(cells, line, kind))
        except ValueError as error:
            refused.append(f"{path}, line {line}: {error}")
    return Table(path, kind, rows, refused)


def _kind(path: Path, columns: Sequence[str]) -> Kind:
    """The kind that the columns say; raises for columns that belong to no table, or to two."""
    where = f"{path}, line 1"
    shown = ", ".join(columns) or "none"
    if "workload" not in columns:
        raise BadTable(f"{where}: there is no column `workload`; its columns are {shown}")
    if "" in columns:
        raise BadTable(f"{where}: column {columns.index('') + 1} has no name; expected one, or no comma at the end")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise BadTable(f"{where}: the column `{twice[0]}` stands there twice; expected each once")
    of_microseconds = [name for name in columns if name in _OF_MICROSECONDS]
    if not of_microseconds:
        return CYCLES
    others = [name for name in columns if name not in (*of_microseconds, "workload")]
    if others:
        told = f"the columns `{of_microseconds[0]}` and `{others[0]}` do not belong together"
        expected = f"`workload, {CYCLES.measured}` and other simulators, or `workload, {', '.join(_OF_MICROSECONDS)}`"
        raise BadTable(f"{where}: {told}; expected {expected}")
    given = [name for name in _TYPES if name in columns]
    if len(given) == 1:
        missing = next(name for name in _TYPES if name not in given)
        raise BadTable(f"{where}: there is `{given[0]}` and no `{missing}`; expected both or neither")
    return MICROSECONDS


def _row(cells: Mapping[str | None, object], line: int, kind: Kind) -> Row:
    """One row; raises what is wrong with it."""
    if None in cells or None in cells.values():
        many = "more" if None in cells else "fewer"
        raise ValueError(
            f"{cells.get('workload') or 'the row'}: {many} cells than there are columns; expected one of each"
        )
    texts = {str(name): str(text).strip() for name, text in cells.items()}
    name = texts.pop("workload")
    maker(name)  # raises for a name of no workload
    measured = _number(name, kind.measured, texts.pop(kind.measured, ""), whole=kind == CYCLES)
    if kind == CYCLES:
        numbers = {other: _number(name, other, text, whole=True) for other, text in texts.items()}
        return Row(name, line, measured, {other: int(number) for other, number in numbers.items() if number})
    for column in _TYPES:
        if texts.get(column, "") not in ("", *DTYPES):
            raise ValueError(f"{name}: {column} is {texts[column]!r}; expected one of {', '.join(DTYPES)}")
    _number(name, "samples", texts.get("samples", ""), whole=True)
    types = (texts.get(column, "") for column in _TYPES)
    return Row(name, line, measured, {}, texts.get("regime", ""), *types)


def _number(name: str, column: str, text: str, *, whole: bool) -> float | None:
    """The number in a cell, None in an empty one."""
    if not text:
        return None
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = math.nan
    if not LEAST <= number <= MOST:
        expected = "a whole number" if whole else "a number"
        raise ValueError(
            f"{name}: {column} is {text!r:.40}; expected {expected} from {LEAST:g} to {MOST:g}, or nothing"
        )
    return number
