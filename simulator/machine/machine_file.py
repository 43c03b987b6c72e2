"""Machines as files: the shipped ones in `machines/`, and a user's own, which name one of those as their base."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simulator.did_you_mean import did_you_mean, not_there, sentences
from simulator.errors import MachineError
from simulator.files.regular_files import check_readable
from simulator.machine import core_kinds
from simulator.machine.figures import Figure
from simulator.machine.machine import Machine, Override, check_cores, figure_names, machine_from

_FOLDER = Path(__file__).parent / "shipped"
_SHARED = "_all"


def machine_names() -> tuple[str, ...]:
    """The shipped machines."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml") if path.stem != _SHARED))


def load_machine(name: str | os.PathLike[str], /, **overrides: Override) -> Machine:
    """A shipped machine by name, or one of a file by its path, with some of its figures replaced.

    `load_machine("tpu-v3", vector_lanes=64)`, `load_machine("mine.toml")`: what ends in `.toml` is a file.
    """
    path = Path(name)
    if path.suffix == ".toml" or not isinstance(name, str):
        machine = _from_file(path)
    elif name in machine_names():
        machine = parse_machine(name, (_FOLDER / f"{name}.toml").read_text("utf-8"))
    else:
        raise MachineError(
            f"there is no machine {name!r}{did_you_mean(name, machine_names())}; shipped: "
            f"{', '.join(machine_names())}; a machine of your own is a file: 'mine.toml'"
        )
    return machine.with_(**overrides) if overrides else machine


def _from_file(path: Path) -> Machine:
    try:
        check_readable(path)
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise MachineError(f"the machine file cannot be read: {not_there(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"the machine file {str(path)!r} cannot be read: {error}") from None
    if path.stem in machine_names():
        raise MachineError(
            f"{str(path)!r} would be called like the shipped machine {path.stem!r}: give the file another name"
        )
    return parse_machine(path.stem, text)


def parse_machine(name: str, text: str) -> Machine:
    """The machine that a TOML text describes.

    Figures it does not give are those of the shipped machine it names as its `base`, else those of the shared file.
    """
    own = _parse(name, text)
    if own.base is None:
        below = _parse(_SHARED, (_FOLDER / f"{_SHARED}.toml").read_text("utf-8"))
    elif own.base in machine_names():
        of = load_machine(own.base)
        below = _File(of.figures(), of.assumed, dict(of.sources))
    else:
        raise MachineError(
            f"machine {name!r}: base = {own.base!r} is no shipped machine{did_you_mean(own.base, machine_names())}; "
            f"expected one of {', '.join(machine_names())}"
        )
    figures: dict[str, Figure] = {**below.figures, **own.figures, "name": name}
    assumed = [key for key in below.assumed if key not in own.figures] + list(own.assumed)
    sources = {key: text for key, text in below.sources.items() if key not in own.figures} | own.sources
    for key in figures:
        if key in sources and key in assumed:
            raise MachineError(
                f"machine {name!r}: {key} has a source and stands in `assumed` as well; expected one of both"
            )
        if key not in sources and key not in assumed and key != "name":
            raise MachineError(f"machine {name!r}: {key} needs a source, or a place in `assumed`")
    return machine_from(figures, tuple(sorted(assumed)), tuple(sorted(sources.items())), anew=True)


@dataclass(frozen=True, slots=True)
class _File:
    figures: dict[str, Figure]
    assumed: tuple[str, ...]
    sources: dict[str, str]
    base: str | None = None


def _parse(name: str, text: str) -> _File:
    try:
        table: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"machine {name!r}: not TOML: {error}") from None
    assumed, sources, base = table.pop("assumed", []), table.pop("sources", {}), table.pop("base", None)
    if base is not None and not isinstance(base, str):
        raise MachineError(f"machine {name!r}: base = {base!r} is no name of a machine")
    if not isinstance(assumed, list) or not isinstance(sources, dict):
        raise MachineError(f"machine {name!r}: `assumed` is a list of names and `sources` a table")
    figures: dict[str, Figure] = {}
    known = figure_names()
    for key, value in table.items():
        if key not in known:
            raise MachineError(f"machine {name!r}: unknown figure {key!r}{did_you_mean(key, known)}")
        if key == "cores" and isinstance(value, list):
            check_cores(name, value)  # pyright: ignore[reportUnknownArgumentType]
            figures["core_figures"] = core_kinds.text_of(name, value)  # pyright: ignore[reportUnknownArgumentType]
            value = len(value)  # pyright: ignore[reportUnknownArgumentType]
        if not isinstance(value, int | float | str):
            raise MachineError(f"machine {name!r}: {key} = {value!r} is neither a number nor a text")
        figures[key] = value
    names = tuple(str(item) for item in assumed)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    texts = {str(key): str(value) for key, value in sources.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if "core_figures" in figures and "cores" in texts:  # one list gave both
        texts["core_figures"] = texts["cores"]
    elif "core_figures" in figures and "cores" in names:
        names = (*names, "core_figures")
    _check_named(name, figures, {"[sources]": tuple(texts), "`assumed`": names})
    return _File(figures, names, texts, base)


def _check_named(machine: str, figures: Mapping[str, Figure], tables: Mapping[str, tuple[str, ...]]) -> None:
    """Raises where a file says of a figure that it does not set where it comes from."""
    for table, names in tables.items():
        for name in names:
            if name not in figures:
                what = f"machine {machine!r}: {table} names {name!r}, which the file does not set"
                kept = "a figure from elsewhere keeps the source it has there"
                raise MachineError(sentences(f"{what}{did_you_mean(name, figures)}", kept.capitalize()))
