"""Spans by words: of their kernel or the one whose program it runs, of the captured nodes they work for, of their kind
or of their unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from simulator import Trace
from simulator.did_you_mean import did_you_mean
from simulator.tileprogram.program import Opcode
from workbench.explaining.views.timelines.timeline import origins_of_spans
from workbench.ground.errors import BadOption
from workbench.ir import Launches

FIELDS: Final = ("kernel", "node", "kind", "unit")


@dataclass(frozen=True, slots=True)
class Word:
    """One word that a span must have: in one field, or in any where none is named."""

    field: str
    text: str


def words(text: str) -> tuple[Word, ...]:
    """`kind:load k3` as words; a field that is not there is an error."""
    return tuple(_word(each) for each in text.lower().split())


def _word(text: str) -> Word:
    field, colon, rest = text.partition(":")
    if not colon or field not in FIELDS:
        if colon and field.isalpha() and not rest.startswith(":"):  # `aten::relu` is a name
            known = ", ".join(f"{each}:" for each in FIELDS)
            raise BadOption(
                f"search {text!r}: there is no field {field!r}{did_you_mean(field, FIELDS)}; expected {known}"
            )
        return Word("", text)
    return Word(field, rest)


def found(trace: Trace, launches: Launches, text: str) -> npt.NDArray[np.int64]:
    """Rows of the spans that have all of the words, wherever each stands in a name; case does not matter."""
    origins = origins_of_spans(trace, launches)
    sets = {names: number for number, names in enumerate(dict.fromkeys(origins))}
    set_of = np.array([sets[names] for names in origins], np.int64)
    fields: dict[str, tuple[npt.NDArray[np.integer], list[str]]] = {
        "kernel": (trace.launch, [f"{each.name} {each.kernel}" for each in launches.launches]),
        "node": (set_of, [" ".join(names) for names in sets]),
        "kind": (trace.kind, [code.name for code in Opcode]),
        "unit": (trace.unit, list(trace.unit_names)),
    }
    mine = np.ones(len(trace), bool)
    for word in words(text):
        chosen = [fields[word.field]] if word.field else list(fields.values())
        mine &= _any((_holds(names, word.text)[column] for column, names in chosen), len(trace))
    return np.flatnonzero(mine)


def _holds(names: list[str], text: str) -> npt.NDArray[np.bool_]:
    return np.array([text in name.lower() for name in names], bool)


def _any(parts: Iterable[npt.NDArray[np.bool_]], length: int) -> npt.NDArray[np.bool_]:
    made = np.zeros(length, bool)
    for part in parts:
        made |= part
    return made
