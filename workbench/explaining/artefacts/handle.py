"""The common base of all five artefacts."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from markupsafe import Markup

from workbench.ground.argument_types import checks_what_it_is_given
from workbench.ground.basics import data_frames, markup, user_views
from workbench.ground.basics.shown import Shown
from workbench.ground.basics.table import Table
from workbench.ground.environment.verb_options import knows_its_options
from workbench.ground.errors import BadOption, not_yet

if TYPE_CHECKING:
    import pandas as pd

    from workbench.explaining.artefacts.plot_types import Axes

R = TypeVar("R")


@dataclass(frozen=True, repr=False)
class Handle(Shown, Generic[R]):
    """The common properties of the five artefacts."""

    record: R

    def _table(self) -> Table:
        raise NotImplementedError

    @knows_its_options
    def text(self) -> str:
        """The artefact as text for a terminal."""
        raise NotImplementedError

    @property
    def table(self) -> pd.DataFrame:
        """The artefact as a DataFrame, a fresh one at each call."""
        return data_frames.frame(self._table())

    def body_html(self) -> Markup:
        """The artefact as HTML for a page that has the style sheet: `views.markup.page`."""
        raise NotImplementedError

    @knows_its_options
    def html(self) -> Markup:
        """The artefact as self-contained HTML: no script, no network."""
        return markup.fragment(self.body_html())

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views that were registered for this stage with `wb.view`."""
        return user_views.names(self._stage())

    @checks_what_it_is_given
    def view(self, name: str, **options: object) -> object:
        """The result of a registered view of this artefact; a `wb.Table` becomes a DataFrame."""
        function = user_views.named(self._stage(), name)
        signature = inspect.signature(function)
        try:
            signature.bind(self, **options)
        except TypeError as error:
            raise BadOption(f"the view {name!r} is {function.__name__}{signature}: {error}") from None
        result = function(self, **options)
        return data_frames.frame(result) if isinstance(result, Table) else result

    def _stage(self) -> str:
        return type(self).__name__.lower()

    @knows_its_options
    def plot(self, ax: Axes | None = None) -> Axes:
        """A picture of the artefact; only the timeline has one yet."""
        raise not_yet(f"a picture of {type(self).__name__}", "j.simulated.plot() draws the timeline.")


def not_simulated() -> None:
    """Returns None: a handle without a journey has no run."""
    return None


def count_of(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `3 boxes`."""
    plural = f"{noun}es" if noun.endswith(("ch", "x")) else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
