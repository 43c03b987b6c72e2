"""The rules by name: those that are shipped, and those of a person's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from simulator.argument_types import checks_what_it_is_given
from workbench.environment.registered import Named

if TYPE_CHECKING:
    from workbench.findings.finding_record import Finding
    from workbench.findings.run_facts import Facts

Rule: TypeAlias = "Callable[[Facts], Iterable[Finding]]"
R = TypeVar("R", bound="Callable[..., Iterable[Finding]]")

_RULES: Final = Named["Rule"]("rule")


@checks_what_it_is_given
def finding(name: str = "") -> Callable[[R], R]:
    """Registers a function of the facts of a run as the rule `name`, by default the function's; defined again, it
    replaces itself, and one of the shipped rules goes for it.

    `@wb.finding("long stores")` before `def long_stores(facts): ...`, which yields `wb.Finding`s.
    """

    def register(rule: R) -> R:
        _RULES.add(name or rule.__name__.replace("_", " "), rule)
        return rule

    return register


def registered() -> dict[str, Rule]:
    """Those that were registered by now, in that order."""
    return _RULES.now()
