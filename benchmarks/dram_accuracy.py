"""Compares the banked memory with a cycle-level DRAM simulator, over streams of requests.

    python benchmarks/dram_accuracy.py [--table FILE] [--json]

Each row of the table is a stream (see patterns.py for the names, which may have any sizes) into one channel of a
shipped memory, named in the column `timing`. FILE has the columns `timing` and `pattern`; it may have
`bytes_per_request`, `requests`, `address_mapping`, and what was measured: `cycles`, `row_hits`. With `--json` there is
one object on stdout and nothing else. The exit status is 1 when a row could not be simulated, and 2 when FILE makes no
sense.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from patterns import UnknownPattern, pattern
from request_stream import Stream, run_stream

from simulator.errors import MachineError
from simulator.machine.dram_file import Memory, load_memory

TABLE = Path(__file__).parent / "data" / "dram_reference.csv"
REQUESTS = 40_000
SPANS = {"HBM2": 1 << 30, "DDR4": 8 << 30}
"""Bytes that the patterns use, by standard, where it is not the whole channel."""


@dataclass(frozen=True)
class Row:
    """A stream, and what is known of it."""

    timing: str
    pattern: str
    requests: int
    bytes_per_request: int | None
    mapping: str | None
    measured: int | None
    measured_hits: int | None


class BadTable(ValueError):
    """A table that cannot be read."""


def read_table(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or ()
        for needed in ("timing", "pattern"):
            if needed not in columns:
                raise BadTable(f"{path} has no column `{needed}`; its columns are {', '.join(columns)}")
        rows: list[Row] = []
        for line in reader:

            def number(column: str, line: dict[str, str] = line) -> int | None:
                text = (line.get(column) or "").strip()
                if text and not text.isdecimal():
                    raise BadTable(f"{path}: {line['pattern']}: {column} is {text!r}, expected a whole number")
                return int(text) if text else None

            asked = number("requests")
            rows.append(
                Row(
                    timing=line["timing"],
                    pattern=line["pattern"],
                    requests=REQUESTS if asked is None else asked,
                    bytes_per_request=number("bytes_per_request"),
                    mapping=line.get("address_mapping") or None,
                    measured=number("cycles"),
                    measured_hits=number("row_hits"),
                )
            )
    return rows


def simulate(row: Row) -> Stream:
    """The row's stream through one channel."""
    memory = load_memory(row.timing)
    if row.mapping is not None:
        memory = replace(memory, address=row.mapping)
    request = row.bytes_per_request or memory.request_bytes
    if request != memory.request_bytes:
        raise MachineError(f"a request of {memory.name} is {memory.request_bytes} bytes, not {request}")
    addresses, writes = pattern(row.pattern, row.requests, request, SPANS.get(memory.standard, _capacity(memory)))
    return run_stream(memory, addresses, writes)


def _capacity(memory: Memory) -> int:
    return memory.pseudo_channels * memory.bank_groups * memory.banks * memory.rows * memory.row_bytes


def mean_abs_error(pairs: list[tuple[Row, Stream]]) -> float | None:
    """Over the rows that were measured; None without any."""
    errors = [abs(stream.cycles / row.measured - 1) for row, stream in pairs if row.measured]
    return statistics.fmean(errors) if errors else None


def table(pairs: list[tuple[Row, Stream]]) -> str:
    """The rows for reading."""
    lines = ["| timing | pattern | measured | simulated | error | hits measured | hits | misses | conflicts |"]
    lines.append("|---|---|" + "--:|" * 7)
    for row, stream in pairs:
        error = "" if not row.measured else f"{stream.cycles / row.measured - 1:+.2%}"
        told = ["" if value is None else f"{value:,}" for value in (row.measured, row.measured_hits)]
        counts = [f"{stream.counters[name]:,}" for name in ("row_hits", "row_misses", "row_conflicts")]
        lines.append(
            f"| {row.timing} | {row.pattern} | {told[0]} | {stream.cycles:,} | {error} | {told[1]} | "
            + " | ".join(counts)
            + " |"
        )
    mean = mean_abs_error(pairs)
    return "\n".join([*lines, "" if mean is None else f"mean of absolute errors: {mean:.2%}"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Simulated beside reference cycles of DRAM request streams.", allow_abbrev=False
    )
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        rows = read_table(given.table)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    pairs: list[tuple[Row, Stream]] = []
    for row in rows:
        began = time.perf_counter()
        try:
            pairs.append((row, simulate(row)))
        except (MachineError, UnknownPattern) as error:
            print(f"{row.timing} {row.pattern}: {error}", file=sys.stderr)
            continue
        print(f"{row.timing} {row.pattern} ({time.perf_counter() - began:.1f} s)", file=sys.stderr)
    if given.json:
        listed = [
            {"pattern": row.pattern, "timing": row.timing, "measured": row.measured, "simulated": stream.cycles}
            for row, stream in pairs
        ]
        print(json.dumps({"rows": listed, "mean_abs_error": mean_abs_error(pairs)}, indent=1))
    else:
        print(table(pairs))
    return 0 if len(pairs) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
