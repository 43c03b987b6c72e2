"""A model and a call of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Example:
    """A model in evaluation, an `nn.Module`, and the inputs of a call."""

    module: Callable[..., object]
    inputs: tuple[object, ...]
    kwargs: Mapping[str, object] = field(default_factory=dict[str, object])

    def __repr__(self) -> str:
        """Shows the example in one line: a module alone prints a line for each of its layers."""
        given = [_shown(each) for each in self.inputs]
        given += [f"{name}={_shown(each)}" for name, each in self.kwargs.items()]
        return f"Example({type(self.module).__name__}, called with {', '.join(given)})"


def _shown(value: object) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')} {tuple(shape)}"
    return f"{value!r:.40}" if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
