"""Measures what each mechanism of the simulator contributes: the mean errors with one of them off, on both chips.

    python benchmarks/ablation.py [--memory simple|banked] [--sample N] [--seed N] [--jobs N] [--json]

Programs stay as they were compiled with all mechanisms; only the simulator goes without one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from accuracy_report import mean_abs_error
from measured_tables import KINDS, Kind
from simulated_rows import Figures, Simulated, options, simulated

MECHANISMS: tuple[tuple[str, Figures], ...] = (
    ("all on", {}),
    ("a launch costs nothing", {"launch_overhead_cycles": 0}),
    ("DRAM answers at once", {"dram_latency_ns": 0}),
    ("the way to DRAM is none", {"interconnect_latency_cycles": 0}),
    ("refreshes bank by bank", {"dram_refresh": "each"}),
    ("refreshes of hot memory", {"dram_refresh_rate": 2}),
    ("queues as the reference has them", {"dram_queue_entries": 0}),
    ("streams reach the peak of a simple memory", {"dram_stream_share": 1.0}),
    ("DRAM without banks", {"memory": "simple"}),
    ("tensors without blocks of 8 x 128", {"dram_tile": ""}),
    ("weights switch at once", {"weight_switch_cycles": 0}),
    ("steps across lanes cost nothing", {"cross_lane_step_cycles": 0}),
    ("turning tiles costs nothing", {"transpose_cycles_per_vector": 0}),
    ("special functions answer at once", {"special_latency_cycles": 1}),
    ("16-bit floats are computed as they are", {"vector_narrowest_float_bytes": 2}),
    ("16-bit floats are widened at once", {"vector_conversion_operations": 1}),
)
"""The mechanism that is off, and the figures that say so."""


def mean_errors(rows: Sequence[Simulated], place: int) -> list[float | None]:
    """Of each chip, of our programs and of theirs, with the mechanism at this place off."""
    return [
        mean_abs_error((getattr(row, whose)[place], row.measured) for row in rows if row.kind == kind)
        for whose in ("ours", "theirs")
        for kind in KINDS
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="The errors with one mechanism off at a time.", allow_abbrev=False)
    options(parser)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    off: list[dict[Kind, Figures]] = [dict.fromkeys(KINDS, figures) for _, figures in MECHANISMS]
    rows = [*simulated(given, off)]
    heads = [f"{kind.machine} {whose}" for whose in ("ours", "theirs") for kind in KINDS]
    found = {name: mean_errors(rows, place) for place, (name, _) in enumerate(MECHANISMS)}
    if given.json:
        print(json.dumps({name: dict(zip(heads, errors, strict=True)) for name, errors in found.items()}, indent=1))
        return 0
    print("| off | " + " | ".join(heads) + " |\n|---|" + "--:|" * len(heads))
    for name, errors in found.items():
        print(f"| {name} | " + " | ".join("" if error is None else f"{error:.1%}" for error in errors) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
