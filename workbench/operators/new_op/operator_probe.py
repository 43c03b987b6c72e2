"""Probes an op by calls on small tensors: the shapes of its results, and whether it computes number by number. The user
need not give these facts, and ops do not declare them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import torch

from workbench.ground.environment.this_thread import unlogged_here
from workbench.ground.torch_inside.fake_tensors import FakeTensorMode
from workbench.ground.torch_inside.module_names import LOGS_OF_STACKS
from workbench.operators.tensors.torch_literals import to_overload

Plain: TypeAlias = "bool | int | float | str | list[int] | list[float] | None"

SHAPES: Final = ((47, 10), (16, 16), (4, 4, 4), (2, 3, 8, 8), (12,))
"""Shapes to try in this order, for all tensors of an op: a ragged one first, then those of products and
convolutions."""

DTYPES: Final = (torch.float32, torch.int64, torch.bool)


@dataclass(frozen=True, slots=True)
class Sample:
    """A call that the op accepts: every tensor of this shape and type, and a value for each required attribute."""

    shape: tuple[int, ...]
    dtype: str
    """PyTorch's name of the type: `float32`."""
    attributes: dict[str, Plain]
    results: tuple[tuple[int, ...], ...]
    result_dtype: str
    elementwise: bool
    """True if each number of the result depends only on the numbers in its own place."""


def sample_of(overload: str, schema: torch.FunctionSchema) -> Sample | None:
    """The first call of those tried that the op accepts; None when it takes none of them."""
    attributes: dict[str, Plain] = {
        argument.name: example
        for argument in schema.arguments
        if not is_tensor(argument) and not argument.has_default_value()
        if (example := _example(str(argument.type))) is not None
    }
    without_data: Sample | None = None
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        call = _Call(overload, schema, shape, dtype, attributes)
        if results := call.fake_results():
            shapes = tuple(tuple(result.shape) for result in results)
            names = [str(kind).removeprefix("torch.") for kind in (dtype, results[0].dtype)]
            reach = call.reaches_other_places()
            elementwise = reach is False and all(each == shape for each in shapes)
            found = Sample(shape, names[0], attributes, shapes, names[1], elementwise)
            if reach is not None:
                return found
            without_data = without_data or found
    return without_data


def is_tensor(argument: torch.Argument) -> bool:
    """True if an argument of a schema is a tensor, maybe an optional one, or a list of them."""
    return "Tensor" in str(argument.type)


def _example(kind: str) -> Plain:
    """A value for a required argument of this type."""
    examples: dict[str, Plain] = {
        "int": 1, "float": 0.5, "number": 2, "bool": True, "str": "", "List[int]": [1], "List[float]": [0.5],
    }  # fmt: skip
    return examples.get(kind)


@dataclass(frozen=True)
class _Call:
    """A call that an op may accept."""

    overload: str
    schema: torch.FunctionSchema
    shape: tuple[int, ...]
    dtype: torch.dtype
    attributes: dict[str, Plain]

    def on(self, tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the op on these tensors and returns the results that are tensors. Raises whatever the op raises."""
        given: dict[str, object] = dict(self.attributes)
        rest = iter(tensors)
        for argument in self.schema.arguments:
            if is_tensor(argument) and not argument.has_default_value():
                kind = str(argument.type)
                given[argument.name] = (
                    None if "Optional" in kind else [next(rest), next(rest)] if "List" in kind else next(rest)
                )
        arguments = self.schema.arguments
        positional = [given.pop(each.name) for each in arguments if each.name in given and not each.kwarg_only]
        result: object = to_overload(self.overload)(*positional, **given)
        several = cast("tuple[object, ...]", result) if isinstance(result, tuple | list) else (result,)
        return [each for each in several if isinstance(each, torch.Tensor)]

    def fake_results(self) -> list[torch.Tensor]:
        """Results without data; none when the op refuses the call."""
        try:  # a probe expects refusals, whose stack traces torch would log
            with torch.no_grad(), unlogged_here(LOGS_OF_STACKS), cast(Any, FakeTensorMode()):
                return self.on(torch.empty(self.shape, dtype=self.dtype) for _ in range(2 * len(self.schema.arguments)))
        except Exception:  # an op may raise anything at wrong inputs; the next ones are tried
            return []

    def reaches_other_places(self) -> bool | None:
        """True if a number of an input changes results in other places than its own; None when the op cannot be run."""
        generator = torch.Generator().manual_seed(0)
        numbers = torch.rand((2 * len(self.schema.arguments), *self.shape), generator=generator) + 0.25
        tensors = [(each * 8 if self.dtype is torch.int64 else each).to(self.dtype) for each in numbers]
        try:
            with torch.no_grad():
                before = [result.clone() for result in self.on(tensors)]
                for tensor in tensors:
                    flat = tensor.view(-1)
                    flat[flat.numel() // 2] = 0 if self.dtype is torch.bool else flat[flat.numel() // 2] + 1
                after = self.on(tensors)
        except Exception:  # again the op may raise anything, such as for a missing CPU kernel
            return None
        return any(_changed_elsewhere(old, new) for old, new in zip(before, after, strict=True))


def _changed_elsewhere(old: torch.Tensor, new: torch.Tensor) -> bool:
    changed = (old != new).reshape(-1)
    changed[changed.numel() // 2] = False
    return bool(changed.any())
