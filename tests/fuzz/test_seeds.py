"""Some of the first fifty random programs: right on whatever machine each is for. `make fuzz N=...` draws them all."""

from __future__ import annotations

import pytest

from tests.fuzz.conv_nets import judged_net
from tests.fuzz.generate import generate
from tests.fuzz.judge import judge

MENDED = (50257, 60235)
"""Programs that were refused: a result made of no tensor, and a gather, beside a reduction."""
MENDED_NETS = (89, 246, 697)
"""Nets that were refused or failed: rows of a group norm's backward that were cut where the kernel would have other
dims then, and the padding of windows that reach one row of an image, or one place of each group's."""


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=4)
@pytest.mark.parametrize("seed", range(50))
def test_the_program_of_a_seed_is_right(seed: int):
    assert_right(seed)


@pytest.mark.test_all
@pytest.mark.parametrize("seed", MENDED)
def test_what_was_refused_is_right(seed: int):
    assert_right(seed)


@pytest.mark.test_all
@pytest.mark.parametrize("seed", MENDED_NETS)
def test_a_net_whose_training_failed_is_right(seed: int):
    verdict = judged_net(seed)
    assert not verdict.bad, f"{verdict.kind}: {verdict.detail}"


def assert_right(seed: int) -> None:
    program = generate(seed)
    verdict = judge(program)
    assert not verdict.bad, f"{verdict.kind}: {verdict.detail}\n{program.text()}"
