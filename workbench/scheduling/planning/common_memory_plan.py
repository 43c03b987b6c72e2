"""Plans the tensors that stay in the machine's common memory, and for which launches: as a user asks, or a heuristic.

The savings of a tensor are not estimated: the plan follows the tensor's launches copy by copy, as the simulator does
(`simulator.optional.common_memory`), and counts the DRAM bytes saved. The heuristic takes the tensors that fit, in the
order of bytes saved per byte held and launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator import Launched, Machine, Resident
from simulator.did_you_mean import did_you_mean, sentences
from simulator.optional.common_memory.residents import CommonMemory, check_plan, saved_bytes
from simulator.tileprogram.program import Opcode, Space, TileProgram
from simulator.units.unit import Mask
from workbench.ground.errors import BadOption
from workbench.ir import KernelGraph, Residence, ScheduledProgram, Storage

AUTO = "auto"


def planned(
    lowered: KernelGraph, scheduled: ScheduledProgram, machine: Machine, wanted: str | tuple[str, ...] | None
) -> ScheduledProgram:
    """The program with its plan: `wanted` are names of tensors, or `auto` for the heuristic; None is no plan."""
    if wanted is None:
        return replace(scheduled, residence=())
    found = [*_candidates(lowered, scheduled)]
    chosen = _heuristic(found, machine, len(scheduled.launches.launches)) if wanted == AUTO else _asked(found, wanted)
    check_plan([*residents(scheduled, chosen)], machine, len(scheduled.launches.launches))
    return replace(scheduled, residence=tuple(chosen))


def residents(scheduled: ScheduledProgram, plan: Sequence[Residence]) -> Iterator[Resident]:
    """The resident tensors of a plan, in the simulator's form."""
    address = {storage.value: storage.address for storage in scheduled.launches.storages}
    for each in plan:
        if each.resident:
            yield Resident(each.value, address[each.value], each.bytes, each.first, each.last, each.alone)


def served(scheduled: ScheduledProgram) -> dict[str, frozenset[int]]:
    """For each kernel of the graph, the arguments that the common memory serves in every launch of its program."""
    plan, launches = CommonMemory([*residents(scheduled, scheduled.residence)]), scheduled.launches.launches
    always: dict[str, frozenset[int]] = {}
    for number, (launch, launched) in enumerate(zip(launches, _Launches.of(scheduled).given, strict=True)):
        if launched is not None:
            spared = plan.spare(number, launched)
            here = frozenset[int]() if spared is None else _served_arguments(launched.program, spared.rows)
            always[launch.kernel] = always.get(launch.kernel, here) & here
    return {launch.name: always[launch.kernel] for launch in launches if always.get(launch.kernel)}


def _served_arguments(program: TileProgram, served: Mask) -> frozenset[int]:
    """The arguments all of whose copies are served."""
    moved = program.space == Space.DRAM
    others = np.unique(program.target[moved & ~served[program.owners()]])
    return frozenset(np.setdiff1d(program.target[moved], others).tolist())


def _candidates(lowered: KernelGraph, scheduled: ScheduledProgram) -> Iterator[Residence]:
    """Every tensor in DRAM with its savings, or with the reason why it cannot be resident; none is resident yet."""
    paths = lowered.captured.paths
    launches = _Launches.of(scheduled)
    for storage in scheduled.launches.storages:
        uses = launches.uses(storage)
        whole = storage.first < 0 or storage.last >= len(scheduled.launches.launches)
        first, last = (uses[0], uses[-1]) if uses else (0, -1)
        plain = Residence(storage.value, paths.get(storage.value, ""), storage.bytes, first, last, not whole)
        if not storage.bytes or not uses:
            yield replace(plain, refused="no kernel uses it")
        elif any(launches.given[use] is None for use in uses):
            yield replace(plain, refused="the host uses it")
        elif any(launches.looks_inside(use, storage) for use in uses):
            yield replace(plain, refused="a kernel reads single elements of it, by index or one by one")
        else:
            there = Resident(storage.value, storage.address, storage.bytes, first, last, plain.alone)
            using = [(use, launched) for use in uses if (launched := launches.given[use])]
            read, written = saved_bytes(there, using)
            yield replace(plain, saved_read=read, saved_written=written)


@dataclass(frozen=True)
class _Launches:
    given: tuple[Launched | None, ...]
    """None for a step on the host."""
    addresses: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(scheduled: ScheduledProgram) -> _Launches:
        programs = {kernel.kernel: kernel.program for kernel in scheduled.kernels}
        launches = scheduled.launches.launches
        given = (
            Launched(launch.kernel, programs[launch.kernel], launch.addresses) if launch.kernel in programs else None
            for launch in launches
        )
        return _Launches(tuple(given), tuple(launch.addresses for launch in launches))

    def uses(self, storage: Storage) -> list[int]:
        """The launches that use a storage. At other times its address may belong to another storage."""
        first, last = max(storage.first, 0), min(storage.last, len(self.given) - 1)
        return [use for use in range(first, last + 1) if storage.address in self.addresses[use]]

    def looks_inside(self, use: int, storage: Storage) -> bool:
        """True if a launch accesses the storage by anything but copies of boxes."""
        launched = self.given[use]
        if launched is None:
            return False
        program, places = launched.program, np.flatnonzero(np.array(launched.addresses) == storage.address)
        return bool(np.isin(program.target[_elsewise(program)], places).any())


def _elsewise(program: TileProgram) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A mask of the operands in DRAM that belong to no copy of a box."""
    opcode = np.repeat(program.opcode, np.diff(program.operand_start))
    return (program.space == Space.DRAM) & ~np.isin(opcode, [Opcode.LOAD, Opcode.STORE])


def _asked(found: Sequence[Residence], names: Sequence[str]) -> list[Residence]:
    """The plan in which the named tensors are resident."""
    by_name = {each.value: each for each in found} | {each.path: each for each in found if each.path}
    wanted = set[str]()
    for name in names:
        if name not in by_name:
            known = ", ".join(each.path or each.value for each in found if not each.refused)
            what = f"resident={[*names]!r}: there is no tensor {name!r} in DRAM{did_you_mean(name, by_name)}"
            why = f"Tensors that can stay are {known}; values between the ops of one kernel are never in DRAM"
            raise BadOption(sentences(what, why))
        if by_name[name].refused:
            raise BadOption(f"resident={[*names]!r}: {name!r} cannot stay resident: {by_name[name].refused}")
        wanted.add(by_name[name].value)
    return [
        replace(each, resident=True, reason="asked for")
        if each.value in wanted
        else replace(each, reason=each.refused or "not asked for")
        for each in found
    ]


def _heuristic(found: Sequence[Residence], machine: Machine, launches: int) -> list[Residence]:
    """The plan with the tensors that save most per byte held and launch, as far as there is room."""
    held, capacity = np.zeros(launches, np.int64), machine.common_memory.bytes
    decided: dict[str, Residence] = {}
    for each in sorted(found, key=lambda each: (-_worth(each), -each.saved, each.first)):
        during = held[each.first : each.last + 1]
        if each.refused or not capacity:
            reason = each.refused or "the machine has no common memory"
        elif not each.saved:
            reason = "no byte of it is moved twice"
        elif each.bytes > capacity:
            reason = f"larger than the common memory ({capacity:,} bytes)"
        elif during.max(initial=0) + each.bytes > capacity:
            full = each.first + int(during.argmax())
            reason = f"tensors with a larger saving a byte leave {capacity - held[full]:,} bytes in launch {full}"
        else:
            during += each.bytes
            decided[each.value] = replace(
                each, resident=True, reason=f"each of its bytes saves {_bytes(each.saved / each.bytes)} of DRAM"
            )
            continue
        decided[each.value] = replace(each, reason=reason)
    return [decided[each.value] for each in found]


def _bytes(count: float) -> str:
    return f"{count:.3g} byte{'' if count == 1 else 's'}"


def _worth(each: Residence) -> float:
    """Bytes saved per byte held and launch."""
    return each.saved / max(1, each.bytes * (each.last - each.first + 1))
