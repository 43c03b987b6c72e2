"""Loop-carried values: the chains of operations between iterations that cannot overlap.

A value of `iter_args` is an argument of the loop's body, and the value that the body yields for it is the argument of
the next iteration. The operations between the two wait for those of the previous iteration. With several values a chain
may go from one value to another and come back some iterations later; the longest chain per iteration sets the loop's
pace. Latencies depend on the machine, so a way is a count of operations in each class, and a way is dropped if another
way has at least as many in every class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from torch_mlir import ir

from simulator.tileprogram.program import Carried, OpClass
from workbench.mlir.bindings import Value
from workbench.mlir.instruction_forms import op_class

Way: TypeAlias = "tuple[int, ...]"
"""The number of operations on a way from one value to another, for each `OpClass`."""
Ways: TypeAlias = "frozenset[Way]"

_STANDING: Way = (0,) * len(OpClass)


def carried_chains(loop: ir.Operation) -> tuple[Carried, ...]:
    """The chains of an innermost `scf.for` or `affine.for`, chains over the fewest iterations first."""
    body = loop.regions[0].blocks[0]
    arguments = list(body.arguments)[1:]  # the first is the loop's variable
    if not arguments:
        return ()
    yielded = list(list(body.operations)[-1].operation.operands)
    steps = [_ways_from(argument, body, yielded) for argument in arguments]
    found: list[Carried] = []
    for first in range(len(arguments)):
        reached: dict[int, Ways] = {first: frozenset({_STANDING})}
        for rounds in range(1, len(arguments) + 1):
            reached = _next(reached, steps)
            ways = reached.get(first, frozenset[Way]())
            found += [Carried(rounds, way) for way in sorted(ways) if any(way)]
    return _longest(found)


def _next(reached: dict[int, Ways], steps: list[list[Ways]]) -> dict[int, Ways]:
    """Extends the ways to each value by one iteration."""
    after: dict[int, set[Way]] = {}
    for value, before in reached.items():
        for target, ways in enumerate(steps[value]):
            after.setdefault(target, set()).update(_sum(way, more) for way in before for more in ways)
    return {target: _widest(ways) for target, ways in after.items()}


def _ways_from(start: Value, body: ir.Block, wanted: list[Value]) -> list[Ways]:
    """The ways from `start` to each wanted value; empty if the value does not depend on `start`."""
    ways: dict[Value, Ways] = {start: frozenset({_STANDING})}
    _extend_through(body, ways)
    return [ways.get(value, frozenset()) for value in wanted]


def _extend_through(block: ir.Block, ways: dict[Value, Ways]) -> None:
    for item in block.operations:
        for region in item.operation.regions:
            for branch in region.blocks:
                _extend_through(branch, ways)
        _extend(ways, item.operation)


def _extend(ways: dict[Value, Ways], op: ir.Operation) -> None:
    sources = list(op.operands)
    if op.name == "scf.if":
        ends = [list(block.operations)[-1].operation for region in op.regions for block in region.blocks]
        for number, result in enumerate(op.results):
            _reach(ways, result, [end.operands[number] for end in ends], _STANDING)
        return
    kind = op_class(op)
    step = tuple(int(kind == each) for each in OpClass)
    for result in op.results:
        _reach(ways, result, sources, step)


def _reach(ways: dict[Value, Ways], result: Value, sources: Iterable[Value], step: Way) -> None:
    found = {_sum(way, step) for source in sources for way in ways.get(source, frozenset[Way]())}
    if found:
        ways[result] = _widest(found)


def _sum(way: Way, more: Way) -> Way:
    return tuple(a + b for a, b in zip(way, more, strict=True))


def _covers(longer: Way, way: Way) -> bool:
    return all(a >= b for a, b in zip(longer, way, strict=True))


def _widest(ways: Iterable[Way]) -> Ways:
    known = set(ways)
    return frozenset(way for way in known if not any(other != way and _covers(other, way) for other in known))


def _longest(found: list[Carried]) -> tuple[Carried, ...]:
    """The chains, without those that cannot be the slowest per iteration on any machine, as another has more in every
    class."""
    kept: list[Carried] = []
    for chain in sorted(set(found), key=lambda each: (each.iterations, [-count for count in each.class_counts])):
        if not any(_covers(_times(other, chain.iterations), _times(chain, other.iterations)) for other in kept):
            kept.append(chain)
    return tuple(kept)


def _times(chain: Carried, count: int) -> Way:
    return tuple(count * each for each in chain.class_counts)
