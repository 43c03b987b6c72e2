"""Wrong results, which of them count, and whether the comparison behind `j.check()` sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from tests.operators import OPERATORS
from tests.operators.entry import OTHERS, SINGLE, Case, Operator
from workbench.checking.rounding_allowance import one_unit
from workbench.checking.tensor_comparison import Pair, compare
from workbench.checking.wide_reference import Answers, Arithmetic
from workbench.operators.tensors.element_types import dtype_name
from workbench.operators.tensors.torch_literals import to_type

SMALLER = {
    torch.float64: torch.float32, torch.float32: torch.float16, torch.float16: torch.float8_e5m2,
    torch.bfloat16: torch.float8_e5m2, torch.int64: torch.int32, torch.int32: torch.int16, torch.int16: torch.int8,
}  # fmt: skip
TYPES = (SINGLE, torch.float64, *OTHERS)


def _swapped(right: torch.Tensor) -> torch.Tensor:
    """The first and the last row, along the first dim that has two."""
    dim = next((dim for dim, extent in enumerate(right.shape) if extent > 1), None)
    if dim is None:
        return right
    order = torch.arange(right.shape[dim])
    order[0], order[-1] = right.shape[dim] - 1, 0
    return right.index_select(dim, order)


def _smaller(right: torch.Tensor) -> torch.Tensor:
    return right.to(SMALLER.get(right.dtype, right.dtype)).to(right.dtype)


MUTATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zero": torch.zeros_like,
    "x 1.05": lambda right: (right.double() * 1.05).to(right.dtype),
    "rows swapped": _swapped,
    "smaller type": _smaller,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One result made wrong in one way."""

    operator: str
    dtype: str
    case: int
    result: int
    result_type: str
    mutation: str
    why_not: str
    """Why it does not count; nothing when it does."""
    caught: bool

    @property
    def kind(self) -> str:
        return "float" if self.result_type in ("f64", "f32", "f16", "bf16") else "whole"


def calls() -> list[tuple[str, torch.dtype, int]]:
    """Every operator in every type that PyTorch takes it in, for every case."""
    found: list[tuple[str, torch.dtype, int]] = []
    for name, op in OPERATORS.items():
        taken = op.only or [dtype for dtype in TYPES if op.takes(dtype)]
        found += [(name, dtype, case) for dtype in taken for case in range(len(op.cases))]
    return found


def mutants(name: str, dtype: torch.dtype, case: int) -> Iterator[Mutant]:
    """All results of a call made wrong in all ways."""
    torch.default_generator.manual_seed(case)
    answers = answered(OPERATORS[name], OPERATORS[name].cases[case], dtype)
    for place, right in enumerate(answers.native):
        for mutation, change in MUTATIONS.items():
            wrong = change(right)
            why = why_not(right, wrong, answers.reference[place])
            caught = not why and not _agrees(answers, place, wrong)
            yield Mutant(name, dtype_name(dtype), case, place, dtype_name(right.dtype), mutation, why, caught)


def answered(op: Operator, case: Case, dtype: torch.dtype) -> Answers:
    """PyTorch's answers to a call, in any arithmetic."""
    inputs = op.inputs(case, dtype)

    def evaluate(arithmetic: Arithmetic) -> list[torch.Tensor]:
        copies = [tensor.clone() for tensor in inputs]
        with torch.no_grad(), arithmetic(copies):
            return [leaf.clone() for leaf in pytree.tree_leaves(op.call(*copies))]

    return Answers(evaluate)


def _agrees(answers: Answers, place: int, wrong: torch.Tensor) -> bool:
    got = [wrong if each == place else right for each, right in enumerate(answers.native)]
    pairs = [Pair(f"result {each}", tensor, to_type(tensor)) for each, tensor in enumerate(got)]
    return compare(pairs, answers)[place].ok


def why_not(right: torch.Tensor, wrong: torch.Tensor, reference: torch.Tensor) -> str:
    """Why a wrong result cannot be told from a right one; nothing when it can."""
    same = (right == wrong) | (right.isnan() & wrong.isnan())
    if bool(same.all()):
        return "unchanged"
    if not right.is_floating_point():
        return ""
    wide = reference.double()
    away = torch.where(same, 0.0, (wrong.double() - right.double()).abs())
    away = torch.where(away.isnan(), torch.inf, away)
    error = (right.double() - wide).abs()
    own = float(error[error.isfinite()].max()) if bool(error.isfinite().any()) else 0.0
    if not bool((away > one_unit(wide, right.dtype)).any()):
        return "within one unit"
    if not bool(((away > one_unit(wide, right.dtype)) & (away > 4 * own)).any()):
        return "within four times PyTorch's error"
    return ""
