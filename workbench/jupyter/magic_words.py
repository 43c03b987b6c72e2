"""The words and options behind a magic's name, and the objects of the session that they name."""

from __future__ import annotations

import keyword
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from simulator.did_you_mean import did_you_mean, sentences

if TYPE_CHECKING:
    from workbench.journey import Journey


@dataclass(frozen=True)
class Words:
    """The required words of a magic, its optional words, and its options."""

    words: tuple[str, ...]
    rest: tuple[str, ...]
    options: Mapping[str, str]

    def __getitem__(self, place: int) -> str:
        return self.words[place]

    def option(self, name: str) -> str:
        return self.options.get(name, "")


def words_of(magic: str, line: str, wanted: tuple[str, ...], *options: str, more: bool = False) -> Words:
    """The line behind `%%magic`, split up; `wanted` are the names of its words, `more` lets others follow. The value of
    `--as` must be a name: this is checked before any work."""
    form = " ".join([f"%%{magic}", *wanted, *(f"[--{name} ...]" for name in options)])
    try:
        parts = shlex.split(line) if not more else _expressions(line)
    except ValueError as error:
        raise UsageError(f"%%{magic} {line}: {error}; expected {form}") from None
    found, words = dict[str, str](), list[str]()
    while parts:
        part = parts.pop(0)
        if not part.startswith("--"):
            words.append(part)
            continue
        name, equals, value = part[2:].partition("=")
        if name not in options:
            known = ", ".join(f"--{each}" for each in options)
            what = f"%%{magic} has no option --{name}{did_you_mean(f'--{name}', [f'--{each}' for each in options])}"
            raise UsageError(sentences(what, f"Its options are {known}; %%{magic}? explains them"))
        if not equals and not parts:
            raise UsageError(f"%%{magic}: --{name} needs a value; expected {form}")
        found[name] = value if equals else parts.pop(0)
    if len(words) < len(wanted) or (len(words) > len(wanted) and not more):
        raise UsageError(f"%%{magic} was given {' '.join(words) or 'no words'}; expected {form}")
    name = found.get("as")
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise UsageError(f"--as {name}: expected the name of a variable")
    return Words(tuple(words[: len(wanted)]), tuple(words[len(wanted) :]), found)


def _expressions(line: str) -> list[str]:
    """Words split at blanks outside brackets and quotes: an expression of Python is one word."""
    words, depth, quote = [""], 0, ""
    for letter in line.strip():
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
            if letter.isspace() and depth <= 0:
                words.append("")
                continue
        words[-1] += letter
    if quote or depth:
        raise ValueError("a quote or bracket is not closed" if quote or depth > 0 else "a bracket is closed too often")
    return [word for word in words if word]


def journeys_in(names: Mapping[str, Any]) -> dict[str, Journey]:
    """The journeys of a session, by variable. If the journey module is not loaded, there are none: nothing was
    traced."""
    module = sys.modules.get("workbench.journey")
    kind = module.Journey if module else ()
    return {name: value for name, value in names.items() if isinstance(value, kind) and not name.startswith("_")}


def journey_named(names: Mapping[str, Any], name: str) -> Journey:
    """The journey that a variable of the session holds."""
    known = journeys_in(names)
    if name in known:
        return known[name]
    told = f"{name} is a {type(names[name]).__name__}" if name in names else f"there is no variable {name}"
    what = f"{told}; expected a journey, as wb.trace makes them{did_you_mean(name, known)}"
    raise UsageError(
        sentences(what, f"The session's journeys are {', '.join(known)}" if known else "There is none yet")
    )
