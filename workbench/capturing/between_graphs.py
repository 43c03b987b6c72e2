"""A dispatch mode that notes the operators that PyTorch computes between the graphs of a broken-up call.

The operations of products are counted by formula; any other operator counts one for each element of its largest tensor.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from workbench.ground.environment.call_sites import Place, called_from
from workbench.ground.torch_inside.dispatch_modes import TorchDispatchMode
from workbench.ground.torch_inside.fake_tensors import FakeTensor
from workbench.ground.torch_inside.operator_objects import is_overload, written_by
from workbench.ground.torch_inside.pytrees import tensors_in, tree_leaves
from workbench.ground.torch_inside.tensor_inside import memory_of, script_methods
from workbench.ir import MADE_BY_PYTHON, HostWork

_FREE = frozenset({
    "aten._local_scalar_dense", "aten.empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty",
    "aten.new_empty_strided", "aten.set_", "aten.resize_", "aten._unsafe_view", "aten._assert_scalar",
    "aten._assert_async", "prim.device",
})  # fmt: skip
"""Operators that count as free: they touch at most one number, or write no contents. Views are free, too."""


@dataclass
class Stretch:
    """The work in one stretch of a call: before the first graph, between two graphs, or after the last."""

    calls: dict[tuple[str, Place], HostWork] = field(default_factory=dict[tuple[str, Place], HostWork])
    """The calls, added up by operator and line."""
    read: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    """The call's input tensors that operators of the stretch read, by `id`."""
    written: set[int] = field(default_factory=set[int])
    """The addresses of the storages into which operators wrote."""

    def add(self, op: str, place: Place, *, bytes_in: int, bytes_out: int, flops: int) -> None:
        """Adds one call to the record of its operator and line."""
        before = self.calls.get((op, place)) or HostWork("", op, 0, 0, 0, 0, *place)
        self.calls[op, place] = replace(
            before,
            calls=before.calls + 1,
            bytes_in=before.bytes_in + bytes_in,
            bytes_out=before.bytes_out + bytes_out,
            flops=before.flops + flops,
        )

    def of_node(self, node: str, made_by_python: Sequence[torch.Tensor], place: Place) -> tuple[HostWork, ...]:
        """Returns the records for the node of a graph break. Tensors that Python made without an operator
        (`made_by_python`) count one operation for each element, which is the least that they can have taken."""
        for each in made_by_python:
            self.add(MADE_BY_PYTHON, place, bytes_in=0, bytes_out=_bytes([each]), flops=each.numel())
        return tuple(replace(each, node=node) for each in self.calls.values())


class BetweenGraphs(TorchDispatchMode):
    """Notes each operator outside of graphs, stretch by stretch. `given` are the call's input tensors, `held` the
    tensors that the callable holds."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Returns True: Dynamo still compiles while the mode is on, and the mode does not see what Dynamo computes."""
        return True

    def __init__(self, given: Iterable[torch.Tensor], held: Iterable[torch.Tensor]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.stretches = [Stretch()]
        self._known: dict[int, tuple[StorageWeakRef, torch.Tensor | None]] = {}
        """For each address of a storage: a reference to the storage, so that no other one takes the address, and the
        input tensor that lies there."""
        self._packed = PackedWeights()
        self._in_graph = False
        self.know(held)
        for tensor in given:
            self.know([tensor], tensor)

    @contextlib.contextmanager
    def graph(self) -> Generator[None]:
        """Notes nothing while a graph runs, and begins a new stretch after it."""
        self._in_graph = True
        try:
            yield
        finally:
            self._in_graph = False
            self.stretches.append(Stretch())

    def made_by_python(self, tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the tensors that the call did not have before and that no graph or operator made."""
        return [each for each in tensors if (key := _address(each)) is not None and key not in self._known]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if self._in_graph:
            return func(*args, **named)
        if not is_overload(func):
            return self._of_graphs(func, args, named)
        made: object = func(*args, **named)
        if not (func.is_view or str(func.overloadpacket) in _FREE or _without_data((args, named, made))):
            self._note(func, args, named, made)
        return made

    def _of_graphs(self, func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Runs an operator that takes graphs as arguments, and counts the products in these graphs."""
        with FlopCounterMode(display=False) as counter:
            made = func(*args, **kwargs)
        given, results = tensors_in((args, kwargs)), tensors_in(made)
        largest = max((each.numel() for each in (*given, *results)), default=0)
        self._add(f"higher_order.{func}.default", given, results, max(counter.get_total_flops(), largest))
        return made

    def _note(self, func: Any, args: tuple[object, ...], kwargs: dict[str, object], made: object) -> None:
        written = written_by(func, args, kwargs)
        self.know(written)
        self.stretches[-1].written |= addresses(written)
        leaves = tree_leaves((args, kwargs))
        given, packed = tensors_in(leaves), self._packed.of(leaves)
        flops = operations(func.overloadpacket, args, kwargs, made, given=given, packed=packed)
        self._add(str(func), [*given, *packed], tensors_in(made), flops)

    def _add(self, op: str, given: Sequence[torch.Tensor], results: Sequence[torch.Tensor], flops: int) -> None:
        stretch = self.stretches[-1]
        stretch.add(op, called_from(), bytes_in=_bytes(given), bytes_out=_bytes(results), flops=flops)
        for tensor in given:
            key = _address(tensor)
            found = self._known[key][1] if key in self._known else None
            if found is not None:
                stretch.read[id(found)] = found
        self.know(results)

    def know(self, tensors: Iterable[torch.Tensor], given: torch.Tensor | None = None) -> None:
        """Notes tensors that Python did not make, such as the results of a graph. `given` is the input tensor in their
        memory."""
        for tensor in tensors:
            if (key := _address(tensor)) is not None:
                self._known.setdefault(key, (StorageWeakRef(tensor.untyped_storage()), given))


def addresses(tensors: Iterable[torch.Tensor]) -> set[int]:
    """Returns the addresses of the tensors' storages."""
    return {key for each in tensors if (key := _address(each)) is not None}


def _without_data(tree: object) -> bool:
    """True if some tensor has no data, as in another trace: nothing is computed with it."""
    return any(isinstance(each, FakeTensor) or each.is_meta for each in tensors_in(tree))


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def _address(tensor: torch.Tensor) -> int | None:
    """The address of a tensor's storage; None if the tensor has no storage, such as a sparse tensor."""
    try:
        return memory_of(tensor)
    except NotImplementedError:
        return None


_ATEN: Any = torch.ops.aten
_REGISTRY = cast("dict[object, Callable[..., int]]", flop_registry)


class PackedWeights:
    """The weights packed in the objects that operators of quantised models take in place of tensors.

    Each object is unpacked once, since unpacking copies the weights.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, tuple[torch.Tensor, ...]]] = {}
        """For each object's hash, which is its address: the object itself, so that its address is not reused, and its
        weights."""

    def of(self, given: Iterable[object]) -> list[torch.Tensor]:
        """Returns the weights in all packed objects among `given`."""
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
    """Returns the number of operations of one call. `given` are the tensors among its arguments, `packed` the weights
    in its packed objects."""
    if formula := _REGISTRY.get(packet) or _OF_PRODUCTS.get(packet):
        return int(formula(*args, **kwargs, out_val=made))
    results = tensors_in(made)
    largest = max((each.numel() for each in (*given, *results)), default=0)
    weights = [each for each in packed if each.dim() > 1 and given and _meets(each, given[0])]
    if not weights or not results:
        return largest
    return sum(_product(weight, given[0], results[0]) for weight in weights)


def _meets(weight: torch.Tensor, x: torch.Tensor) -> bool:
    """True if the weight multiplies `x`. False for a matrix and whole numbers, which are indices into an embedding's
    table."""
    return weight.dim() > 2 or x.is_floating_point() or x.is_quantized


def _product(weight: torch.Tensor, x: torch.Tensor, result: torch.Tensor) -> int:
    """Operations of a product with a weight: a matrix multiplies each row of `x`, a filter is applied once for each
    result."""
    if weight.dim() == 2:
        return 2 * weight.numel() * (x.numel() // max(x.shape[-1], 1) if x.dim() else 1)
    return 2 * result.numel() * (weight.numel() // max(weight.shape[0], 1))


def _of_matrix(matrix: torch.Tensor, *_: object, **__: object) -> int:
    """Operations of a product of a matrix and a vector, or of two vectors."""
    return 2 * matrix.numel()


def _of_recurrent_layer(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, *_: object, **__: object) -> int:
    """Operations of a recurrent layer: both matrices multiply the vector of each step and sequence."""
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
