"""A later machine is never slower: a seeded sample of `benchmarks/generations.py`."""

from __future__ import annotations

import random

import pytest

from benchmarks.generations import in_order, microseconds
from benchmarks.monotonic import ALL

SMALL = [name for name in ALL if name not in ("ffn_residual", "softmax_long_row", "matmul_512")]


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("memory", ["simple", "banked"])
@pytest.mark.parametrize("program", random.Random(16).sample(SMALL, 5))
def test_a_later_machine_is_no_slower(program: str, memory: str) -> None:
    assert in_order(microseconds(program, memory))


def test_a_slower_later_machine_is_told() -> None:
    assert not in_order({"tpu-v2": 2.0, "tpu-v3": 1.0, "tpu-v4": 1.5})
