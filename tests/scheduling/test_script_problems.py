"""Tests that errors of a transform script use the words of the script."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from workbench.ground.errors import ScheduleScriptError


@pytest.fixture(scope="module")
def j() -> wb.Journey:
    return wb.trace(lambda x, w: (x @ w).relu(), torch.randn(128, 256), torch.randn(256, 512))


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("fuse %op", "fuse %os", 3, r"no line above defines the handle %os\S*; did you mean '%op\S*'\?"),
        ("in %root", "in %rot", 2, r"no line above defines the handle %rot; did you mean '%root'\?"),
        ("tile_sizes [0, ", "tile_sizes [32, ", 3, "expects 2 loop results: write %tiled, %loops:2"),
        ("outer:1 =", "outer:3 =", 3, "write as many handles before the = as types after the ->"),
        ("fuse %op2outer", "fuse %f2outer", 3, "a handle is used above the line that defines it"),
        ("yield\n}", "yield\n", 1, "a } is missing: for this {, or for one below"),
        ("yield\n}", "yield // }\n", 1, "a } is missing"),
        ("yield\n}", "yield\n}\n}", 12, "this } closes no {"),
        ("tile_sizes [0, 256]", "tile_sizes [0, 0]", 3, "it makes no loop, so write %tiled = "),
        (
            "  %f2outer",
            '  transform.annotate %zz "a" = %root : !transform.any_op, !transform.any_op\n  %f2outer',
            4,
            "the handle %zz",
        ),
        (
            "  %f2outer",
            '  transform.annotate %root "a\\"{" : !transform.any_op\n  %g = x.y\n  %f2outer',
            5,
            "there is no op 'x.y'",
        ),
        (
            "  %f2outer",
            "  // a \u2028 {{ b\n  transform.print %zz : !transform.any_op\n  %f2outer",
            5,
            "the handle %zz",
        ),
    ],
)
def test_problems_are_told_in_words_of_the_script(j: wb.Journey, before: str, after: str, line: int, words: str):
    name = j.scheduled.record.launches.launches[0].kernel
    script = j.scheduled.record.kernel(name).schedule
    assert before in script
    with pytest.raises(ScheduleScriptError, match=words) as told:
        _ = j.with_(schedule={"k0": script.replace(before, after, 1)}).scheduled
    assert [each.line for each in told.value.problems] == [line]
