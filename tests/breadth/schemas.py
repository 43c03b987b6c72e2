"""Calls of an overload in every combination of tensors and numbers that its schema allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch

from workbench.operators.tensors.torch_literals import to_overload

ENDS_PYTORCH = frozenset({"aten._native_batch_norm_legit.no_stats"})
"""Overloads that end the process in PyTorch itself when they are given what does not fit."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"
DTYPES = (torch.float32, torch.int64, torch.bool, torch.float16)
SHAPES = ((4, 6), (4, 4), (3, 4, 4), (2, 3, 8, 8), (2, 3, 4, 4, 4), (6,))
NUMBERS = (2, 1.5, True)

ByHand = Callable[[torch.dtype], tuple[Any, ...]]

_INTEGERS = ((4, 6), (1,), (0,), (2, 2), (1, 0), (3, 3), (24,), (6, 4), (0, 1), (2,))
"""Values for lists of whole numbers: sizes, dims, windows."""


@dataclass(frozen=True)
class Given:
    """A call: a value for each argument of the schema, by name."""

    overload: str
    values: dict[str, Any]

    def __call__(self) -> Any:
        return self.called(self.tensors())

    def tensors(self) -> list[torch.Tensor]:
        return [part for value in self.values.values() for part in _parts(value) if isinstance(part, torch.Tensor)]

    def called(self, tensors: Any) -> Any:
        """The call with other tensors of the same kinds."""
        rest = iter(tensors)
        swapped = {name: _swapped(value, rest) for name, value in self.values.items()}
        schema = torch_schema(self.overload)
        args = [swapped[each.name] for each in schema.arguments if not each.kwarg_only]
        kwargs = {each.name: swapped[each.name] for each in schema.arguments if each.kwarg_only}
        return to_overload(self.overload)(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.overload}({', '.join(f'{name}={_shown(value)}' for name, value in self.values.items())})"


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _swapped(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_swapped(part, tensors) for part in value]
    return next(tensors) if isinstance(value, torch.Tensor) else value


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return (
        f"{value.dtype}{list(value.shape)}".removeprefix("torch.") if isinstance(value, torch.Tensor) else repr(value)
    )


def torch_schema(overload: str) -> Any:
    return to_overload(overload)._schema  # type: ignore[attr-defined]


def overloads() -> list[str]:
    """Every overload of docs/operators.md."""
    return sorted(set(re.findall(r"`(aten\.[\w.]+)`", PAGE.read_text(encoding="utf-8"))))


def calls(overload: str) -> list[Given]:
    """Calls that PyTorch accepts, of all combinations of element types for the first tensor, and of the kinds of each
    other argument that may be a tensor, a number or None."""
    found: list[Given] = []
    for dtype in DTYPES if overload not in ENDS_PYTORCH else ():
        base = accepted(overload, dtype)
        if base is None:
            continue
        varied = [name for name in base.values if len(_kinds(overload, name, base)) > 1]
        for choice in product(*(_kinds(overload, name, base) for name in varied)):
            given = Given(overload, base.values | dict(zip(varied, choice, strict=True)))
            if given.tensors() and takes(given):
                found.append(given)
    return found


def _kinds(overload: str, name: str, base: Given) -> list[Any]:
    """Values to try for an argument: kinds of tensor, of number, and None."""
    argument = next(each for each in torch_schema(overload).arguments if each.name == name)
    kind, now = str(argument.type), base.values[name]
    if kind == "Tensor" and isinstance(now, torch.Tensor):
        first = next(iter(base.values)) == name
        return [now, now.reshape(-1)[0].clone(), *(() if first else NUMBERS)]
    if kind in ("number", "Optional[number]"):
        return [*NUMBERS, *([None] if "Optional" in kind else [])]
    if kind == "Optional[Tensor]":
        return [now, None]
    fits = overload.endswith(".input")  # a flag of a recurrent layer says which weights there are
    return [not now, now] if kind == "bool" and not fits else [now]


def takes(given: Given) -> bool:
    """True if PyTorch itself does, and gives tensors."""
    try:
        made = given()
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return False
    return all(isinstance(part, torch.Tensor) for part in (made if isinstance(made, tuple | list) else [made]))


def accepted(overload: str, dtype: torch.dtype) -> Given | None:
    """A call that PyTorch takes: shapes and numbers are tried."""
    arguments = torch_schema(overload).arguments
    if overload in _BY_HAND:
        rest = iter(_BY_HAND[overload](dtype))
        default = {each.name: each.default_value if each.has_default_value() else None for each in arguments}
        given = Given(overload, {name: next(rest, value) for name, value in default.items()})
        return given if takes(given) else None
    for shape in SHAPES:
        choices = [_tried(each, shape, dtype) for each in arguments]
        for choice in islice(product(*choices), 400):
            given = Given(overload, {each.name: value for each, value in zip(arguments, choice, strict=True)})
            if takes(given) and (given.tensors() or not any("Tensor" in str(each.type) for each in arguments)):
                return given
    return None


def _tried(argument: Any, shape: tuple[int, ...], dtype: torch.dtype) -> list[Any]:
    kind = str(argument.type)
    if kind == "Tensor":
        return [_tensor(shape, dtype), _tensor(shape[1:2], dtype), torch.randint(0, 3, shape), torch.rand(shape) > 0.5,
                torch.randint(0, 3, (2,)), _tensor(shape[-1:], dtype), _tensor(shape[-2:], dtype)]  # fmt: skip
    if kind == "List[Tensor]":
        return [[_tensor(shape, dtype), _tensor(shape, dtype)]]
    if kind == "List[Optional[Tensor]]":
        return [[torch.randint(0, 3, (2,))]]
    if argument.has_default_value():
        return [argument.default_value]
    choices: dict[str, list[Any]] = {
        "int": [0, 1, 2], "float": [0.5], "number": [2, 0.5], "bool": [False], "List[int]": list(map(list, _INTEGERS)),
        "str": ["trunc", "sum", "ij,jk->ik"], "Optional[Tensor]": [_tensor(shape[1:2], dtype), None],
        "List[number]": [[1, 2]],
    }  # fmt: skip
    return choices.get(kind, [None])


def _tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Numbers that nearly every operator takes: neither zero nor large, no two next to each other alike."""
    count = 1
    for extent in shape:
        count *= extent
    if dtype == torch.bool:
        return (torch.arange(count) % 3 > 0).reshape(shape)
    steps = (torch.arange(count) * 7 % 11 + 1).reshape(shape)
    return steps.to(dtype) if not dtype.is_floating_point else (steps / 12).to(dtype)


def _image(dtype: torch.dtype, dims: int) -> torch.Tensor:
    return _tensor((2, 3, *[5] * dims), dtype)


def _convolution(dims: int) -> ByHand:
    return lambda dtype: (_image(dtype, dims), _tensor((3, 3, *[2] * dims), dtype), _tensor((3,), dtype))


def _padded(dims: int) -> ByHand:
    return lambda dtype: (_image(dtype, dims), [1, 2] * dims)


def _larger(dims: int) -> ByHand:
    return lambda dtype: (_image(dtype, dims), [7] * dims)


def _larger_smoothly(dims: int) -> ByHand:
    return lambda dtype: (_image(dtype, dims), [7] * dims, False)


def _recurrent(gates: int, states: int = 1) -> ByHand:
    def given(dtype: torch.dtype) -> tuple[Any, ...]:
        weights = [_tensor(shape, dtype) for shape in ((gates * 4, 3), (gates * 4, 4), (gates * 4,), (gates * 4,))]
        state = _tensor((1, 2, 4), dtype)
        first = state if states == 1 else [state] * states
        return (_tensor((5, 2, 3), dtype), first, weights, True, 1, 0.0, False, False, False)

    return given


def _cell(gates: int, states: int) -> ByHand:
    def given(dtype: torch.dtype) -> tuple[Any, ...]:
        state = _tensor((2, 4), dtype)
        weights = [_tensor(shape, dtype) for shape in ((gates * 4, 3), (gates * 4, 4), (gates * 4,), (gates * 4,))]
        return (_tensor((2, 3), dtype), state if states == 1 else [state, state], *weights)

    return given


def _targets(*shape: int) -> torch.Tensor:
    return torch.arange(shape[0] * (shape[1] if shape[1:] else 1)).reshape(shape) % 3


_BY_HAND: dict[str, ByHand] = {
    "aten._int_mm.default": lambda dtype: (torch.ones(4, 6).to(torch.int8), torch.ones(6, 8).to(torch.int8)),
    "aten.mm.dtype": lambda dtype: (_tensor((4, 6), dtype), _tensor((6, 4), dtype), torch.float32),
    "aten.bmm.dtype": lambda dtype: (_tensor((2, 4, 6), dtype), _tensor((2, 6, 4), dtype), torch.float32),
    "aten.clamp.default": lambda dtype: (_tensor((4, 6), dtype), 0.25, 2),
    "aten.clip.default": lambda dtype: (_tensor((4, 6), dtype), 0.25, 2),
    "aten.clamp.Tensor": lambda dtype: (_tensor((4, 6), dtype), _tensor((6,), dtype), _tensor((4, 1), dtype)),
    "aten.clip.Tensor": lambda dtype: (_tensor((4, 6), dtype), _tensor((6,), dtype), _tensor((4, 1), dtype)),
    "aten.convolution.default": lambda dtype: (*_convolution(2)(dtype), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    "aten.meshgrid.indexing": lambda dtype: ([_tensor((3,), dtype), _tensor((4,), dtype)], "xy"),
    "aten.as_strided_scatter.default": lambda dtype: (
        _tensor((4, 6), dtype),
        _tensor((2, 3), dtype),
        [2, 3],
        [6, 2],
        1,
    ),
    "aten.nll_loss.default": lambda dtype: (_tensor((4, 3), dtype), _targets(4)),
    "aten.nll_loss2d.default": lambda dtype: (_image(dtype, 2), torch.ones(2, 5, 5, dtype=torch.int64)),
    "aten.nll_loss_nd.default": lambda dtype: (_tensor((4, 3), dtype), _targets(4)),
    "aten.scatter.reduce": lambda dtype: (_tensor((4, 6), dtype), 0, _targets(4, 6), _tensor((4, 6), dtype), "add"),
    "aten.gru.input": _recurrent(3),
    "aten.lstm.input": _recurrent(4, states=2),
    "aten.rnn_relu.input": _recurrent(1),
    "aten.rnn_tanh.input": _recurrent(1),
    "aten.gru_cell.default": _cell(3, 1),
    "aten.lstm_cell.default": _cell(4, 2),
    **{f"aten.conv_transpose{n}d.{'default' if n == 1 else 'input'}": _convolution(n) for n in (1, 2, 3)},
    **{f"aten.{kind}_pad{n}d.default": _padded(n) for kind in ("reflection", "replication") for n in (1, 2, 3)},
    **{
        f"aten.{name}{n}d.vec": _larger(n)
        for name in ("upsample_nearest", "_upsample_nearest_exact")
        for n in (1, 2, 3)
    },
    **{f"aten.{name}3d.default": _larger(3) for name in ("upsample_nearest", "_upsample_nearest_exact")},
    "aten.upsample_linear1d.vec": _larger_smoothly(1),
    "aten.upsample_bilinear2d.vec": _larger_smoothly(2),
    "aten.upsample_trilinear3d.vec": _larger_smoothly(3),
    "aten.upsample_trilinear3d.default": _larger_smoothly(3),
}
"""Calls that trying does not find: shapes that have to fit each other."""
