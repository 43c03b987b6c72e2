"""Settings that differ between journeys: the machine, options, fusion and mappings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.machine.dram_file import figure_names as memory_figure_names
from workbench.explaining.views.graphs.kernel_groups import Group, Matching, Run
from workbench.ground.basics.table import Cell, Table
from workbench.ir import Mapping

Row = tuple[str, str, tuple[Cell, ...]]
"""A setting, its part of the program, and each journey's value."""


def changes_table(matching: Matching) -> Table:
    """One row a setting that differs, one column a journey: the machine's figures, options, kernels, their mappings."""
    runs = matching.runs
    rows = [*_machines(runs), *_options(runs), *(row for group in matching.groups for row in _kernels(group, runs))]
    differing = ((what, of, *each) for what, of, each in rows if len(set(each)) > 1)
    return Table(("what", "of", *(run.name for run in runs)), tuple(differing))


def _machines(runs: Sequence[Run]) -> Iterator[Row]:
    figures = [run.trace.machine.figures() for run in runs]
    for name in dict.fromkeys(name for each in figures for name in each):
        yield name, "the machine", tuple(_cell(each.get(name)) for each in figures)
    memories = [run.trace.machine.own_memory for run in runs if run.trace.machine.own_memory]
    for name in memory_figure_names() if len(memories) == len(runs) else ():  # memories of files; others have names
        yield name, "the memory", tuple(_cell(getattr(each, name)) for each in memories)


def _options(runs: Sequence[Run]) -> Iterator[Row]:
    for name in dict.fromkeys(name for run in runs for name in run.options):
        yield name, "option", tuple(repr(run.options[name]) if name in run.options else None for run in runs)


def _kernels(group: Group, runs: Sequence[Run]) -> Iterator[Row]:
    """The kernels of the group, and their tilings in the journeys in which the group is one kernel."""
    yield "kernels", group.title, tuple(", ".join(part.kernels) or None for part in group.parts)
    found = [_mapping(run, part.launches) for run, part in zip(runs, group.parts, strict=True)]
    settings = [_of_mapping(each) if each else {} for each in found]
    for what in dict.fromkeys(what for each in settings for what in each):
        if len({each.get(what) for each, mapping in zip(settings, found, strict=True) if mapping}) > 1:
            yield what, group.title, tuple(each.get(what) for each in settings)


def _of_mapping(mapping: Mapping) -> dict[str, Cell]:
    """The settings of a mapping, by the names of its knobs."""
    tiles: dict[str, Cell] = {f"tile.{dim}": size for dim, size in mapping.tile.items()}
    cores: dict[str, Cell] = {f"cores.{dim}": count for dim, count in mapping.cores.items()}
    return {**tiles, "order": " ".join(mapping.order), "buffers": mapping.buffers, **cores}


def _mapping(run: Run, launches: Sequence[int]) -> Mapping | None:
    """The mapping of a group's only kernel; a step on the host has none."""
    if len(launches) != 1:
        return None
    name = run.launches[launches[0]].kernel
    return next((kernel.mapping for kernel in run.scheduled.kernels if kernel.kernel == name), None)


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float | str) or value is None else str(value)
