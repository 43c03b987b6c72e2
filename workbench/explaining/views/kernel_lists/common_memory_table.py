"""The plan of the common memory, as a table and in words."""

from __future__ import annotations

import numpy as np

from workbench.ground.basics.table import Table
from workbench.ir import Residence, ScheduledProgram

COLUMNS = (
    "tensor",
    "path",
    "bytes",
    "resident",
    "first",
    "last",
    "from_kernel",
    "to_kernel",
    "in_dram",
    "saved_read_bytes",
    "saved_write_bytes",
    "would_save_read_bytes",
    "would_save_write_bytes",
    "why",
)


def residence_table(program: ScheduledProgram) -> Table:
    """One row a tensor that a kernel takes from another or from outside: whether it stays in the common memory, from
    launch to launch, and why, or why not.

    `in_dram` is whether it lies in DRAM, be it as well. `saved_*` are bytes that the plan spares, 0 for what is not
    resident; `would_save_*` are what being resident spares or would spare.
    """
    names = [launch.name for launch in program.launches.launches]

    def named(launch: int) -> str:
        return names[launch] if 0 <= launch < len(names) else ""

    rows = tuple(
        (
            *(each.value, each.path, each.bytes, each.resident, each.first, each.last),
            *(named(each.first), named(each.last), not (each.resident and each.alone)),
            *((each.saved_read, each.saved_written) if each.resident else (0, 0)),
            *(each.saved_read, each.saved_written, each.reason),
        )
        for each in program.residence
    )
    why = "there is no plan of the common memory; j.with_(resident='auto') makes one, on a machine with"
    return Table(COLUMNS, rows, f"{why} a common memory, such as tpu-v4")


def residence_text(program: ScheduledProgram) -> str:
    """The residents; empty without a plan."""
    if not program.residence:
        return ""
    kept = [each for each in program.residence if each.resident]
    head = (
        f"// common memory: {len(kept)} of {len(program.residence)} tensors stay, at most "
        f"{_most(program, kept):,} bytes at once; this saves {sum(each.saved for each in kept):,} bytes of DRAM"
    )
    lines = [
        f"//   {each.path or each.value}: {each.bytes:,} bytes, launches {each.first} to {each.last}, "
        f"{'not in DRAM at all' if each.alone else f'{each.saved:,} bytes spared'} ({each.reason})"
        for each in kept
    ]
    return "\n".join([head, *lines])


def _most(program: ScheduledProgram, kept: list[Residence]) -> int:
    held = np.zeros(len(program.launches.launches), np.int64)
    for each in kept:
        held[each.first : each.last + 1] += each.bytes
    return int(held.max(initial=0))
