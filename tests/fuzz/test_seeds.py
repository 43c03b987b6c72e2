"""The first fifty random programs: right on whatever machine each is for. `make fuzz N=...` goes on from there."""

from __future__ import annotations

import pytest

from tests.fuzz.generate import generate
from tests.fuzz.judge import judge

MENDED = (50257, 60235)
"""Programs that were refused: a result made of no tensor, and a gather, beside a reduction."""


@pytest.mark.parametrize("seed", [*range(50), *MENDED])
def test_the_program_of_a_seed_is_right(seed: int):
    program = generate(seed)
    verdict = judge(program)
    assert not verdict.bad, f"{verdict.kind}: {verdict.detail}\n{program.text()}"
