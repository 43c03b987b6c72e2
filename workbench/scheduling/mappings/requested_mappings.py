"""The mapping requested for each kernel of a graph, and its source: the user's call, a mapping file, or a table of
tuned mappings. Tuned mappings are only for kernels without a mapping by the user."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field, replace

from simulator.errors import DoesNotFit
from simulator.machine.machine import Machine
from workbench.ground.errors import MappingError, TooManyInstructions
from workbench.ir import KernelGraph, ScheduledProgram
from workbench.ir.kernel_names import by_full_names
from workbench.scheduling.mappings.kernel_kind import kernel_kinds
from workbench.scheduling.mappings.mapping_file import Entry, MappingFile
from workbench.scheduling.mappings.tuned_table import TunedTable
from workbench.scheduling.user_mapping import UserMapping, mapping_entry


@dataclass(frozen=True, slots=True)
class RequestedMappings:
    """The mappings by the names of kernels, as scheduling takes them."""

    mapping: Mapping[str, UserMapping] | None
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kernel -> the file and line of its mapping."""
    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    """Kernel -> the entry of the mapping file with its mapping."""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kernel -> the reason why no mapping of a file is for it."""
    partial: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kernel with a mapping of a file -> an op of the entry that other kernels compute parts of as well."""

    @contextlib.contextmanager
    def blaming(self) -> Generator[None]:
        """Adds file and line to errors about a mapping from a file."""
        try:
            yield
        except (MappingError, DoesNotFit, TooManyInstructions) as error:
            if source := self.sources.get(error.kernel):
                told = f"{error}\nThe mapping is from {self._place(source, error)}"
                if isinstance(error, MappingError) and (op := self.partial.get(error.kernel)):
                    told += f". Several kernels compute parts of {op}: give the entry the shapes= of one of them"
                error.args = (told,)
            raise

    def _place(self, source: str, error: MappingError | DoesNotFit | TooManyInstructions) -> str:
        """The file, with the line of the key that an error is about, else of the entry."""
        key = error.key if isinstance(error, MappingError) else ""
        lines = self.entries[error.kernel].lines if error.kernel in self.entries else dict[str, int]()
        return f"{source.removesuffix(str(lines['']))}{lines[key]}" if key in lines else source

    def with_sources(self, program: ScheduledProgram) -> ScheduledProgram:
        """The program with the file of each mapping, or the note why no file has one, in the mapping's reason."""
        if not self.sources and not self.notes:
            return program
        kernels = list(program.kernels)
        for place, kernel in enumerate(kernels):
            reason = kernel.mapping.reason
            if source := self.sources.get(kernel.kernel):
                reason = f"{source}{reason.removeprefix('user')}"
            elif note := self.notes.get(kernel.kernel):
                reason += f"; {note}"
            kernels[place] = replace(kernel, mapping=replace(kernel.mapping, reason=reason))
        return replace(program, kernels=tuple(kernels))


def requested_mappings(
    lowered: KernelGraph,
    machine: Machine,
    mapping: Mapping[str, UserMapping] | MappingFile | None,
    tuned: TunedTable | None,
    scripts: Collection[str] = (),
) -> RequestedMappings:
    """The mappings of a graph's kernels on a machine. `scripts` are the names of kernels with a transform script by the
    user, which get no tuned mapping."""
    if tuned is None and not isinstance(mapping, MappingFile):
        return RequestedMappings(mapping)
    kinds = [*kernel_kinds(lowered)]
    found, sources, notes = dict[str, UserMapping](), dict[str, str](), dict[str, str]()
    entries, partial = dict[str, Entry](), dict[str, str]()
    if isinstance(mapping, MappingFile):
        mapping.check_machines(machine)
        for kind in kinds:
            if entry := mapping.entry_for(kind, machine):
                found[kind.name] = entry.mapping
                sources[kind.name] = f"{mapping.path}, line {entry.lines['']}"
                entries[kind.name] = entry
                if kind.partial:
                    partial[kind.name] = kind.partial
            else:
                notes[kind.name] = mapping.why_none(kind, machine)
    else:
        found |= by_full_names(mapping or {}, [kind.name for kind in kinds])
    if tuned is None:
        return RequestedMappings(found, sources, entries, notes, partial)
    scripted = by_full_names(dict.fromkeys(scripts), [kind.name for kind in kinds])
    said, leaders, here = dict(found), dict[str, str](), tuned.is_for(machine)
    for kind in kinds:
        names = kind.name, leaders.setdefault(kind.key, kind.name)
        if mapping_entry(said, names) is not None or not scripted.keys().isdisjoint(names):
            continue
        if not here:
            notes[kind.name] = f"{tuned.path} is for another machine, {tuned.machine}"
        elif entry := tuned.entry_for(kind):
            found[kind.name] = entry.mapping
            name = "" if entry.kernel == kind.name else f" as {entry.kernel}"
            sources[kind.name] = f"{tuned.path}: tuned{name}, {entry.gain:.1%} fewer cycles"
        else:
            notes[kind.name] = f"{tuned.path} has no entry for it"
    return RequestedMappings(found, sources, entries, notes, partial)
