"""The origin of each figure of a machine: a source, a fit to a measurement, or an assumption.

source      published, or told by somebody: where
fitted      chosen so that a measurement of the machine is met: by what, to which measurement
assumed     chosen, because nobody published it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

OVERRIDE = "override"
"""The source of a figure that was replaced."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Each figure of a machine, but its name, stands in one of the three."""

    assumed: tuple[str, ...] = ()
    """Figures that are not published: chosen, not known."""
    fitted: tuple[tuple[str, str], ...] = ()
    """(figure, by what and to which measurement)."""
    sources: tuple[tuple[str, str], ...] = ()
    """(figure, where it comes from)."""

    @staticmethod
    def of(assumed: Iterable[str], fitted: Mapping[str, str], sources: Mapping[str, str]) -> Provenance:
        """In the order of names, so that equal machines are equal."""
        return Provenance(tuple(sorted(assumed)), tuple(sorted(fitted.items())), tuple(sorted(sources.items())))

    def told(self, name: str) -> str:
        """One figure's provenance in words: its source, `fitted: ` by what, or `assumed`."""
        fitted = dict(self.fitted)
        return f"fitted: {fitted[name]}" if name in fitted else dict(self.sources).get(name, "assumed")

    def without(self, names: Iterable[str]) -> Provenance:
        """The provenance of all other figures."""
        gone = frozenset(names)
        return Provenance(
            tuple(name for name in self.assumed if name not in gone),
            tuple(pair for pair in self.fitted if pair[0] not in gone),
            tuple(pair for pair in self.sources if pair[0] not in gone),
        )

    def joined(self, other: Provenance) -> Provenance:
        """This provenance and that of other figures, together."""
        fitted, sources = dict(self.fitted) | dict(other.fitted), dict(self.sources) | dict(other.sources)
        return Provenance.of((*self.assumed, *other.assumed), fitted, sources)

    def replaced(self, names: Iterable[str]) -> Provenance:
        """The same where these figures were replaced."""
        changed = {name: OVERRIDE for name in names}
        return self.without(changed).joined(Provenance.of((), {}, changed))
