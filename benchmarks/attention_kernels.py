"""Attention as one kernel and as the three of its formula: cycles, and the bytes that they move over DRAM.

    python benchmarks/attention_kernels.py [--tokens N ...] [--machines NAME ...] [--heads N] [--width N] [--causal]
        [--two]

Without options 12 heads of 64 at 512 and at 4,096 tokens in f32, on four machines. The exit status is 1 if one kernel
takes longer than the others somewhere. With `--two` the softmax is in the first product's kernel. At 4,096 tokens the
smallest machine takes minutes to simulate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
import torch.nn.functional as F

import workbench as wb
from workbench.lowering.fusion_options import UserFusion

MACHINES = ("edge-8x8", "tpu-v2", "tpu-v3", "tpu-v4")


@dataclass(frozen=True)
class Row:
    """One size on one machine; of each pair the first is of one kernel, the second of those of the formula."""

    tokens: int
    machine: str
    cycles: tuple[int, int]
    bytes: tuple[int, int]
    least: int
    """Bytes of queries, keys, values and the result."""


THREE: tuple[str, ...] = ("attention", "rows of a product")
TWO = THREE[:1]
"""Rules without which the formula has so many kernels."""


def measured(tokens: int, machine: str, heads: int, width: int, *, causal: bool, off: tuple[str, ...] = THREE) -> Row:
    q, k, v = (torch.randn(1, heads, tokens, width) for _ in range(3))
    attend = partial(F.scaled_dot_product_attention, is_causal=causal)
    cycles, moved = list[int](), list[int]()
    forms: tuple[UserFusion, UserFusion] = (None, {"off": off})
    for fusion in forms:
        run = wb.trace(attend, q, k, v, machine=machine, fusion=fusion).simulated
        cycles.append(run.cycles)
        moved.append(int(run.stats["dram_read_bytes"] + run.stats["dram_write_bytes"]))
    return Row(tokens, machine, (cycles[0], cycles[1]), (moved[0], moved[1]), 4 * q.nbytes)


def table(rows: list[Row], formula: str = "three") -> Iterator[str]:
    cycles, moved = (f"{what}, one kernel | {formula}" for what in ("cycles", "bytes"))
    yield f"| tokens | machine | {cycles} | | {moved} | q, k, v and result |"
    yield "|--:|---|--:|--:|--:|--:|--:|--:|"
    for row in rows:
        yield (
            f"| {row.tokens:,} | {row.machine} | {row.cycles[0]:,} | {row.cycles[1]:,} | "
            f"{row.cycles[0] / row.cycles[1]:.2f} | {row.bytes[0]:,} | {row.bytes[1]:,} | {row.least:,} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0], allow_abbrev=False)
    parser.add_argument("--tokens", nargs="+", type=int, default=[512, 4096], metavar="N")
    parser.add_argument("--machines", nargs="+", default=list(MACHINES), metavar="NAME")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--two", action="store_true")
    given = parser.parse_args()
    off = TWO if given.two else THREE
    rows = [
        measured(tokens, machine, given.heads, given.width, causal=given.causal, off=off)
        for tokens in given.tokens
        for machine in given.machines
    ]
    print("\n".join(table(rows, "two" if given.two else "three")))
    return 1 if any(row.cycles[0] >= row.cycles[1] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
