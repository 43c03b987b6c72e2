"""Writes the text of every template's kernel, which depends on machine and mapping: the second part of rendering.

All journeys of a trace share the kernels that do not depend on the machine; a template's text is written again if the
machine or the mapping differs. The text is then a record like any other: no later step needs the template.
"""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Mapping as Dict
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import cast

from simulator.did_you_mean import did_you_mean
from simulator.machine.machine import Machine
from workbench.ground.environment.call_sites import called_from, cell_name, is_users
from workbench.ground.environment.disk_store import Store
from workbench.ground.environment.owners import Owner
from workbench.ground.errors import MappingError, TemplateNotRegistered, TemplateOfAnotherMachine, TemplateOutputError
from workbench.ground.packages import lasting_name
from workbench.ir import Kernel, KernelGraph, KernelModule, Mapping, Written
from workbench.ir.kernel_identity import asked_text, machine_key
from workbench.ir.kernel_names import by_full_names
from workbench.ir.same_structure import lent, structure
from workbench.operators.aten.proven import described, kernel_proven
from workbench.operators.aten.registry import DEFAULT, Registrations, registered_template
from workbench.rendering.module_store import kept_or_made
from workbench.scheduling.kernels.handwritten import check_written
from workbench.scheduling.kernels.read_figures import noting, others
from workbench.scheduling.kernels.template import Template, instantiate
from workbench.scheduling.user_mapping import UserMapping, mapping_entry, with_users


def written(
    lowered: KernelGraph,
    rendered: tuple[KernelModule, ...],
    machine: Machine,
    mapping: Dict[str, UserMapping] | None = None,
    registrations: Registrations | None = None,
    store: Store | None = None,
) -> tuple[KernelModule, ...]:
    """The modules, with the texts of templates for this machine and mapping.

    A mapping applies to a kernel as in scheduling: by the kernel's name, else by the name of the first equal kernel. A
    text in `store` is not written again.
    """
    known = registrations if registrations is not None else DEFAULT.now()
    wanted = by_full_names(mapping or {}, [module.kernel for module in rendered])
    nodes = {item.node.name: item for item in lowered.nodes}
    leaders: dict[str, str] = {}
    made: dict[tuple[str, str], KernelModule] = {}
    out: list[KernelModule] = []
    for module in rendered:
        if module.handwritten:
            kernel = lowered.kernel(module.kernel)
            alike = structure(lowered, kernel, nodes)
            asked = mapping_entry(wanted, (module.kernel, leaders.setdefault(alike, module.kernel)))
            said = asked.mapping if asked else UserMapping()
            key = alike, asked_text(said)
            if key not in made:
                make = partial(_written, lowered, kernel, module, machine, said, known)
                fresh = store if module.written is None else None  # a present text may stay, which no key covers
                full = json.dumps([*key, machine_key(machine), machine.label])
                made[key] = kept_or_made(fresh, [nodes[name] for name in kernel.nodes], known, full, make)
            module = lent(made[key], kernel)
        out.append(module)
    return tuple(out)


def _written(
    lowered: KernelGraph,
    kernel: Kernel,
    module: KernelModule,
    machine: Machine,
    said: UserMapping,
    registrations: Registrations,
) -> KernelModule:
    """The module with its text; the present text stays if the template would write the same one."""
    before = module.written
    figures = others(before.read, machine) if before else {}
    if before and before.asked == asked_text(said) and not figures:
        return module
    anchor = lowered.made_by_template(kernel.nodes)
    node = lowered.node(kernel.nodes[anchor]).node
    if before and registrations.find(node.op, "template") is None:
        if before.asked != (now := asked_text(said)):
            raise TemplateNotRegistered(module.kernel, node.op, before.template, (before.asked, now))
        _note_kept(module, before, node.op, machine, figures)
        return module
    registered, count = registered_template(registrations, node), len(kernel.inputs)
    inputs, outputs = module.arguments[:count], module.arguments[count:]
    template = instantiate(registered, node, inputs, outputs, kernel.name, module.hooks)
    noted, read = noting(machine)
    chosen = _mapping(template, noted, said)
    rendering = template.rendered(chosen, noted)
    of = f"{type(template).__qualname__} of {lasting_name(type(template).__module__)}"
    told = Written(of, anchor, machine.label, read, asked_text(said), chosen, template.dims())
    record = replace(module, mlir=rendering.text, located=rendering.located, written=told)
    if kernel_proven(lowered, kernel, registrations):
        return record  # shipped templates are correct; scheduling checks every text anyway
    check_written(template, rendering, record, machine, described(lowered, kernel))
    return record


def _mapping(template: Template, machine: Machine, said: UserMapping) -> Mapping:
    """The template's default mapping, with the user's entries in place of its own."""
    chosen = _own_mapping(template, machine)
    if not said:
        return chosen
    if any(count != 1 for count in said.get("cores", {}).values()):
        told = "cores: a template divides its work over the cores itself, with scf.forall"
        raise MappingError(template.kernel, told)
    chosen = replace(chosen, buffers=said.get("buffers", chosen.buffers))
    return with_users(template.kernel, template.dims(), chosen, said)


def _note_kept(module: KernelModule, before: Written, op: str, machine: Machine, figures: Dict[str, str]) -> None:
    """Warns, at the user's line, that the text that is kept was written for another machine."""
    told = {name: f"{value} and was {before.read[name]}" for name, value in figures.items()}
    note = TemplateOfAnotherMachine(module.kernel, op, before.template, (before.machine, machine.label), told)
    file, line = called_from()
    warnings.warn_explicit(note, TemplateOfAnotherMachine, file or "<workbench>", line or 1)


def _own_mapping(template: Template, machine: Machine) -> Mapping:
    """The template's default mapping; an exception or invalid result of its methods raises an error that names it."""
    name, place = type(template).__name__, Owner.of(type(template)).place
    try:
        made = template.mapping(machine)
        mistake = _mistake_in(made, template.dims())
    except TemplateOutputError:
        raise
    except (Exception, SystemExit) as error:  # of the template's methods
        reason = f"its default mapping cannot be made: {type(error).__name__}: {error}{_users_line(error)}"
        raise TemplateOutputError(name, place, reason) from error
    if mistake:
        raise TemplateOutputError(name, place, mistake)
    # With plain numbers, which records need, instead of NumPy's.
    return replace(made, tile={dim: int(size) for dim, size in made.tile.items()}, buffers=int(made.buffers))


def _users_line(error: BaseException) -> str:
    """The place of the first frame in the user's code, in words; '' if there is none."""
    frames = (frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename))
    first = next(frames, None)
    return f", at {cell_name(first.filename)}:{first.lineno} in {first.name}" if first else ""


def _mistake_in(made: object, dims: Dict[str, int]) -> str:
    if not isinstance(made, Mapping):
        return f"mapping() returned {made!r:.60}; expected a Mapping"
    tile, buffers = cast("object", made.tile), cast("object", made.buffers)
    if not isinstance(tile, Dict):
        return f"tile() returned {tile!r:.60}; expected the tile of each dim, as in {dict(dims)}"
    for dim, size in cast("Dict[str, object]", tile).items():
        if dim not in dims:
            known = f"its dims are {', '.join(dims) or 'none'}"
            return f"tile() returned {tile!r:.80}: there is no dim {dim!r}{did_you_mean(str(dim), dims)}; {known}"
        if not _is_count(size, min(1, dims[dim])):
            return f"tile() returned {tile!r:.80}: the tile of {dim} is {size!r:.30}; expected a whole number from 1"
    return "" if _is_count(buffers, 1) else f"buffers() returned {buffers!r:.60}; expected a whole number from 1"


def _is_count(given: object, least: int) -> bool:
    return not isinstance(given, bool) and isinstance(given, Integral) and int(given) >= least
