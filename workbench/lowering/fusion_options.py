"""A user's fusion options: `"none"`, rules by name, pairs of nodes to keep apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias, TypedDict, cast

from simulator.did_you_mean import did_you_mean, sentences
from workbench.ground.errors import FusionError
from workbench.lowering.fusion_rules import ACROSS_VIEWS, RULES, SWITCHES
from workbench.lowering.grouping import Choice


class FusionOptions(TypedDict, total=False):
    """`off`: rules, patterns and graph passes that are turned off, by name or a part of it. `apart`: pairs of nodes
    that must not share a kernel."""

    off: Sequence[str]
    apart: Sequence[tuple[str, str]]


UserFusion: TypeAlias = str | FusionOptions | Sequence[tuple[str, str]] | None

_FORMS = "expected 'none', {'off': [rules], 'apart': [(node, node)]}, or a list of pairs of nodes to keep apart"


def choice_of(fusion: object, off: frozenset[str], children: Mapping[str, Sequence[str]]) -> Choice:
    """The choice that a user's `fusion` means; `off` are its `rules_off`, and `children` has the nodes for each name
    that a user may use."""
    check_form(fusion)
    return Choice(off, _pairs(given_apart(fusion), children))


def check_form(fusion: object) -> None:
    """Raises if the option has a wrong form; names of rules and nodes are not checked."""
    if fusion is None or (isinstance(fusion, str) and fusion == "none"):
        return
    if isinstance(fusion, str | bytes) or not isinstance(fusion, Mapping | Iterable):
        hint = did_you_mean(fusion, ["none"]) if isinstance(fusion, str) else ""
        raise FusionError(f"fusion={fusion!r:.60}{hint or ':'} {_FORMS}")
    options = cast("Mapping[str, object]", fusion) if isinstance(fusion, Mapping) else dict[str, object]()
    unknown = sorted(set(options) - {"off", "apart"}, key=str)
    if unknown:
        raise FusionError(f"fusion has the key {unknown[0]!r}: {_FORMS}")
    for key, given in options.items():
        if not isinstance(given, Iterable) or (key == "apart" and isinstance(given, str)):
            raise FusionError(f"fusion has {key!r}: {given!r:.60}: {_FORMS}")
    for item in given_apart(cast(object, fusion)):
        pair = cast("Sequence[object]", item) if isinstance(item, tuple | list) else ()
        if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise FusionError(f"{item!r:.60} is no pair of nodes: {_FORMS}")


def _off(fusion: object) -> Iterable[object]:
    """The names that a user turns off, as given; `choice_of` reports a wrong form."""
    off = cast("Mapping[str, object]", fusion).get("off", ()) if isinstance(fusion, Mapping) else ()
    return [off] if isinstance(off, str) else cast("Iterable[object]", off) if isinstance(off, Iterable) else ()


def given_apart(fusion: object) -> Iterable[object]:
    """The pairs that a user keeps apart, as given; their form may be wrong."""
    given = cast("Mapping[str, object]", fusion).get("apart", ()) if isinstance(fusion, Mapping) else fusion
    return () if isinstance(given, str) or not isinstance(given, Iterable) else cast("Iterable[object]", given)


def rules_off(fusion: object, rewrites: Collection[str] = ()) -> frozenset[str]:
    """The rules that a user turned off."""
    if fusion == "none":
        return frozenset(rule.name for rule in RULES)
    return frozenset(name for each in _off(fusion) for name in _rules(each, rewrites))


def rewrites_off(fusion: object, patterns: Collection[str], passes: Collection[str]) -> frozenset[str]:
    """The patterns and graph passes that a user turned off; `"none"` turns off all patterns."""
    if fusion == "none":
        return frozenset(patterns)
    known = [*patterns, *passes]
    return frozenset(name for each in _off(fusion) for name in _named(each, known)).intersection(known)


def pairs_apart(fusion: object) -> frozenset[frozenset[str]]:
    """The names in the pairs that a user keeps apart."""
    given = (cast("Iterable[object]", pair) for pair in given_apart(fusion) if isinstance(pair, tuple | list))
    pairs = (frozenset(map(str, pair)) for pair in given)
    return frozenset(pair for pair in pairs if len(pair) == 2)


def _named(given: object, rewrites: Collection[str]) -> list[str]:
    """The rules, patterns and passes with this name, or else all with these words in their names."""
    names = [*(rule.name for rule in RULES), *rewrites]
    return [name for name in names if name == given] or [name for name in names if f" {given} " in f" {name} "]


def _rules(given: object, rewrites: Collection[str]) -> list[str]:
    """The rules, patterns and passes that a user's word names; raises unless at least one can be turned off."""
    found, switches = _named(given, rewrites), (*SWITCHES, *rewrites)
    if not set(found).isdisjoint(switches):
        return found
    if found or given == ACROSS_VIEWS:
        told = f"{given!r} is a limit, not a switch: what it keeps apart is no kernel with or without it"
    else:
        told = f"there is no fusion rule {given!r}{did_you_mean(str(given), switches)}"
    raise FusionError(sentences(told, f"What can be turned off is {', '.join(map(repr, switches))}"))


def _pairs(given: Iterable[object], children: Mapping[str, Sequence[str]]) -> frozenset[frozenset[str]]:
    pairs: set[frozenset[str]] = set()
    for item in given:
        pair = cast("Sequence[str]", item)
        first, second = (_nodes(name, children) for name in pair)
        if set(first) & set(second):
            raise FusionError(f"{pair[0]!r} and {pair[1]!r} share a node, and a node cannot be kept apart from itself")
        pairs |= {frozenset((a, b)) for a in first for b in second}
    return frozenset(pairs)


def _nodes(name: str, children: Mapping[str, Sequence[str]]) -> Sequence[str]:
    if name not in children:
        told = f"there is no node {name!r} to keep apart{did_you_mean(name, children)}"
        raise FusionError(sentences(told, "Nodes are in j.lowered.table"))
    return children[name]
