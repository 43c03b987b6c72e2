"""Compares one sample call of one operator under `torch.compile(backend="npu")` with PyTorch.

Numbers are held against PyTorch's own only roughly: how exact they are is for other tests. What this is about is
whether a call works at all, and what is said when it does not.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch.utils import _pytree as pytree

from workbench.operators.tensors.element_types import DTYPES as DTYPES_KNOWN

DTYPES = ("float32", "int64", "bool", "complex64", "float16", "uint8", "bfloat16")
"""Element types that samples are taken in; the first five make the committed result."""

ROUGHLY = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 2e-3, torch.complex64: 2e-3}
"""Largest error of a number, relative to the largest number of the result."""


_NUMBERS = frozenset(DTYPES_KNOWN.values())
"""Types that PyTorch compares; others are compared bit by bit."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind` is right, host (right, with steps on the host), told (an error of ours), wrong, raw (any other error) or
    left (not judged: PyTorch or Dynamo refuses the call, or it draws random numbers)."""

    kind: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.kind in ("wrong", "raw", "dead")


@dataclass(frozen=True)
class Call:
    """An operator with the arguments of a sample."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, run: Callable[..., Any]) -> Any:
        """Calls `run` with fresh copies of the arguments; returns its result and those copies."""
        args, kwargs = pytree.tree_map(_copied, (self.args, self.kwargs))
        made = run(*args, **kwargs)
        return made, args, kwargs


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided else leaf


@cache
def operators() -> dict[str, Any]:
    """PyTorch's own list of operators with samples, by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name if not op.variant_test_name else f"{op.full_name}.{op.variant_test_name}": op for op in op_db}


def jobs(dtypes: tuple[str, ...], samples: int) -> list[tuple[str, str, int]]:
    """Every operator in each of the element types it has, so many samples each."""
    return [
        (name, dtype, number)
        for dtype in dtypes
        for name, op in operators().items()
        if op.supports_dtype(getattr(torch, dtype), "cpu")
        for number in range(samples)
    ]


def sample(name: str, dtype: str, number: int) -> Call | None:
    """The call of a sample; none when there are fewer."""
    torch.manual_seed(0)
    op = operators()[name]
    found = next(islice(op.sample_inputs("cpu", getattr(torch, dtype)), number, None), None)
    return None if found is None else Call(op.op, (found.input, *found.args), dict(found.kwargs))


def judge(name: str, dtype: str, number: int) -> Verdict:
    if "empty" in name or name == "argsort":
        return Verdict("left", "what is in it is anybody's guess, or which of equals comes first")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            call = sample(name, dtype, number)
        except Exception as error:
            return Verdict("left", f"no sample: {type(error).__name__}")
        if call is None:
            return Verdict("left", "no sample")
        return judged(replace(call, function=_without_places(call.function)) if name in EQUALS else call)


EQUALS = ("kthvalue", "median", "mode", "nanmedian", "sort", "topk")
"""Which of equals they name is open: docs/differences.md."""


def _without_places(function: Callable[..., Any]) -> Callable[..., Any]:
    """The operator without the places that it found."""

    def values(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        return made if isinstance(made, torch.Tensor) else made[0]

    return values


def judged(call: Call) -> Verdict:
    """Compiled, and compared with PyTorch."""
    import workbench as wb

    try:
        expected, again = call(call.function), call(call.function)
    except Exception as error:
        return Verdict("left", f"PyTorch refuses: {type(error).__name__}")
    if difference(again, expected):
        return Verdict("left", "random")
    torch._dynamo.reset()
    before = wb.last_journeys()
    try:
        got = call(torch.compile(wrapped(call.function), backend="npu"))
    except Exception as error:
        if refused_by_dynamo(call):
            return Verdict("left", "Dynamo refuses")
        told = isinstance(error, wb.errors.WorkbenchError)
        said = f"{type(error).__name__}: {error}"
        return Verdict("told", said) if told else Verdict("raw", traceback.format_exc(limit=-6))
    if problem := difference(got, expected):
        return Verdict("wrong", problem)
    hosted = sorted(
        {
            item.node.op
            for journey in (wb.last_journeys() if wb.last_journeys() != before else ())
            for item in journey.lowered.record.nodes
            if item.route == "host"
        }
    )
    return Verdict("host", " ".join(hosted)) if hosted else Verdict("right")


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The operator inside a function of Python, which is what Dynamo compiles."""

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return program


def refused_by_dynamo(call: Call) -> bool:
    """True if `torch.compile` itself does not take the call, whoever compiles it."""
    torch._dynamo.reset()
    try:
        call(torch.compile(wrapped(call.function), backend="eager"))
    except Exception:
        return True
    return False


def difference(got: Any, expected: Any) -> str:
    """Describes how the results differ; '' if they agree."""
    mine, theirs = pytree.tree_leaves(got), pytree.tree_leaves(expected)
    if len(mine) != len(theirs):
        return f"{len(mine)} results, expected {len(theirs)}"
    return "; ".join(filter(None, map(_apart, mine, theirs)))


def _apart(mine: Any, theirs: Any) -> str:
    if not isinstance(theirs, torch.Tensor) or not isinstance(mine, torch.Tensor):
        same = type(mine) is type(theirs) and (mine == theirs or mine != mine)
        return "" if same or callable(theirs) or isinstance(theirs, torch.Generator) else f"{mine!r} and not {theirs!r}"
    if theirs.layout != torch.strided:
        return "" if mine.layout == theirs.layout else f"layout {mine.layout} and not {theirs.layout}"
    if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
        return f"{mine.dtype} {tuple(mine.shape)} and not {theirs.dtype} {tuple(theirs.shape)}"
    if theirs.is_quantized:
        mine, theirs = mine.dequantize(), theirs.dequantize()
    if theirs.dtype not in _NUMBERS and not theirs.is_quantized:
        mine, theirs = (each.contiguous().view(-1).view(torch.uint8) for each in (mine, theirs))
    if not theirs.is_floating_point() and not theirs.is_complex():
        count = int((mine != theirs).sum()) if theirs.numel() else 0
        return f"{count} of {theirs.numel()} differ" if count else ""
    near = ROUGHLY.get(theirs.dtype, 1e-6)
    wide = torch.complex128 if theirs.is_complex() else torch.float64
    mine, theirs = mine.to(wide), theirs.to(wide)
    finite = theirs.abs()[theirs.isfinite()]
    scale = max(float(finite.max()) if finite.numel() else 1.0, 1e-3)  # less is what is left of a difference of equals
    if torch.allclose(mine, theirs, rtol=near, atol=near * scale, equal_nan=True):
        return ""
    where = (~torch.isclose(mine, theirs, rtol=near, atol=near * scale, equal_nan=True)).nonzero()[0].tolist()
    return f"at {where}: {mine[tuple(where)].item()} and not {theirs[tuple(where)].item()}"
