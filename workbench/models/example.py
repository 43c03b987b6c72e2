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
