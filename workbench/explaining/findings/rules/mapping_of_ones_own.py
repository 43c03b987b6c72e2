"""The user's own mappings. A user gives tiles, orders or slots for a reason, or to try them; if the mapping that
scheduling would choose is faster, the difference is the cost of the given one. Both are scheduled and simulated."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.explaining.findings import Facts, Finding, Remedy, finding

_GIVEN = "user"
"""The reason of a given mapping."""
AS_CHOSEN = Remedy("j.with_(mapping=None)", options={"mapping": None})


@finding("mapping of one's own")
def mapping_of_ones_own(facts: Facts) -> Iterator[Finding]:
    given = [each for each in facts.computed if each.scheduled.mapping.reason == _GIVEN]
    after = facts.cycles_as_chosen() if given and facts.cycles_as_chosen else None
    if after is None or after >= facts.cycles:
        return
    slowest = max(given, key=lambda each: each.cycles)
    tile = ", ".join(f"{dim} {size}" for dim, size in slowest.scheduled.mapping.tile.items())
    others = f" and {len(given) - 1} more" if len(given) > 1 else ""
    yield Finding(
        slowest.name if len(given) == 1 else "",
        facts.cycles - after,
        f"the mapping of {slowest.name}{others} was given, with tiles of {tile}; with the mapping that "
        f"scheduling chooses the whole run takes {after:,} cycles",
        slowest.showing(*slowest.path),
        nodes=slowest.nodes,
        remedy=AS_CHOSEN,
        predicted=facts.cycles - after,
    )
