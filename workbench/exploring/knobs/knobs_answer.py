"""The answer of `j.knobs(...)`: the knobs, the effect of each value, and the calls that turn them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, cast

from markupsafe import Markup

from simulator.did_you_mean import did_you_mean, sentences
from workbench.explaining.artefacts.pictures import widgets
from workbench.explaining.artefacts.staged import J
from workbench.exploring.knobs.knob import (
    FUSION,
    KERNELS,
    LAYOUT,
    MACHINE,
    Knob,
    Value,
    journey_knobs,
    kernel_knobs,
    kernel_of,
    scheduled_kernel,
    text_of,
)
from workbench.exploring.knobs.sweep import Sweep
from workbench.exploring.knobs.turned_knobs import Turned, refusal_of
from workbench.ground.argument_types import plain_value
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Cell, Table
from workbench.ground.environment.progress import counted, waiting
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption, WorkbenchError

if TYPE_CHECKING:
    import pandas as pd

    from workbench.exploring.knobs.sweep import Point
    from workbench.stages.journey_request import Request

COLUMNS = ("knob", "kernel", "value", "range", "values", "about")


def knobs_of(journey: J, request: Request, kernel: str | None) -> Knobs[J]:
    """The knobs of a journey, after those of a kernel if one is named."""
    own: tuple[Knob, ...] = ()
    name = ""
    if kernel is not None:
        name = kernel_of(journey, kernel)
        own = kernel_knobs(name, scheduled_kernel(journey.scheduled.record, name), request.machine)
    return Knobs(Turned(journey, request), name, (*own, *journey_knobs(request)))


@dataclass(frozen=True, repr=False)
class Knobs(Shown, Generic[J]):
    """The knobs of one kernel and of the journey. A kernel's knob changes one setting: the rest of the kernel's mapping
    stays, while the heuristic tiles all other kernels. After a change of the machine it tiles all kernels."""

    _start: Turned[J]
    kernel: str
    """The kernel of the first knobs; empty if there are only knobs of the journey."""
    knobs: tuple[Knob, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row for each knob: its kernel, its current value, the possible values, the values worth trying, and an
        explanation."""
        return data_frames.frame(self._table())

    def _table(self) -> Table:
        rows = ((each.name, each.kernel, each.value, each.range, each.values, each.about) for each in self.knobs)
        return Table(COLUMNS, tuple(rows))

    @knows_its_options
    def values(self, knob: str) -> pd.DataFrame:
        """One row for each value worth trying: if it is allowed, the reason if not, and the call that sets it.

        Each value is really scheduled: no other rules decide.
        """
        found, rows = self[knob], list[tuple[Cell, ...]]()
        with waiting(f"try the values of {knob}"):
            for value in counted(found.values):
                why = self.why_not(knob, value)
                rows.append((value, value == found.value, not why, why, "" if why else self.call(knob, value)))
        return data_frames.frame(Table(("value", "today", "allowed", "why_not", "call"), tuple(rows)))

    def __getitem__(self, name: str) -> Knob:
        for knob in self.knobs:
            if knob.name == name:
                return knob
        names = [knob.name for knob in self.knobs]
        shown = [each for each in names if not each.startswith(MACHINE)]
        near = [each for each in names if each.partition(".")[2] == name]
        hint = f"; did you mean {near[0]!r}?" if near else did_you_mean(str(name), names)
        if str(name).partition(".")[0] in KERNELS and not any(knob.kernel for knob in self.knobs):
            hint = "; a kernel has knobs of its own: give kernel="
        what = f"there is no knob {name!r}{hint}"
        raise BadOption(sentences(what, f"The knobs are {', '.join(shown)}, and {MACHINE}.<figure>"))

    @knows_its_options
    def turned(self, knob: str, value: Value) -> J:
        """The journey with a knob at another value; it is scheduled now, so that a refused value raises here."""
        made = self._with(knob, value).journey()
        _ = made.scheduled
        return made

    @knows_its_options
    def call(self, knob: str, value: Value) -> str:
        """The call that makes the journey with this value from the present one, `j`."""
        return self._with(knob, value).call

    @knows_its_options
    def why_not(self, knob: str, value: Value) -> str:
        """The reason why scheduling refuses a value; empty if it does not."""
        try:
            _ = self._with(knob, value).journey().scheduled
        except WorkbenchError as error:
            return refusal_of(error)
        return ""

    @knows_its_options
    def sweep(
        self,
        *knobs: str,
        values: Mapping[str, Sequence[Value]] | None = None,
        background: bool = False,
        on_point: Callable[[Point], object] | None = None,
    ) -> Sweep[J]:
        """The map over one knob or two: cycles and bytes of every pair of values, or the reason of its refusal. Each
        pair is really scheduled and simulated.

        `values` has the values of a knob by its name; the default are the values worth trying. An interrupt keeps the
        finished points. With `background` the call returns at once: `.done`, `.wait()` and `.stop()` follow the sweep,
        and `on_point` is called with each new point, in the background thread.
        """
        chosen = tuple(self[name] for name in knobs)
        given = values or {}
        for name in given:
            if name not in knobs:
                raise BadOption(
                    f"sweep: values= has {name!r}, which is not a swept knob; the swept ones are {list(knobs)}"
                )
        for knob in chosen:
            _ = self._start.with_value(knob, knob.value)  # raises if a script sets it
        axes = tuple(_axis(knob, given.get(knob.name, knob.values)) for knob in chosen)
        return Sweep[J].started(self._start, chosen, axes, background=background, on_point=on_point)

    @knows_its_options
    def widget(self) -> object:
        """The knobs as a widget for a notebook: each change is scheduled and simulated in the background, and the new
        timeline is shown above the start's. `.journey` of the widget is the resulting journey."""
        return widgets("knobs_widget").knob_editor(
            self._start.start.experiment(), self.kernel or None, ends_session=True
        )

    def _with(self, knob: str, value: Value) -> Turned[J]:
        return self._start.with_value(self[knob], value)

    @knows_its_options
    def text(self) -> str:
        """The knobs as text, without those of the machine, which are in `.table`."""
        return _told([knob for knob in self.knobs if knob.kind != MACHINE]).text(widest=60)

    @knows_its_options
    def html(self) -> Markup:
        """The kernel's knobs as a table, then the journey's in sections, which are closed if there is a kernel."""
        own = markup.table(_told([knob for knob in self.knobs if knob.kernel]), wide=("worth trying",))
        parts = [html("<p><b>{}</b></p>{own}", self.kernel, own=own)] if self.kernel else []
        for title, kind in (("fusion rules", FUSION), ("layout in DRAM", LAYOUT), ("figures of the machine", MACHINE)):
            knobs = [knob for knob in self.knobs if knob.kind == kind]
            if not knobs:
                continue
            table = markup.table(_told(knobs), wide=("range", "worth trying"))
            opened = kind == FUSION and not self.kernel
            parts.append(markup.details(title, table, note=f"{len(knobs)}", opened=opened))
        return markup.fragment(joined(parts))

    def __repr__(self) -> str:
        own = sum(knob.kernel != "" for knob in self.knobs)
        of = f"{own} of {self.kernel!r}, " if self.kernel else ""
        return f"Knobs({of}{len(self.knobs) - own} of the journey)"


def _told(knobs: Sequence[Knob]) -> Table:
    """A table of knobs for readers."""
    rows = tuple((each.name, text_of(each.value), each.range, " · ".join(map(text_of, each.values))) for each in knobs)
    return Table(("knob", "value", "range", "worth trying"), rows)


def _axis(knob: Knob, values: Sequence[Value]) -> tuple[Value, ...]:
    """The values over which a knob is swept, each once; an order may be a list."""
    no_list = BadOption(f"sweep: values of {knob.name} are {values!r:.60}; expected a list of them")
    if isinstance(values, str | bytes | bytearray | Mapping):
        raise no_list
    try:
        plain: list[Any] = [plain_value(each) for each in values]
    except TypeError:  # also of an array without axes, which only looks like a list
        raise no_list from None
    for each in plain:
        if not isinstance(each, int | float | str) and not _is_order(each):
            what = f"{each!r:.60}, of type {type(each).__name__}"
            raise BadOption(f"sweep: a value of {knob.name} is {what}; expected {knob.range}")
    hashable: list[Value] = [tuple(cast("list[str]", each)) if isinstance(each, list) else each for each in plain]
    made = tuple(dict.fromkeys(hashable))
    if not made:
        raise BadOption(f"sweep: {knob.name} has no values")
    return made


def _is_order(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in cast("list[object]", value))
