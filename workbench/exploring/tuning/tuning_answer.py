"""The answer of `j.tuned()` and `wb.tune`: the gain of each kernel, and the journey with the faster mappings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Generic, cast

from markupsafe import Markup

from workbench.explaining.artefacts.staged import J
from workbench.exploring.knobs.knob import kernel_of, scheduled_kernel
from workbench.exploring.tuning.explored import Explored
from workbench.exploring.tuning.map_space import MapSpace
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.html_builder import html
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Cell, Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption
from workbench.ir.kernel_identity import machine_key
from workbench.ir.kernel_names import by_full_names
from workbench.scheduling.mappings.kernel_kind import KernelKind, kernel_kinds
from workbench.scheduling.mappings.tuned_table import TunedEntry, TunedTable, table_to_add_to, write_tuned_table
from workbench.scheduling.user_mapping import UserMapping, with_named

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "kernel",
    "launches",
    "cycles",
    "tuned",
    "gain",
    "mapping",
    "tried",
    "refused",
    "pruned",
    "candidates",
    "note",
)


@dataclass(eq=False, repr=False)
class Tuning(Shown, Generic[J]):
    """The fastest mappings that were found. Cycles are of one launch."""

    start: J
    """The journey that was tuned."""
    _mapping: Mapping[str, UserMapping]
    """The user's mappings of kernels at the start."""
    budget: int
    seed: int
    explored: list[Explored] = field(default_factory=list[Explored])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """Kernel that was not tuned -> the reason."""
    stopped: str = ""
    """The reason why the search ended early; mappings found until then are kept. Empty if it did not."""

    @property
    def mappings(self) -> dict[str, UserMapping]:
        """The mappings that are faster than the current ones, by kernel."""
        return {each.kernel: each.mapping(each.best) for each in self.explored if each.best != each.today}

    @cached_property
    def journey(self) -> J:
        """The journey with the faster mappings; the journey at the start if that is not faster as a whole."""
        if not self.mappings:
            return self.start
        kernels = [(launch.name, launch.kernel) for launch in self.start.scheduled.record.launches.launches]
        given = by_full_names(self._mapping, [name for name, _ in kernels])
        made = cast("J", self.start.with_(mapping=with_named(given, self.mappings, kernels)))
        return made if made.simulated.cycles < self.start.simulated.cycles else self.start

    @property
    def table(self) -> pd.DataFrame:
        """One row for each kernel: cycles of a launch now and with the best mapping, the fraction saved, the mapping,
        and the numbers of candidates that were tried, that were refused, that were not tried because their least
        possible cycles are not below the best found, and of all candidates."""
        return data_frames.frame(self._table(), whole=("cycles", "tuned"))

    @property
    def refused(self) -> pd.DataFrame:
        """One row for each candidate that scheduling or simulation refused, with the reason."""
        rows = tuple(
            (each.kernel, told(each.mapping(place)), each.costs[place].refused)
            for each in self.explored
            for place in each.refused
        )
        return data_frames.frame(Table(("kernel", "mapping", "refused"), rows))

    @knows_its_options
    def mapspace(self, kernel: str) -> MapSpace:
        """A kernel's map space, with the cycles of the candidates that were tried."""
        name = scheduled_kernel(self.start.scheduled.record, kernel_of(self.start, kernel)).kernel
        for each in self.explored:
            if each.kernel == name:
                return MapSpace(each)
        raise BadOption(f"mapspace({kernel!r}): it was not tuned: {self.left_out.get(name, 'it was not asked for')}")

    @knows_its_options
    def save(self, path: str | os.PathLike[str], *, minimum_gain: float = 0.01) -> None:
        """Writes the mappings that save at least the fraction `minimum_gain` of a kernel's cycles to a file, for
        `tuned=path`: later compiles on this machine use them for kernels of the same ops, shapes and element types.
        Entries of the table that the tuned journey uses, and of an existing file, stay unless a faster mapping was
        found."""
        if isinstance(minimum_gain, bool) or not 0 <= minimum_gain < 1:
            raise BadOption(f"minimum_gain={minimum_gain!r}: expected a part of the cycles, from 0 to less than 1")
        kinds = {kind.name: kind for kind in kernel_kinds(self.start.lowered.record)}
        faster = [each for each in self.explored if each.best != each.today and gain(each) >= minimum_gain]
        entries = self._entries_before(path)
        for found in (_entry(kinds[each.kernel], each) for each in faster):
            old = entries.get(found.key, found)
            if found is old or found.after < old.after:
                entries[found.key] = replace(found, before=max(old.before, found.before))
        machine = self.start.machine
        told = machine.label, machine_key(machine)
        write_tuned_table(TunedTable(os.fspath(path), *told, minimum_gain, tuple(entries.values())))

    def _entries_before(self, path: str | os.PathLike[str]) -> dict[str, TunedEntry]:
        """The entries, by key, of the table that the journey at the start uses and of the file's table; of two entries
        for the same kernels, the faster one."""
        used, machine = self.start.options.get("tuned"), self.start.machine
        tables = [used] if isinstance(used, TunedTable) and used.is_for(machine) else []
        there = table_to_add_to(path, machine)
        found = dict[str, TunedEntry]()
        for entry in (each for table in (*tables, there) if table is not None for each in table.entries):
            if entry.key not in found or entry.after < found[entry.key].after:
                found[entry.key] = entry
        return found

    def _table(self) -> Table:
        if not self.explored and not self.left_out:  # the search was interrupted before there was a schedule
            return Table(COLUMNS, ())
        launches = [launch.kernel for launch in self.start.scheduled.record.launches.launches]
        rows = list[tuple[Cell, ...]]()
        for each in self.explored:
            today, best = int(each.cycles_at(each.today)), int(each.cycles_at(each.best))
            counts = len(each.costs) - 1, len(each.refused), len(each.pruned), len(each.space.candidates)
            mapping = told(each.mapping(each.best)) if each.best != each.today else "as it is"
            rows.append(
                (each.kernel, launches.count(each.kernel), today, best, gain(each), mapping, *counts, self._note(each))
            )
        rows += [(name, launches.count(name), *[None] * 3, "", 0, 0, 0, 0, why) for name, why in self.left_out.items()]
        return Table(COLUMNS, tuple(rows))

    def _note(self, each: Explored) -> str:
        if len(each.costs) + len(each.pruned) == len(each.space.candidates):
            return "nothing in its space is faster"
        return self.stopped if self.stopped and each is self.explored[-1] else ""

    @knows_its_options
    def text(self) -> str:
        return f"{self!r}\n\n{self._table().text(widest=72)}"

    @knows_its_options
    def html(self) -> Markup:
        head = html("<p>{}</p>", repr(self))
        return markup.fragment(head + markup.table(self._table(), wide=("mapping", "note")))

    def __repr__(self) -> str:
        faster, count = len(self.mappings), len(self.explored)
        state = f", stopped: {self.stopped}" if self.stopped else ""
        if not self.explored:
            return f"Tuning(no kernel was tuned{state})"
        before, after = self.start.simulated.cycles, self.journey.simulated.cycles
        return f"Tuning({faster} of {count} kernels faster, {before:,} -> {after:,} cycles{state})"


def _entry(kind: KernelKind, found: Explored) -> TunedEntry:
    before, after = int(found.cycles_at(found.today)), int(found.cycles_at(found.best))
    return TunedEntry(kind.name, kind.ops, kind.arguments, kind.key, before, after, found.mapping(found.best))


def gain(found: Explored) -> float:
    """The fraction of the current cycles that the best mapping saves."""
    today = found.cycles_at(found.today)
    return round(1 - found.cycles_at(found.best) / today, 4) if today else 0.0


def told(mapping: UserMapping) -> str:
    """A mapping in a line."""
    tile = " ".join(f"{dim}={size}" for dim, size in mapping.get("tile", {}).items())
    cores = "".join(f", {dim} over {count} cores" for dim, count in mapping.get("cores", {}).items())
    return f"{tile}, order {' '.join(mapping.get('order', []))}, {mapping.get('buffers', 1)} slots{cores}"
