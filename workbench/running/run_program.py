"""Runs a lowered graph natively: launches its kernels in order on torch tensors, without copies.

Every value that is no view owns a storage; a view is its base's storage with other strides. Inputs are used where they
are; an intermediate value is allocated when its kernel is launched, and freed after its last reader. If PyTorch may use
several threads (`torch.get_num_threads()`), kernels with no path between them run side by side.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import Final, TypeAlias

import torch

from workbench.ground.environment.turns import turn
from workbench.ground.errors import IndexOutOfRange, NativeInputError, NoData
from workbench.ir import Bound, Input, KernelGraph, KernelModule, ScheduledProgram, TensorType
from workbench.ir.graph import same_steps
from workbench.ir.kernel_identity import nameless
from workbench.ir.moved_views import moved
from workbench.operators.tensors.element_types import to_dtype, uninitialised
from workbench.operators.tensors.kernel_function import KernelFunction
from workbench.operators.tensors.tensor_memory import plain
from workbench.running.guarded_call import TriedKernel
from workbench.running.jit import COMPILERS, NativeKernel
from workbench.running.machine_code import target
from workbench.running.native_store import NativeStore
from workbench.running.side_by_side import Touched, most_at_once, side_by_side, waits


@dataclass
class KernelCache:
    """Native kernels by their text: the same text compiles once, whatever its function is called.

    Threads compile one after the other, and call compiled kernels side by side. Each runner of programs owns a cache. A
    kernel in `store` is not compiled at all.
    """

    store: NativeStore | None = None
    compiled: int = 0
    """The number of kernels that this cache compiled."""
    _kernels: dict[tuple[str, ...], NativeKernel] = field(default_factory=dict[tuple[str, ...], NativeKernel])

    def get(self, form: str, text: str, name: str) -> NativeKernel:
        """Returns the kernel of a text in this form, compiled if neither this cache nor its store has it."""
        key = form, hashlib.sha256(nameless(text, name).encode()).hexdigest(), target()
        if key not in self._kernels:
            with turn():
                if key not in self._kernels:
                    kept = self.store.get(form, text, name) if self.store else None
                    self._kernels[key] = kept or self._compile(form, text, name)
        return self._kernels[key]

    def _compile(self, form: str, text: str, name: str) -> NativeKernel:
        made = COMPILERS[form](text, name)
        self.compiled += 1
        if self.store:
            self.store.put(form, text, made)
        return made

    @property
    def size(self) -> int:
        """The number of kernels in the cache."""
        return len(self._kernels)


@dataclass(frozen=True, slots=True)
class _Step:
    """One launch: a function that returns its kernel, compiled at the first call, and the values that it reads and
    makes."""

    kernel: Callable[[], KernelFunction]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bounds: tuple[Bound, ...]
    native: bool
    """True if the kernel is machine code, False for a function of Python."""

    @property
    def may_share(self) -> bool:
        """True if the step may run beside others. A kernel that has yet to be tried may not: its trial compiles it,
        which takes a turn that this thread may have."""
        return self.native and not (isinstance(self.kernel, TriedKernel) and not self.kernel.is_remembered())


WORTH_A_THREAD: Final = 1 << 17
"""Elements of a kernel's arguments together from which the kernel takes longer than the start of a thread."""

NO_HOSTS: Mapping[str, KernelFunction] = MappingProxyType({})

Unproven: TypeAlias = "Mapping[str, tuple[str, ...]]"
"""Kernels that a worker has to run before this process does, each with the names of its nodes in messages."""

ALL_PROVEN: Unproven = MappingProxyType({})


def _itself(function: KernelFunction) -> KernelFunction:
    return function


@dataclass
class _Live:
    """The storages of a run, and the number of steps that have yet to use each; `changing` is held while either
    changes."""

    tensors: dict[str, torch.Tensor]
    uses: Counter[str]
    changing: threading.Lock = field(default_factory=threading.Lock)


class NativeProgram:
    """A graph's kernels in launch order, run on real tensors."""

    def __init__(
        self,
        lowered: KernelGraph,
        native: Mapping[str, Callable[[], KernelFunction]],
        hosts: Mapping[str, KernelFunction] = NO_HOSTS,
    ) -> None:
        """Each of `lowered.kernels` is among `native` or `hosts`, by name."""
        kernels = {**native, **{name: partial(_itself, function) for name, function in hosts.items()}}
        self._lowered, self._graph = lowered, lowered.captured
        self._types = lowered.types
        self._base = lowered.bases
        self._results = _types_of_results(lowered)
        self._steps = tuple(
            _Step(kernels[kernel.name], kernel.inputs, kernel.outputs, kernel.bounds, kernel.name in native)
            for kernel in lowered.kernels
        )
        self._kept = self._needed_at_the_end()
        self._empty = self._without_maker()

    @classmethod
    def from_scheduled(
        cls,
        lowered: KernelGraph,
        program: ScheduledProgram,
        cache: KernelCache,
        hosts: Mapping[str, KernelFunction] = NO_HOSTS,
        unproven: Unproven = ALL_PROVEN,
    ) -> NativeProgram:
        """Makes the program of the scheduled modules: the loops, tiles and copies that the simulator times.

        `hosts` computes the kernels of kind host, `unproven` are the kernels to try in a worker first.
        """
        texts = {kernel.kernel: kernel.mlir for kernel in program.kernels}
        native: dict[str, Callable[[], KernelFunction]] = {}
        for launch in program.launches.launches:
            if launch.kernel in texts:
                get = partial(cache.get, "scheduled", texts[launch.kernel], launch.kernel)
                native[launch.name] = _tried_if(get, launch.name, lowered, unproven)
        return cls(lowered, native, hosts)

    @classmethod
    def from_rendered(
        cls,
        lowered: KernelGraph,
        modules: Sequence[KernelModule],
        cache: KernelCache,
        hosts: Mapping[str, KernelFunction] = NO_HOSTS,
        unproven: Unproven = ALL_PROVEN,
    ) -> NativeProgram:
        """Makes the program of the rendered modules: untiled, except those that a template wrote with its tiles."""
        native: dict[str, Callable[[], KernelFunction]] = {}
        for item in modules:
            get = partial(cache.get, "scheduled" if item.handwritten else "rendered", item.mlir, item.kernel)
            native[item.kernel] = _tried_if(get, item.kernel, lowered, unproven)
        return cls(lowered, native, hosts)

    @classmethod
    def from_functions(cls, lowered: KernelGraph, functions: Mapping[str, KernelFunction]) -> NativeProgram:
        """Makes a program that runs these functions in place of the kernels."""
        return cls(lowered, {}, functions)

    def run(self, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the output leaves for inputs in graph order; writes recorded mutations into these inputs.

        Inputs are read where they lie. An input whose strides differ from the traced ones is first copied into the
        traced layout: strides are part of a kernel's type, and a copy is right for every caller, while an error would
        refuse calls that PyTorch accepts, such as one with `x.t()`.
        """
        inputs = self._graph.inputs
        if len(values) != len(inputs):
            raise NativeInputError(f"{self._graph.name} takes {len(inputs)} tensors, {len(values)} were given")
        with torch.no_grad():
            live = {item.value: self._accepted(item, given) for item, given in zip(inputs, values, strict=True)}
            live |= {name: allocate(self._types[name]) for name in self._empty}
            given = dict(zip((item.value for item in inputs), values, strict=True))
            try:
                self._run_steps(_Live(live, Counter(self._uses)))
            except IndexOutOfRange as error:
                raise self._by_its_input(error, given) from None
            return self._finish(live, given)

    def _by_its_input(self, error: IndexOutOfRange, given: Mapping[str, torch.Tensor]) -> IndexOutOfRange:
        """Returns the error with the path of the user's input that holds the index, if an input does."""
        bound = next(bound for step in self._steps for bound in step.bounds if bound == error.bound)
        found = _input_behind(self._lowered, bound)
        if found is None or not bool((given[found.value] == error.index).any()):
            return error
        return IndexOutOfRange(bound, error.index, found.path)

    def _run_steps(self, live: _Live) -> None:
        """Runs the steps in order; side by side if several are worth a thread and no kernel has to be tried first."""
        threads = min(torch.get_num_threads(), self._at_once)
        if threads > 1 and all(step.may_share for step in self._steps):
            functions = [step.kernel() for step in self._steps]  # may compile, which only this thread may do

            def do(index: int) -> None:
                with torch.no_grad():
                    self._run_step(self._steps[index], functions[index], live)

            side_by_side(self._waits, threads, do)
        else:
            for step in self._steps:
                self._run_step(step, step.kernel(), live)

    def _run_step(self, step: _Step, kernel: KernelFunction, live: _Live) -> None:
        for bound in step.bounds:
            _check_indices(bound, self._tensor(bound.value, live.tensors))
        with live.changing:
            for name in (self._base.get(name, name) for name in step.outputs):
                if name not in live.tensors:  # an assembled result has a storage before all its parts are made
                    live.tensors[name] = allocate(self._types[name])
        kernel([self._tensor(name, live.tensors) for name in (*step.inputs, *step.outputs)])
        with live.changing:
            for name in self._storages(step):
                live.uses[name] -= 1
                if not live.uses[name] and name not in self._kept:
                    del live.tensors[name]

    def _storages(self, step: _Step) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._base.get(name, name) for name in (*step.inputs, *step.outputs)))

    @cached_property
    def _uses(self) -> Counter[str]:
        """The number of steps that read or write each storage."""
        return Counter(name for step in self._steps for name in self._storages(step))

    @cached_property
    def _touched(self) -> list[Touched]:
        def reached(names: Sequence[str]) -> tuple[tuple[str, TensorType], ...]:
            return tuple((self._base.get(name, name), self._types[name]) for name in names)

        return [Touched(reached(step.inputs), reached(step.outputs)) for step in self._steps]

    @cached_property
    def _waits(self) -> tuple[tuple[int, ...], ...]:
        return waits(self._touched)

    @cached_property
    def _at_once(self) -> int:
        """The most threads that have work at one time."""
        return most_at_once(self._waits, [each.elements >= WORTH_A_THREAD for each in self._touched])

    def _accepted(self, item: Input, given: torch.Tensor) -> torch.Tensor:
        """The tensor to read for an input: the given one, or a copy in the recorded layout."""
        kind = self._types[item.value]
        if given.is_meta:
            raise NoData(
                f"{self._graph.name} cannot run: {item.path} is on the meta device, which has shapes and no numbers"
            )
        if given.shape != kind.shape or given.dtype != to_dtype(kind.dtype) or given.device.type != "cpu":
            found = f"{list(given.shape)} {given.dtype} on {given.device}"
            raise NativeInputError(
                f"{item.path} is {found}; it was traced as {list(kind.shape)} {to_dtype(kind.dtype)} on cpu. "
                f"Trace again with tensors like the ones to run"
            )
        given = plain(given)
        if same_steps(kind.shape, given.stride(), kind.strides):
            return given
        if any(stride == 0 and extent > 1 for stride, extent in zip(kind.strides, kind.shape, strict=True)):
            raise NativeInputError(
                f"input {item.path} was traced expanded, with strides {list(kind.strides)}; now its strides are "
                f"{list(given.stride())}. Trace again with inputs like the ones to run"
            )
        return allocate(kind).copy_(given)

    def _tensor(self, name: str, live: dict[str, torch.Tensor]) -> torch.Tensor:
        """The tensor of a value. A view keeps its recorded distance from its base, wherever the base lies now."""
        if name not in self._base:
            return live[name]
        kind, base = self._types[name], live[self._base[name]]
        start = base.storage_offset() + kind.offset - self._types[self._base[name]].offset
        return base.as_strided(kind.shape, kind.strides, start)

    def _result(self, name: str, live: dict[str, torch.Tensor], returned: dict[str, torch.Tensor]) -> torch.Tensor:
        """The tensor of a returned value, with its axes in PyTorch's order. `returned` has the copies of storages in
        that order: results that are views of one storage share its copy."""
        owner = self._base.get(name, name)
        if owner not in self._results:
            return self._tensor(name, live)
        if owner not in returned:
            returned[owner] = allocate(self._results[owner]).copy_(live[owner])
        kind, base = self._results[name], returned[owner]
        return base.as_strided(kind.shape, kind.strides, kind.offset)

    def _finish(self, live: dict[str, torch.Tensor], given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Writes the mutations into inputs and returns the output leaves. As in eager mode, a result that is not the
        mutated input keeps its old values."""
        changed = {mutation.target for mutation in self._graph.mutations}
        tensors: dict[str, torch.Tensor] = {}
        returned: dict[str, torch.Tensor] = {}
        for name in (*self._graph.outputs, *(mutation.value for mutation in self._graph.mutations)):
            owner = self._base.get(name, name)
            tensor = given[name] if name in given else self._result(name, live, returned)
            tensors[name] = tensor.clone() if owner in changed else tensor
        for mutation in self._graph.mutations:
            given[mutation.target].copy_(tensors[mutation.value])
        return [tensors[name] for name in self._graph.outputs]

    def _without_maker(self) -> tuple[str, ...]:
        """The tensors without elements: no kernel makes them, and there is no memory for them to be a view of."""
        made = {name for step in self._steps for name in step.outputs} | {item.value for item in self._graph.inputs}
        return tuple(
            name for name, kind in self._types.items() if not kind.numel and name not in made and name not in self._base
        )

    def _needed_at_the_end(self) -> frozenset[str]:
        """The storages of returned values and of mutations."""
        kept = {self._base.get(name, name) for name in self._graph.outputs}
        kept |= {self._base.get(mutation.value, mutation.value) for mutation in self._graph.mutations}
        return frozenset(kept)


def _types_of_results(lowered: KernelGraph) -> dict[str, TensorType]:
    """The types in PyTorch's layout of the results that kernels lay out in another way, and of these results'
    storages."""
    base = lowered.bases
    given = {order.value: order.given for order in lowered.layouts if order.given != lowered.types[order.value]}
    found: dict[str, TensorType] = {}
    for name in (*lowered.captured.outputs, *(mutation.value for mutation in lowered.captured.mutations)):
        owner = base.get(name, name)
        if owner in given:
            found[owner] = given[owner]
            if name != owner:
                view = moved(lowered.types[name], lowered.types[owner], given[owner])
                assert view is not None, "a storage is laid out in another way only if all its views stay views"
                found[name] = view
    return found


def _tried_if(
    get: partial[NativeKernel], name: str, lowered: KernelGraph, unproven: Unproven
) -> Callable[[], KernelFunction]:
    """Returns `get`, which gets a kernel from a cache; for an unproven kernel, a wrapper that tries it in a worker
    first."""
    form, text, _ = get.args
    return TriedKernel(get, form, text, lowered.kernel(name), unproven[name]) if name in unproven else get


_COPIES: Final = ("aten.clone.default", "aten._to_copy.default", "aten.alias.default")


def _input_behind(lowered: KernelGraph, bound: Bound) -> Input | None:
    """The only input from which the indices are made, by views, copies, and nodes of the indexing op itself; None if
    there is no such input."""
    inputs = {item.value: item for item in lowered.captured.inputs}
    maker = {value: item for item in lowered.nodes for value in item.node.results}
    todo, seen = [bound.value], set[str]()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if value not in inputs:
            made = maker.get(value)
            if made is None or not (
                made.route == "view" or made.node.op in _COPIES or made.node.origin.node == bound.node
            ):
                return None
            todo += made.node.operands
    found = [item for value, item in inputs.items() if value in seen]
    return found[0] if len(found) == 1 else None


def _check_indices(bound: Bound, index: torch.Tensor) -> None:
    """Raises `IndexOutOfRange` before a kernel would read or write outside its tensor."""
    if index.numel():
        low, high = (int(each) for each in torch.aminmax(index))
        if low < bound.low or high >= bound.high:
            raise IndexOutOfRange(bound, low if low < bound.low else high)


def allocate(kind: TensorType) -> torch.Tensor:
    """A tensor of a recorded type, not yet filled, with a storage that includes the elements before its offset."""
    flat = uninitialised(kind.offset + kind.span, to_dtype(kind.dtype))
    return flat.as_strided(kind.shape, kind.strides, kind.offset)
