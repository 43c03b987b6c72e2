"""The tree of modules as HTML: parts that open on a click, and the run's cycles as bars beside them."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from workbench.explaining.views.graphs.module_tree import MOST_ROWS, Leaf, Module, counted, opened
from workbench.explaining.views.graphs.spent import Cost, Spent
from workbench.ground.basics.html_builder import html, joined


def tree_html(tree: Module, noun: str, spent: Spent | None = None, rows: int = MOST_ROWS) -> Markup:
    """The tree with its counts of `noun`, calls or kernels, opened as far as so many rows have room."""
    drawn = _Drawing(noun, max(spent.whole, 1) if spent else 0, frozenset(opened(tree, rows)))
    heads = (noun, "cycles", "of all", "DRAM") if spent else (noun,)
    head = joined(html("<span>{name}</span>", name=name) for name in (tree.title, *heads))
    parts = [html('<div class="row head">{head}</div>', head=head)]
    if spent and spent.launching:
        launching = drawn.cells("before kernels begin", "", "", "", Cost(spent.launching, 0), 0)
        parts.append(html('<div class="row">{launching}</div>', launching=launching))
    parts += (drawn.part(part, tree, 0) for part in tree.parts)
    return html('<div class="tree{}" tabindex="0">{}</div>', "" if spent else " plain", joined(parts))


@dataclass(frozen=True)
class _Drawing:
    noun: str
    whole: int
    """Cycles of the run, 0 where there is none."""
    opened: frozenset[Module]

    def part(self, part: Module | Leaf, inside: Module, depth: int) -> Markup:
        """A row; a module is one that opens."""
        count = len(part.kernels) if self.noun == "kernels" else len(part.calls)
        below = part.title.removeprefix(f"{inside.path}.") if inside.path else part.title
        title = part.title if below.isdigit() else below
        if isinstance(part, Leaf):
            about = ", ".join(filter(None, (part.name, *(op for _, op in part.calls), part.place)))
            return html('<div class="row">{}</div>', self.cells(title, part.what, about, "", part.cost, depth))
        row = self.cells(title, counted(part), part.title, f"{count:,}", part.cost, depth)
        inner = joined(self.part(each, part, depth + 1) for each in part.parts)
        state = " open" if part in self.opened else ""
        return html(
            '<details{state}><summary class="row">{row}</summary><div>{inner}</div></details>',
            state=state,
            row=row,
            inner=inner,
        )

    def cells(self, title: str, what: str, about: str, count: str, cost: Cost, depth: int) -> Markup:
        """Name and kind, how many there are in it, the run's cycles on it."""
        more = html(' <em class="soft mono">{what}</em>', what=what) if what else ""
        told = html(' title="{about}"', about=about) if about else ""
        deep = html(' style="--d:{depth}"', depth=depth) if depth else ""
        name = html(
            "<span{told}{deep}>{title}{more}</span><span>{count}</span>",
            told=told,
            deep=deep,
            title=title,
            more=more,
            count=count,
        )
        if not self.whole:
            return name
        share = cost.cycles / self.whole
        bar = html('<i style="width:{:.1f}%"></i>', 100 * share) if share >= 0.0005 else ""
        cycles = f"{cost.cycles:,}" if cost.cycles else ""
        part = f"{share:.1%}" if cost.cycles else ""
        return html(
            "{name}<span>{cycles}</span><span>{bar}<b>{part}</b></span><span>{}</span>",
            _bytes(cost.bytes),
            name=name,
            cycles=cycles,
            bar=bar,
            part=part,
        )


def _bytes(count: int) -> str:
    """`12.3 MB`, in a thousand times a thousand bytes; nothing of nothing."""
    if not count:
        return ""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count} B"
