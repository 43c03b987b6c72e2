"""A journey on one screen: what was traced, how far it has come, why it takes as long as it does, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from workbench.explaining.views.graphs.module_tree import Module, costliest, counted, folded, modules_table
from workbench.explaining.views.graphs.spent import Spent
from workbench.explaining.views.timelines.gantt import NOTHING
from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.basics import data_frames, markup
from workbench.ground.basics.cards import Why, binding_html, cards_html
from workbench.ground.basics.html_builder import NO_HTML, escaped, html, joined
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Table

if TYPE_CHECKING:
    import pandas as pd

_TOP = 3
"""Findings that are shown by themselves."""
_LAUNCHING = "before kernels begin"
_ASK_WHY = "j.findings says why it takes as long as it does"
_BARS = 8
"""Modules or calls that have a bar of their own."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a journey, made or not."""

    name: str
    ask: str
    """The call that makes the stage: `j.simulated`."""
    figures: tuple[str, ...] = ()
    """The figures of the stage, the most important one first; empty for a stage that is not made yet."""
    seconds: float | None = None
    """The time that the stage took."""


@dataclass(frozen=True, repr=False)
class Overview(Shown):
    """The display of `j` at the end of a cell. It computes no stage: a missing one shows the call that makes it."""

    name: str
    machine: str
    inputs: tuple[str, ...]
    stages: tuple[Stage, ...]
    checks: tuple[tuple[bool, str], ...]
    """The results of `j.check` by stage: True if all was right, and a sentence."""
    no_check: str
    """The call that checks, or the reason why no check is possible."""
    tree: Module | None = None
    """The captured calls by module."""
    spent: Spent | None = None
    """The cycles and bytes that the run spent on the calls."""
    why: Why | None = None
    """The part that binds the run, and the findings; None if nobody searches for findings."""

    @property
    def table(self) -> pd.DataFrame:
        """One row a module, and one a captured call, in the order in which they first ran: calls, kernels that work for
        it, its cycles, bytes from and to DRAM, and its share of all cycles. The calls of a kernel share its cycles in
        proportion to the busy cycles of the spans that work for them; `before kernels begin` is the launch overhead."""
        empty = Table(("title",), (), f"nothing is captured yet: {self.stages[0].ask}")
        return data_frames.frame(modules_table(self.tree, self.spent) if self.tree else empty)

    @property
    def time(self) -> pd.DataFrame:
        """The time by module or call, most cycles first, as the bars show it. Numbered modules that are alike are one
        row, `layers.0-11`. The cycles add up to the makespan."""
        return data_frames.frame(self._time())

    @checks_what_it_is_given
    def text(self) -> str:
        """The overview as text for a terminal."""
        lines = [f"{self.name} on {self.machine}", *([f"  {', '.join(self.inputs)}"] if self.inputs else [])]
        for stage in self.stages:
            lines.append(f"  {stage.name:<10} {', '.join(stage.figures) or f'not there yet: {stage.ask}'}")
        lines += [f"  {'checked':<10} {sentence}" for sentence in [said for _, said in self.checks] or [self.no_check]]
        if self.why:
            most = sorted(self.why.cards, key=lambda card: not card.cycles)[:_TOP]
            lines += ["", self.why.binding, *(card.text() for card in most)]
            lines += [f"all {len(self.why.cards)}: j.findings"] if most else []
        elif self.spent:
            lines += ["", _ASK_WHY]
        if self.spent:
            table = self._time()
            lines += ["", "where the time went", table.text(indent="  ") if table.rows else f"  {NOTHING}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """The overview as text, so that `print(j.overview)` shows it."""
        return self.text()

    @checks_what_it_is_given
    def html(self) -> Markup:
        return markup.fragment(self.body_html())

    def body_html(self) -> Markup:
        """The overview for a page that has the style sheet."""
        return html('<p class="lead"><b>{}</b> on <b>{}</b></p>{}', self.name, self.machine, self.inside_html())

    def inside_html(self) -> Markup:
        """The overview without the name and the machine."""
        parts = self._stages(), self._checked(), self._why(), self._where()
        return html('<p class="soft mono">{}</p>{}{}{}{}', ", ".join(self.inputs), *parts)

    def _checked(self) -> Markup:
        if not self.checks:
            return html('<p><b>Not checked</b> <span class="soft">{}</span></p>', self.no_check)
        checked = ((("good" if ok else "bad"), sentence) for ok, sentence in self.checks)
        return joined(html('<p><b style="color:var(--{})">Checked</b> {}</p>', *each) for each in checked)

    def _stages(self) -> Markup:
        parts: list[Markup] = []
        for stage in self.stages:
            if stage.figures:
                first, *others = stage.figures
                others += [f"took {stage.seconds:.1f} s"] if stage.seconds is not None else []
                more = joined(map(escaped, others), between=html("<br>"))
                shown = html('<b>{first}</b><span class="soft">{more}</span>', first=first, more=more)
            else:
                shown = html('<b class="soft">not there yet</b><code>{}</code>', stage.ask)
            parts.append(html('<div><span class="soft">{}</span>{shown}</div>', stage.name, shown=shown))
        return html('<div class="stages">{}</div>', joined(parts))

    def _why(self) -> Markup:
        if self.why is None:
            return html('<p class="soft">{ask_why}</p>', ask_why=_ASK_WHY) if self.spent else NO_HTML
        head = markup.heading("Why it takes as long as it does") + binding_html(self.why.binding)
        return head + cards_html(self.why.cards, _TOP)

    def _where(self) -> Markup:
        if not self.spent:
            return NO_HTML
        whole, table = max(self.spent.whole, 1), self._time()
        rows = [(str(title), str(ops), int(str(cycles))) for title, ops, cycles in table.rows]
        drawn = markup.bars(
            (f"{title} ({ops})" if ops else title, [(cycles / whole, _colour(title), title)], _of(cycles, whole))
            for title, ops, cycles in rows
        )
        nothing = html('<p class="soft">{nothing}</p>', nothing=NOTHING)
        return markup.heading("Where the time went") + (drawn if rows else nothing)

    def _time(self) -> Table:
        columns = ("title", "ops", "cycles")
        if not self.tree or not self.spent:
            return Table(columns, (), "there is no timeline yet: j.simulated")
        parts = [part for part in costliest(folded(self.tree)) if part.cost.cycles]
        rows = [(part.title, counted(part) if isinstance(part, Module) else "", part.cost.cycles) for part in parts]
        shown, others = rows[:_BARS], rows[_BARS:]
        if others:
            shown.append((f"{len(others)} others", "", sum(cycles for *_, cycles in others)))
        if self.spent.launching:
            shown.append((_LAUNCHING, "", self.spent.launching))
        return Table(columns, tuple(shown))


def _of(cycles: int, whole: int) -> str:
    return f"{cycles:,} cycles, {cycles / whole:.1%}"


def _colour(title: str) -> str:
    return "var(--c-launch)" if title == _LAUNCHING else "var(--accent)"
