"""Every operator of the table with tensors that lie in memory in other orders than their dims."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.agreement import MACHINES
from tests.fuzz.fuzz_program import laid_out
from tests.operators import OPERATORS
from tests.operators.entry import SINGLE, Argument, Case, plain
from tests.operators.test_every_operator import assert_right

LAYOUTS = ("permuted", "expanded", "sliced", "channels_last")
NO_ANSWER = ("_int_mm", "expanded")
"""PyTorch reads beyond the numbers of an expanded operand: each of its answers is another one."""


def _laid(argument: Argument, layout: str, dtype: torch.dtype) -> torch.Tensor:
    return laid_out(plain(argument, dtype) if isinstance(argument, tuple) else argument(dtype), layout)


def _in_layout(case: Case, layout: str) -> Case:
    return tuple(partial(_laid, argument, layout) for argument in case)


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_tensors_in_other_orders(name: str, layout: str):
    """In a third of the operators each has one layout; whole, all have all."""
    if (name, layout) == NO_ANSWER:
        pytest.skip("PyTorch has no answer to compare with: test_pytorch_has_no_answer")
    op, turn = OPERATORS[name], list(OPERATORS).index(name) + LAYOUTS.index(layout)
    dtype = op.only[0] if op.only else SINGLE
    calls = [(dtype, _in_layout(case, layout)) for case in op.cases[1:4]]
    assert_right([(name, call) for call in calls], (MACHINES[turn % len(MACHINES)],))


def test_pytorch_has_no_answer():
    """When this fails, PyTorch is mended, and the sweep can compare `_int_mm` with expanded operands again."""
    a, b = torch.ones(13, 1, dtype=torch.int8).expand(13, 7), torch.ones(7, 11, dtype=torch.int8)
    assert not torch.equal(torch._int_mm(a, b), torch.full((13, 11), 7, dtype=torch.int32))
