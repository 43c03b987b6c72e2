"""The placement of tensors on chiplets, as a table and in words."""

from __future__ import annotations

from simulator import Trace
from workbench.ground.basics.table import Table
from workbench.ir import ScheduledProgram


def placement_table(trace: Trace, paths: dict[str, str]) -> Table:
    """One row a tensor in DRAM: where it was to lie, how many of its pages lay on each chiplet, and how many bytes
    those asked for who are on the same chiplet, and those who are not. No rows on a machine in one piece."""
    pages = tuple(f"pages_on_{chiplet}" for chiplet in range(trace.machine.chiplet.count))
    columns = ("tensor", "path", "bytes", "placed", *pages, "local_bytes", "remote_bytes")
    if trace.machine.chiplet.count == 1:
        has = "j.with_(machine=j.machine.with_(chiplets=2, dram_channels=2))"
        return Table(columns, (), f"{trace.machine.label} has no chiplets; a machine with chiplets: {has}")
    from simulator.optional.chiplets.placement import placement_of  # only here: it loads the compiler

    rows = tuple(
        (
            *(each.name, paths.get(each.name, ""), each.bytes),
            trace.machine.chiplet.placement if each.where is None else str(each.where),
            *(*each.pages, each.local, each.remote),
        )
        for each in placement_of(trace)
    )
    return Table(columns, rows)


def placement_text(program: ScheduledProgram) -> str:
    """The user's placement; empty if there is none."""
    if not program.placement:
        return ""
    told = (
        f"{each.path or each.value} {each.policy if each.chiplet is None else f'on chiplet {each.chiplet}'}"
        for each in program.placement
    )
    return f"// placement: {', '.join(told)}; all other tensors by the machine's policy"


def crossed_text(trace: Trace) -> str:
    """The share of DRAM bytes that went from one chiplet to another; empty on a machine in one piece."""
    if trace.machine.chiplet.count == 1:
        return ""
    asked, remote = trace.counters["dram_request_bytes"], trace.counters["dram_remote_bytes"]
    share = remote / max(1, asked)
    return (
        f"{trace.machine.chiplet.count} chiplets: {remote:,} of {asked:,} bytes ({share:.0%}) were on another "
        "chiplet than the requesting one"
    )
