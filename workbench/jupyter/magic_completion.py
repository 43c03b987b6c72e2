"""Tab completion behind the magics: journeys of the session, kernels of a journey, names of operators, options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from workbench.jupyter.magic_words import journeys_in

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"mlir": ("--pipeline", "--as"), "schedule": ("--as",), "kernel": ("--kind", "--like", "--as")}
)


def install(shell: Any) -> None:
    """Adds the completions to a session."""
    for magic in OPTIONS:
        offered = _completer(shell, magic)
        shell.set_hook("complete_command", offered, str_key=f"%%{magic}")
        shell.set_hook("complete_command", offered, str_key=f"%{magic}")


def _completer(shell: Any, magic: str) -> Callable[[Any, Any], list[str]]:
    def complete(_: Any, event: Any) -> list[str]:
        return offers(magic, str(event.line), str(event.symbol), shell.user_ns)

    return complete


def offers(magic: str, line: str, symbol: str, names: Mapping[str, Any]) -> list[str]:
    """The completions of `symbol` at the end of a line that begins with the magic."""
    before = line[: len(line) - len(symbol)].split()[1:] if symbol and line.endswith(symbol) else line.split()[1:]
    if symbol.startswith("-"):
        return [each for each in OPTIONS[magic] if each.startswith(symbol)]
    if magic == "schedule":
        known = _scheduled(before, names)
    elif magic == "kernel":
        known = _operators() if not before or before[-1].endswith("::") else []
    else:
        known = []
    return [each for each in known if each.startswith(symbol)]


def _scheduled(before: list[str], names: Mapping[str, Any]) -> list[str]:
    """The journeys for the first word; then the kernels of that journey, if they are known: completion computes
    nothing."""
    journeys = journeys_in(names)
    if not before:
        return list(journeys)
    if len(before) > 1 or before[0] not in journeys:
        return []
    return [kernel.name for kernel in journeys[before[0]].lowered.record.kernels if kernel.kind != "host"]


def _operators() -> list[str]:
    """The names of ATen's operators: `aten.frac`, and `frac` alone for completion behind `aten::`."""
    if "torch" not in sys.modules:
        return []
    from workbench.ground.torch_inside.operator_objects import all_op_names

    found = {name.partition(".")[0] for name in all_op_names() if name.startswith("aten::")}
    plain = sorted(name.removeprefix("aten::") for name in found)
    return [f"aten.{name}" for name in plain] + plain
