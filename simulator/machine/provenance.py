"""The origin of each figure of a machine: a source, a fit to a measurement, or an assumption.

source      published, or learnt from somebody: a text says where
fitted      chosen to meet a measurement of the machine: a text says by what, and which measurement
assumed     chosen, because nobody published it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

OVERRIDE = "override"
"""The source of a figure that was replaced."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of each figure of a machine except its name; each figure stands in one of the three fields."""

    assumed: tuple[str, ...] = ()
    """The figures that were chosen because nobody published them."""
    fitted: tuple[tuple[str, str], ...] = ()
    """(figure, by what and to which measurement it was fitted)."""
    sources: tuple[tuple[str, str], ...] = ()
    """(figure, where it comes from)."""

    @staticmethod
    def of(assumed: Iterable[str], fitted: Mapping[str, str], sources: Mapping[str, str]) -> Provenance:
        """Makes a provenance with figures sorted by name, so that equal machines compare equal."""
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
        """This provenance after these figures were replaced: their source is `OVERRIDE`."""
        changed = {name: OVERRIDE for name in names}
        return self.without(changed).joined(Provenance.of((), {}, changed))


KINDS = tuple(field.name for field in fields(Provenance))
"""The ways to say where a figure comes from: `assumed`, `fitted`, `sources`."""
