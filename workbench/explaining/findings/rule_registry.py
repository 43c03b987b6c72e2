"""The rules by name: the shipped ones, and the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.environment.registered import Named

if TYPE_CHECKING:
    from workbench.explaining.findings.finding_record import Finding
    from workbench.explaining.findings.run_facts import Facts

Rule: TypeAlias = "Callable[[Facts], Iterable[Finding]]"
R = TypeVar("R", bound="Callable[..., Iterable[Finding]]")

_RULES: Final = Named["Rule"]("rule")


@checks_what_it_is_given
def finding(name: str = "") -> Callable[[R], R]:
    """Registers a function of the facts of a run as the rule `name`, by default the function's name. Defining it again
    replaces it; it may also replace a shipped rule.

    `@wb.finding("long stores")` before `def long_stores(facts): ...`, which yields `wb.Finding`s.
    """

    def register(rule: R) -> R:
        _RULES.add(name or rule.__name__.replace("_", " "), rule)
        return rule

    return register


def registered() -> dict[str, Rule]:
    """The registered rules, in the order of registration."""
    return _RULES.now()
