"""The artefact of the fourth stage: kernels as loops over tiles, with the programs read off them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from markupsafe import Markup

from simulator.tileprogram.program import Buffer, TileProgram
from workbench.explaining.artefacts.handle import Handle, count_of
from workbench.explaining.artefacts.passes_handle import Passes
from workbench.explaining.artefacts.scratchpad_views import Tiles
from workbench.explaining.views.graphs import titles
from workbench.explaining.views.kernel_lists import kernel_tables, memory_tables, pass_lines
from workbench.explaining.views.pages import stage_html
from workbench.explaining.views.scratchpads import tiles
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption
from workbench.ground.faults.trial import TRIALS
from workbench.ir import KernelGraph, KernelModule, Mapping, ScheduledKernel, ScheduledProgram
from workbench.scheduling.user_mapping import UserMapping, mapping_of

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.views.selections.selection import Selection


class Buffers(Shown, tuple[Buffer, ...]):
    """The buffers of a kernel: a tuple that shows itself as a table."""

    _record: ScheduledKernel

    def __new__(cls, record: ScheduledKernel) -> Self:
        buffers = super().__new__(cls, record.program.buffers)
        buffers._record = record
        return buffers

    @property
    def table(self) -> pd.DataFrame:
        """One row a buffer, and its core if there are several."""
        return data_frames.frame(kernel_tables.buffers_table(self._record.program))

    @knows_its_options
    def html(self) -> Markup:
        return markup.fragment(markup.table(kernel_tables.buffers_table(self._record.program)))

    def __repr__(self) -> str:
        return kernel_tables.buffers_table(self._record.program).text() if self else "no buffers"


@dataclass(frozen=True, repr=False)
class ScheduledKernelHandle(Shown):
    """One kernel in the scheduled form, which runs natively and is simulated."""

    record: ScheduledKernel
    rendered: tuple[KernelModule, ...] = field(default=(), compare=False)
    """All kernels before scheduling; the first pass is compared with this kernel among them."""

    @property
    def name(self) -> str:
        return self.record.kernel

    @property
    def mlir(self) -> str:
        return self.record.mlir

    @property
    def schedule(self) -> str:
        """The transform script that made the kernel. Reading it starts a worker process in the background: if a user
        edits the script, the worker tries the edited one first."""
        if importlib.util.find_spec("torch") is not None:  # without PyTorch a journey can only be read
            TRIALS.expect()
        return self.record.schedule

    @property
    def mapping(self) -> Mapping:
        return self.record.mapping

    @property
    def dims(self) -> dict[str, int]:
        """Name and extent of every dim for a mapping."""
        return dict(self.record.dims)

    @cached_property
    def passes(self) -> Passes:
        """The module after every step, the step's changes, and the pipeline that reproduces the step."""
        (trace,) = pass_lines.traces_of([self.record], self.rendered)
        return Passes.of(trace)

    @property
    def program(self) -> TileProgram:
        return self.record.program

    @property
    def instructions(self) -> pd.DataFrame:
        """One row an instruction of the program: its kind, its pieces of memory, and its dependences."""
        return data_frames.frame(kernel_tables.instructions_table(self.record.program))

    @property
    def buffers(self) -> Buffers:
        """The scratchpad's buffers, with their addresses."""
        return Buffers(self.record)

    @property
    def table(self) -> pd.DataFrame:
        """One row a pass."""
        return self.passes.table

    @knows_its_options
    def text(self, *, select: Selection | None = None) -> str:
        """The mapping, its bytes, and the MLIR; with a selection, `>` marks its lines."""
        return kernel_tables.scheduled_kernel_text(self.record, select.lines_of if select else None)

    def __repr__(self) -> str:
        return f"ScheduledKernel({self.name!r}, {count_of(len(self.program), 'instruction')})"

    @knows_its_options
    def html(self) -> Markup:
        """Mapping, MLIR, passes with their changes, transform script and buffers."""
        return markup.fragment(stage_html.scheduled_kernel(self.record, self.passes))


@dataclass(frozen=True, repr=False)
class Scheduled(Handle[ScheduledProgram]):
    """Every kernel tiled into loops over the scratchpad, with the tile program read off it."""

    lowered: KernelGraph = field(compare=False)
    """The graph of kernels, which has the user's names of the tensors."""
    rendered: tuple[KernelModule, ...] = field(default=(), compare=False)
    """The kernels before scheduling: the first step of each kernel is compared with them."""
    titles: dict[str, str] = field(default_factory=dict[str, str], compare=False)
    """The title of each kernel."""
    _mapspace: Callable[[str, int, Any], Any] | None = field(default=None, compare=False)
    """Lists the mappings of a kernel for `mapspace`; None for a schedule without a journey."""

    def _table(self) -> Table:
        return titles.with_titles(kernel_tables.scheduled_table(self.record), self.titles)

    @property
    def mappings(self) -> dict[str, UserMapping]:
        """The argument `mapping=` that keeps every kernel's tiling, on another machine too."""
        return {kernel.kernel: mapping_of(kernel) for kernel in self.record.kernels if kernel.mapping.tile}

    @property
    def residence(self) -> pd.DataFrame:
        """The plan of the common memory: one row a tensor in DRAM, whether it stays there, its first and last launch,
        the saved DRAM bytes, and the reason. Without a plan (`resident=`) there are no rows, and a warning."""
        return data_frames.frame(memory_tables.residence_table(self.record))

    @property
    def storages(self) -> pd.DataFrame:
        """One row a tensor in DRAM: the order of its axes, outermost first, its bytes, its bytes with the machine's
        padding, its address, and its first and last launch."""
        return data_frames.frame(memory_tables.storages_table(self.lowered, self.record))

    @knows_its_options
    def mapspace(self, kernel: str, *, simulate: int = 0, executor: object = None) -> Any:
        """The legal mappings of a kernel, those predicted to be fastest first: tiles, orders, slots and cores, each
        with its predicted cycles. The first `simulate` of them are scheduled and simulated as well, side by side if
        there is an `executor`: `.table` then has their cycles, or the reasons of refusals."""
        if self._mapspace is None:
            raise BadOption("mapspace: this schedule was made without a journey, which simulates; use j.scheduled")
        return self._mapspace(kernel, simulate, executor)

    @knows_its_options
    def tiles(self, kernel: str) -> Tiles:
        """The boxes of tensors that each instruction of a kernel touches, in program order, and the number of moves of
        each element: `.table`, `.moved`, and a picture of each tensor as a grid of tiles."""
        return Tiles(tiles.tiling(kernel, self.record, self.lowered))

    @knows_its_options
    def text(self, *, select: Selection | None = None) -> str:
        """All kernels with their mappings; with a selection, `>` marks its lines."""
        return kernel_tables.scheduled_text(self.record, select.lines_of if select else None)

    def body_html(self) -> Markup:
        return stage_html.scheduled(self.record, self.rendered, titles=self.titles)

    @cached_property
    def kernels(self) -> tuple[ScheduledKernelHandle, ...]:
        return tuple(ScheduledKernelHandle(kernel, self.rendered) for kernel in self.record.kernels)

    def __repr__(self) -> str:
        kernels, launches = len(self.record.kernels), len(self.record.launches.launches)
        instructions = sum(len(kernel.program) for kernel in self.record.kernels)
        return (
            f"Scheduled({count_of(kernels, 'kernel')}, {count_of(launches, 'launch')}, "
            f"{count_of(instructions, 'instruction')})"
        )
