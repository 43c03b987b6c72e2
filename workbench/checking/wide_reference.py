"""PyTorch's results, which `j.check()` takes as right.

The user's own function is called, never a record of it. A call in the types in which the function is written gives
**PyTorch's answer**. A call with every float widened to 64 bits gives **the reference**, from which PyTorch's answer
differs by a rounding error, as ours does. If 64 bits are not possible (bits of a float read as an integer, eight-bit
floats, a function that raises because of the type), the reference is computed in 32 bits; if that fails too, PyTorch's
answer is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import torch

from workbench.checking.drawn_roundings import Rounded, roundings_drawn
from workbench.checking.held_tensors import Arithmetic, Holds, as_given
from workbench.checking.opened_ops import computed_inside
from workbench.checking.rounding_allowance import numbers_of
from workbench.checking.widening import Wide, widened
from workbench.ground.errors import OtherResults
from workbench.ir import AtenGraph
from workbench.operators.aten.overload_names import draws_lots
from workbench.operators.tensors import containers
from workbench.operators.tensors.tensor_memory import copied, plain

Evaluate = Callable[[Arithmetic], list[torch.Tensor]]
"""Calls the function in an arithmetic, and returns its outputs and mutated inputs."""

IN_GIVEN_TYPES = "the given types"


computed_inside(Wide)
computed_inside(Rounded)


@contextmanager
def lots_put_back(drawn: bool = True) -> Generator[None]:
    """Puts back PyTorch's random generator after the block. All threads draw from this one generator, so it is left
    alone if nothing is drawn."""
    if not drawn:
        yield
        return
    kept = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(kept)


@contextmanager
def as_found(drawn: bool = True) -> Generator[None]:
    """A context for calls of the user's function: no gradients, and the random generator is put back afterwards."""
    with lots_put_back(drawn), torch.no_grad():
        yield


@dataclass(frozen=True)
class Answers:
    """PyTorch's results of one call, in as many arithmetics as needed."""

    evaluate: Evaluate
    _runs: list[list[torch.Tensor] | None] = field(default_factory=list["list[torch.Tensor] | None"])
    """The results of each draw; None for a draw with which the function raises."""

    @cached_property
    def native(self) -> list[torch.Tensor]:
        """The results in the types that the function is written in."""
        return self.evaluate(as_given)

    @cached_property
    def _reference(self) -> tuple[str, list[torch.Tensor]]:
        for wide in (torch.float64, torch.float32):
            narrow: dict[str, None] = {}
            found = self._in(wide, narrow)
            if found is not None:
                told = [str(wide).removeprefix("torch."), *(f"{op} in float32" for op in narrow)]
                return ", ".join(told), found
        return IN_GIVEN_TYPES, self.native

    @property
    def reference(self) -> list[torch.Tensor]:
        """The results in the widest floats that the function can be called with."""
        return self._reference[1]

    @property
    def arithmetic(self) -> str:
        """The type that the reference is computed in, and the ops that were computed in float32."""
        return self._reference[0]

    def _in(self, wide: torch.dtype, narrow: dict[str, None]) -> list[torch.Tensor] | None:
        """The answer in wide floats; None if the function raises, or if the answer has other shapes or kinds of numbers
        than in the given types.

        The names of ops that take 32 bits at most are added to `narrow`.
        """
        try:
            found = self.evaluate(lambda tensors: widened(tensors, wide, narrow))
        except Exception:  # the user's own code may inspect types: if it raises, its answer in its own types is used
            return None
        return found if _alike(found, self.native) else None

    def change_from_call_to_call(self) -> bool:
        """True if the function gives another answer to the same call, as with random numbers of a generator that is not
        PyTorch's. The function is called once more only if the reference does not show that its answer stays the same.

        Sums of several threads may differ in their last digits; random numbers change more than half of the digits.
        """
        if self.arithmetic != IN_GIVEN_TYPES and _same_but_for_rounding(self.native, self.reference):
            return False
        return not _same_but_for_rounding(self.native, self.evaluate(as_given))

    def rounded(self, count: int) -> list[list[torch.Tensor]]:
        """Returns `count` answers in the given types with every rounding drawn by lot, the same answers each time;
        fewer if the function raises with other roundings, like one that asserts what only PyTorch's own roundings
        fulfil."""
        for seed in range(len(self._runs), count):
            try:
                run = self.evaluate(lambda tensors, seed=seed: roundings_drawn(seed))
            except Exception:  # of the user's own code
                self._runs.append(None)
                continue
            if len(run) != len(self.native):
                raise OtherResults(len(run), len(self.native))
            self._runs.append(run)
        return [run for run in self._runs[:count] if run is not None]


def outcome(
    call: Callable[[Sequence[torch.Tensor]], object],
    graph: AtenGraph,
    user: Sequence[torch.Tensor],
    holds: Holds,
    arithmetic: Arithmetic,
) -> list[torch.Tensor]:
    """Returns the outputs and mutated inputs (by name) of a call on copies of `user`; the tensors that the function
    holds stay unchanged.

    The copies have the originals' strides: strides decide if a reshape is a view of a tensor that is changed
    afterwards.
    """
    copies = [copied(plain(tensor)) for tensor in user]
    changed = sorted({change.target for change in graph.mutations})
    slots = {slot.value: tensor for slot, tensor in zip(graph.inputs, [*copies, *holds.tensors], strict=True)}
    with as_found(draws_lots(node.op for node in graph.nodes)), holds.on_copies(copies, arithmetic):
        returned = [leaf for _, leaf in containers.flatten(call(copies))[1]]
        return [leaf.detach().clone() for leaf in (*returned, *(slots[name] for name in changed))]


def _alike(wide: Sequence[torch.Tensor], native: Sequence[torch.Tensor]) -> bool:
    """True if both have the same shapes and kinds of numbers."""
    return len(wide) == len(native) and all(
        mine.shape == theirs.shape and _kind(mine) == _kind(theirs) for mine, theirs in zip(wide, native, strict=True)
    )


def _same_but_for_rounding(given: Sequence[torch.Tensor], again: Sequence[torch.Tensor]) -> bool:
    return _alike(again, given) and all(map(_same_half_of_the_digits, given, again))


def _same_half_of_the_digits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not (one.is_floating_point() or one.is_complex()) or not one.numel():
        return torch.equal(one, other)
    digits = torch.finfo(one.dtype).eps ** 0.5
    one, other = (torch.nan_to_num(numbers_of(each)) for each in (one, other))
    return bool((one - other).abs().max() <= digits * other.abs().max())


def _kind(tensor: torch.Tensor) -> object:
    return "float" if tensor.is_floating_point() else "complex" if tensor.is_complex() else tensor.dtype
