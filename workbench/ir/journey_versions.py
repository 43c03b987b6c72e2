"""Journey files of versions before today's, made into today's records.

Version 1 had templates rendered for tpu-v3 whatever the machine, and did not say what a text was written for. What was
scheduled says it: that text takes the place of the other one. Versions 1 and 2 had no layouts: all tensors lay as
PyTorch has them. Versions 1 to 3 had neither graph passes nor patterns, versions 1 to 4 no steps of
training, versions 1 to 5 no work between graphs, and versions 1 to 6 had a record of all options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from simulator.machine.machine import Machine
from workbench.ir import codec
from workbench.ir.codec import RecordFormatError
from workbench.ir.kernel_identity import asked_text, renamed
from workbench.ir.kernel_names import by_full_names, key_for
from workbench.ir.kernels import KernelGraph, KernelModule, ScheduledProgram, Written

VERSION_1: Final = (1, "e6e75d6686e84828")
"""The first version, and the digest of its records."""

VERSION_2: Final = (2, "34463f74f1e6e540")
VERSION_3: Final = (3, "17b3b96012521983")
VERSION_4: Final = (4, "a67827483dc0cd16")
VERSION_5: Final = (5, "e53c155ef020c32d")
VERSION_6: Final = (6, "25f2a76c6b06e816")
EARLIER: Final = (VERSION_6, VERSION_5, VERSION_4, VERSION_3, VERSION_2, VERSION_1)


def options_of(asked: object) -> dict[str, object]:
    """The options of a file of versions 1 to 6: a record that has all of them, most as JSON in a text."""
    found = codec.decode(dict[str, str | None], asked, "asked")
    plain = ("capture", "on_missing", "prefer")
    options = {name: text if name in plain or text is None else codec.parsed(text) for name, text in found.items()}
    return {name: value for name, value in options.items() if value is not None}


def rows_of_version_1(rendered: object) -> list[Any]:
    """The rendered kernels of a file of version 1, with the field that they did not have."""
    if not isinstance(rendered, list):
        raise RecordFormatError(f"rendered: expected a list, found {type(rendered).__name__}")
    return [
        {**cast("dict[str, Any]", row), "written": None} if isinstance(row, dict) else row
        for row in cast("list[object]", rendered)
    ]


def with_scheduled_texts(
    lowered: KernelGraph,
    rendered: tuple[KernelModule, ...],
    scheduled: ScheduledProgram,
    machine: Machine,
    mapping: Mapping[str, Any],
) -> tuple[KernelModule, ...]:
    """The rendered kernels of version 1, those of templates with the texts that were scheduled on this machine."""
    return tuple(_with_texts(lowered, rendered, scheduled, machine, mapping))


def _with_texts(
    lowered: KernelGraph,
    rendered: tuple[KernelModule, ...],
    scheduled: ScheduledProgram,
    machine: Machine,
    mapping: Mapping[str, Any],
) -> Iterator[KernelModule]:
    runs = {launch.name: launch.kernel for launch in scheduled.launches.launches}
    wanted = by_full_names(mapping, [module.kernel for module in rendered])
    read = {name: repr(value) for name, value in sorted(machine.figures().items()) if name != "name"}
    for module in rendered:
        if not module.handwritten:
            yield module
            continue
        kernel = scheduled.kernel(runs[module.kernel])
        key = key_for(wanted, (module.kernel, kernel.kernel))
        written = Written(
            template="not named in its file",
            origin=lowered.made_by_template(module.origins),
            machine=machine.label,
            read=read,
            asked=asked_text(wanted[key]) if key is not None else "",
            mapping=replace(kernel.mapping, spread=""),
            dims=kernel.dims,
        )
        texts = [renamed(text, kernel.kernel, module.kernel) for text in (kernel.mlir, kernel.located)]
        yield replace(module, mlir=texts[0], located=texts[1], written=written)
