"""The files of a new operator: a kernel with the lines to fill in, its registration, a test and a notebook."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from simulator.did_you_mean import nearest
from simulator.files.versioned_files import replace_file
from workbench.ground import errors
from workbench.ground.torch_inside.operator_objects import all_op_names
from workbench.operators.aten.registry import DEFAULT
from workbench.operators.new_op.operator_facts import OpFacts, facts_of, facts_of_new
from workbench.operators.new_op.skeleton import WAYS, files
from workbench.operators.ops.listing import Who, handler

DEFAULT_SIGNATURE: Final = "(Tensor x) -> Tensor"
"""The schema of a new op without `--schema`."""


@dataclass(frozen=True, slots=True)
class NewOp:
    """The result of `new_op`: the written files."""

    facts: OpFacts
    way: str
    paths: tuple[Path, ...]
    handlers: tuple[Who, ...]
    """The op's routes until the new kernel is registered."""


def new_op(name: str, *, way: str = "template", folder: Path, schema: str | None = None, force: bool = False) -> NewOp:
    """Writes the skeleton of an op's template or builder into a folder; existing files are never overwritten.

    If the op's other kernel exists in the folder, the new one is named `<op>_builder` or `<op>_template`.

    The skeleton defines an unknown op by `schema`; without `schema` its namespace must be new. An op that already has a
    registered template or builder is refused unless `force`.
    """
    if way not in WAYS:
        raise errors.BadOption(f"a {way!r} cannot be written; expected one of {', '.join(WAYS)}")
    facts = _facts(name, schema)
    handlers = tuple(handler(each, DEFAULT.now()) for each in facts.overloads) if facts.defined else ()
    taken = [each for each in handlers if each.owner is not None]
    if taken and not force:
        raise errors.OpHasRoute(
            f"{facts.qualified} has a kernel already: {'; '.join(map(str, taken))}. With --force the files are "
            "written anyway: a template takes precedence over a builder, and a new one of the same kind "
            "replaces the old one"
        )
    facts = replace(_beside(facts, way, folder), clashing=_clashing(facts, way))
    texts = files(facts, way)
    there = [str(folder / file) for file in texts if (folder / file).exists()]
    if there:
        raise errors.FileInTheWay(
            f"{', '.join(there)} {'exists' if len(there) == 1 else 'exist'} already, and nothing is overwritten: "
            "choose another folder with --out, or move the existing files away"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.BadOption(f"the folder {folder} cannot be made: {error.strerror}") from None
    for file, text in texts.items():
        replace_file(folder / file, text.encode("utf-8"))
    return NewOp(facts, way, tuple(folder / file for file in texts), handlers)


def _beside(facts: OpFacts, way: str, folder: Path) -> OpFacts:
    """The facts, with file names that do not collide with the op's other kernel in the folder."""
    template, kernel = folder / f"{facts.stem}.mlir.j2", folder / f"{facts.stem}.py"
    if not kernel.exists() or template.exists() == (way == "template"):
        return facts
    return replace(facts, beside=facts.stem, suffix=f"_{way}")


def _facts(name: str, schema: str | None) -> OpFacts:
    """The op's facts, from PyTorch if it knows the op, else from the schema of the new op."""
    namespace, op = _split(name)
    if op and schema is None and namespace in _namespaces():
        return _functional(facts_of(name))
    if not op or "." in op:
        raise errors.UnknownOverload(
            f"{name!r} is not the name of an operator; expected namespace::op, such as aten::hardswish or demo::thing"
        )
    if namespace in _namespaces() and hasattr(getattr(torch.ops, namespace), op):
        raise errors.BadOption(f"{name} exists, so its schema is known: leave --schema out")
    close = nearest(namespace, _namespaces())
    if schema is None and close and hasattr(getattr(torch.ops, close[0]), op):
        raise errors.UnknownOverload(
            f"{name!r}: there is no namespace {namespace!r}; did you mean {close[0]}::{op}? Define an op of your "
            f"own with --schema '{DEFAULT_SIGNATURE}'"
        )
    return facts_of_new(f"{namespace}::{op}", schema or DEFAULT_SIGNATURE)


def _split(name: str) -> tuple[str, str]:
    text = name.removeprefix("torch.ops.")
    namespace, _, op = text.partition("::") if "::" in text else text.partition(".")
    return namespace, op


def _namespaces() -> list[str]:
    """Namespaces that have ops."""
    known = all_op_names()
    return sorted({each.split("::")[0] for each in known})


def _functional(facts: OpFacts) -> OpFacts:
    if "Tensor(a!)" in facts.schema:
        raise errors.BadOption(
            f"{facts.schema} changes its argument in place, but captured graphs have only functional ops: give "
            "the op that returns a new tensor"
        )
    return facts


def _clashing(facts: OpFacts, way: str) -> dict[str, str]:
    """Registrations that the new one replaces, and their owners."""
    found = (DEFAULT.now().by_key.get((each, way, "math" if way == "builder" else "")) for each in facts.overloads)
    return {each.overload: f"{each.owner.name} of {each.owner.module}" for each in found if each is not None}
