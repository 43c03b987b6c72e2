"""Operations of an operator that PyTorch computes at once: of products by formula, else one for each element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import torch
from torch.utils.flop_counter import flop_registry

from workbench.ground.torch_inside.pytrees import tensors_in, tree_leaves
from workbench.ground.torch_inside.tensor_inside import script_methods

_ATEN: Any = torch.ops.aten
_REGISTRY = cast("dict[object, Callable[..., int]]", flop_registry)


class PackedWeights:
    """The weights in the objects that operators of quantised models are given in place of tensors.

    Each object is unpacked once, since unpacking copies the weights.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, tuple[torch.Tensor, ...]]] = {}
        """By the hash of an object, which is its address: the object itself, so that the address stays its own."""

    def of(self, given: Iterable[object]) -> list[torch.Tensor]:
        """The tensors in all of these objects."""
        return [tensor for each in given if isinstance(each, torch.ScriptObject) for tensor in self._in(each)]

    def _in(self, packed: torch.ScriptObject) -> tuple[torch.Tensor, ...]:
        key = hash(packed)
        if key not in self._known:
            self._known[key] = packed, tuple(self._unpacked(packed))
        return self._known[key][1]

    def _unpacked(self, packed: Any) -> Iterator[torch.Tensor]:
        methods = script_methods(packed)
        reader = next((name for name in ("unpack", "__getstate__") if name in methods), None)
        for leaf in tree_leaves(getattr(packed, reader)()) if reader else ():
            if isinstance(leaf, torch.Tensor):
                yield leaf
            elif isinstance(leaf, torch.ScriptObject):
                yield from self._in(leaf)


def operations(
    packet: object,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    made: object,
    *,
    given: list[torch.Tensor],
    packed: list[torch.Tensor],
) -> int:
    """Operations of one call: `given` are the tensors among its arguments, `packed` the weights in other objects."""
    if formula := _REGISTRY.get(packet) or _OF_PRODUCTS.get(packet):
        return int(formula(*args, **kwargs, out_val=made))
    results = tensors_in(made)
    largest = max((each.numel() for each in (*given, *results)), default=0)
    weights = [each for each in packed if each.dim() > 1 and given and _meets(each, given[0])]
    if not weights or not results:
        return largest
    return sum(_product(weight, given[0], results[0]) for weight in weights)


def _meets(weight: torch.Tensor, x: torch.Tensor) -> bool:
    """True if a weight multiplies a tensor: with whole numbers an embedding's table is looked up in."""
    return weight.dim() > 2 or x.is_floating_point() or x.is_quantized


def _product(weight: torch.Tensor, x: torch.Tensor, result: torch.Tensor) -> int:
    """Operations of a product with a weight: a matrix meets each row of `x`, the filter of a window each result."""
    if weight.dim() == 2:
        return 2 * weight.numel() * (x.numel() // max(x.shape[-1], 1) if x.dim() else 1)
    return 2 * result.numel() * (weight.numel() // max(weight.shape[0], 1))


def _of_matrix(matrix: torch.Tensor, *_: object, **__: object) -> int:
    """Operations of a product of a matrix and a vector, or of two vectors."""
    return 2 * matrix.numel()


def _of_recurrent_layer(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *_: object, **__: object) -> int:
    """Operations of a recurrent layer: both matrices meet the vector of each step and sequence."""
    return 2 * math.prod(x.shape[:-1]) * (first.numel() + second.numel())


_OF_PRODUCTS: dict[object, Callable[..., int]] = {
    _ATEN._int_mm: _REGISTRY[_ATEN.mm],
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _REGISTRY[_ATEN._scaled_dot_product_flash_attention],
    _ATEN.mv: _of_matrix,
    _ATEN.dot: _of_matrix,
    _ATEN.vdot: _of_matrix,
    _ATEN.mkldnn_rnn_layer: _of_recurrent_layer,
}
"""Products that PyTorch's own table of formulas lacks."""
