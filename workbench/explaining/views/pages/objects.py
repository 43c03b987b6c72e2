"""Machines, tile programs and the registry of operators as HTML: plain records, which have no views of their own."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from simulator import Machine
from simulator.tileprogram.program import Access, TileProgram
from workbench.explaining.views.kernel_lists import kernel_tables
from workbench.explaining.views.timelines import machine_table
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html, joined
from workbench.ground.basics.table import Table
from workbench.ground.packages import own_name
from workbench.operators.aten.registry import DEFAULT
from workbench.operators.ops import listing

_MOST = 200
"""Instructions that are listed; a program may have a million."""


def machine_html(machine: Machine) -> Markup:
    """A machine's first figures as cards, all of them with their sources below."""
    (names, (row,)) = (table := machine_table.machines_table([machine])).columns, table.rows
    first = {name.replace("_", " "): str(value) for name, value in zip(names, row, strict=True) if name != "machine"}
    figures = markup.table(machine_table.figures_table(machine), wide=("value", "source"))
    note = f"{len(machine.figures()) - 1} figures, {len(machine.assumed)} of them assumed: nobody published them"
    note += f"; {len(machine.fitted)} fitted to measurements" if machine.fitted else ""
    head = html("<p>machine <b>{}</b></p>", machine.label)
    return markup.fragment(head + markup.cards(first) + markup.details("all figures", figures, note=note))


def program_html(program: TileProgram) -> Markup:
    """A tile program: its instructions by kind, the bytes that it moves, and its first instructions."""
    figures = {
        "instructions": f"{len(program):,}",
        "DRAM bytes read": f"{kernel_tables.dram_bytes(program, Access.READ):,}",
        "DRAM bytes written": f"{kernel_tables.dram_bytes(program, Access.WRITE):,}",
        "scratchpad bytes": f"{program.scratchpad_bytes:,}",
    }
    told = kernel_tables.instructions_table(program.part(0, min(len(program), _MOST)))
    note = f"{len(program):,}" if len(program) <= _MOST else f"the first {_MOST} of {len(program):,}"
    head = html("<p>tile program of <b>{}</b>: ", program.kernel)
    head += html("{}</p>", kernel_tables.instruction_counts(program))
    listed = markup.table(told, wide=("reads", "writes", "waits_for"))
    buffers = markup.table(kernel_tables.buffers_table(program))
    return markup.fragment(
        head
        + markup.cards(figures)
        + markup.details("instructions", listed, note=note, opened=len(program) <= _MOST)
        + markup.details("buffers", buffers, note=str(len(program.buffers)))
    )


def operators_text() -> str:
    """The registered operators in a line, and the calls that list them."""
    routes = Counter(item.route for item in DEFAULT.now())
    kinds = ", ".join(f"{count} {route}s" for route, count in sorted(routes.items()))
    who = "wb.ops.who('aten.softmax.int') shows the route of an op"
    return f"wb.ops: {kinds} registered; wb.ops.table() lists them, {who}"


def operators_html() -> Markup:
    """The registry: the operators of this session and of the user's files first, then the shipped ones."""
    rows = Table(listing.COLUMNS, listing.rows(DEFAULT.now()))
    at = listing.COLUMNS.index("owner")
    shipped = [row for row in rows.rows if str(row[at]).startswith(f"{own_name('templates')}.")]
    own = [row for row in rows.rows if row not in shipped]
    parts = [html("<p>{}</p>", operators_text())]
    for name, some in (("registered by you", own), ("shipped", shipped)):
        shown = markup.table(Table(rows.columns, tuple(some)).pick("overload", "route", "dialect", "kind", "owner"))
        parts.append(markup.details(name, shown, note=f"{len(some)} registrations", opened=0 < len(some) <= 20))
    return markup.fragment(joined(parts))
