"""Machines as files: the shipped machines in `shipped`, and users' files, which may name a shipped machine as base.

A file has a table for each part (part_file.py) and `version = 1`. Any other version is refused.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from simulator.did_you_mean import did_you_mean, sentences
from simulator.errors import MachineError
from simulator.machine.figure_places import PLACES, Figure
from simulator.machine.file_figures import FileFigures, Table
from simulator.machine.machine import Machine, Override, machine_from
from simulator.machine.part_file import VERSION, read_parts
from simulator.machine.toml_text import parse_toml, read_text

_FOLDER = Path(__file__).parent / "shipped"
_SHARED = "_all"


def machine_names() -> tuple[str, ...]:
    """The names of the shipped machines."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml") if path.stem != _SHARED))


def load_machine(name: str | os.PathLike[str], /, **overrides: Override) -> Machine:
    """Loads a shipped machine by its name, or a machine file by its path, and replaces some of its figures.

    `load_machine("tpu-v3", vector_lanes=64)`, `load_machine("mine.toml")`: a name that ends in `.toml` is a file.
    """
    path = Path(name)
    if path.suffix == ".toml" or not isinstance(name, str):
        machine = _from_file(path)
    elif name in machine_names():
        machine = _shipped(name)
    else:
        raise MachineError(
            sentences(
                f"there is no machine {name!r}{did_you_mean(name, machine_names())}",
                f"Shipped are {', '.join(machine_names())}; a machine of your own is a file: 'mine.toml'",
            )
        )
    return machine.with_(**overrides) if overrides else machine


@cache
def _shipped(name: str) -> Machine:
    return parse_machine(name, (_FOLDER / f"{name}.toml").read_text("utf-8"))


def _from_file(path: Path) -> Machine:
    text = read_text("machine file", path)
    if path.stem in machine_names():
        raise MachineError(
            f"{str(path)!r} would be called like the shipped machine {path.stem!r}: give the file another name"
        )
    return parse_machine(path.stem, text, path)


def parse_machine(name: str, text: str, path: Path | None = None) -> Machine:
    """The machine that a TOML text describes; `path` is the file of the text, for messages.

    Figures that the text does not set come from the shipped machine that it names as `base`, else from the shared file.
    """
    where = f"machine file {str(path)!r}" if path else f"machine {name!r}"
    own = _read(where, name, text)
    below = _below(where, own.base)
    figures: dict[str, Figure] = {**below.figures, **own.figures, "name": name}
    _check_whole(where, own, figures)
    provenance = below.provenance.without(own.figures).joined(own.provenance)
    try:
        return machine_from(figures, provenance, anew=True)
    except MachineError as error:
        raise MachineError(_as_written(str(error).replace(f"machine {name!r}", where, 1), own)) from None


def _read(where: str, name: str, text: str) -> FileFigures:
    table = parse_toml(where, text)
    _check_version(where, table)
    return read_parts(where, name, table)


def _check_version(where: str, table: Table) -> None:
    """Raises unless the file has the version that this code reads."""
    if "version" not in table:
        raise MachineError(
            f"{where}: it says no version; write `version = {VERSION}` at the top, and a table for each part: [vector]"
        )
    version = table["version"]
    if type(version) is not int or version != VERSION:
        raise MachineError(
            f"{where}: version = {version!r}: expected {VERSION}, with a table for each part. Write the file again "
            "as docs/adding-a-machine.md shows"
        )


def _below(where: str, base: str | None) -> FileFigures:
    """The figures of the base, or of the shared file without a base: the file may omit these."""
    if base is None:
        return _read(f"machine {_SHARED!r}", _SHARED, (_FOLDER / f"{_SHARED}.toml").read_text("utf-8"))
    if base not in machine_names():
        raise MachineError(
            f"{where}: base = {base!r} is no shipped machine{did_you_mean(base, machine_names())}; "
            f"expected one of {', '.join(machine_names())}"
        )
    of = load_machine(base)
    return FileFigures(of.figures(), of.provenance)


def _check_whole(where: str, own: FileFigures, figures: dict[str, Figure]) -> None:
    """Raises for figures that neither the file nor its base sets."""
    missing = [own.written.get(name, name) for name in PLACES if name not in figures]
    if missing:
        raise MachineError(f"{where} lacks {', '.join(missing)}; set them, or name a shipped machine as its `base`")


def _as_written(message: str, own: FileFigures) -> str:
    """Adds to a message the file's own names of the figures that the message names by flat names."""
    named = [name for name in dict.fromkeys(re.findall(r"\w+", message)) if name in own.figures]
    calls = [f"{name} is {own.written[name]}" for name in named if own.written[name] != name]
    return sentences(message, f"In the file {', '.join(calls)}") if calls else message
