"""ATen ops: the registry of their routes.

    @wb.ops.builder("aten.hypot.default", dialect="math", kind="elementwise")
    def hypot(op): ...

`template`, `builder`, `conversion` and `executor` register; `table()` and `who(overload)` show the registrations;
`with scope():` undoes at its end all registrations inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.operators.aten.registry import DEFAULT

if TYPE_CHECKING:
    import pandas as pd

    from workbench.operators.ops.listing import Who

__all__ = ["builder", "conversion", "drop", "executor", "scope", "table", "template", "who"]

builder, template, conversion, executor = DEFAULT.builder, DEFAULT.template, DEFAULT.conversion, DEFAULT.executor
drop, scope = DEFAULT.drop, DEFAULT.scope


def table() -> pd.DataFrame:
    """Returns one row for every registration, shipped ones and yours."""
    import pandas as pd

    from workbench.operators.ops import listing

    return pd.DataFrame(list(listing.rows(DEFAULT.now())), columns=list(listing.COLUMNS))


def who(overload: object, *, prefer: str | None = None) -> tuple[Who, ...] | Who:
    """Returns the route of an overload, or of each overload when the name leaves the overload out."""
    from workbench.operators.ops import listing

    found = listing.handlers(overload, prefer=prefer)
    return found[0] if len(found) == 1 else found


def __dir__() -> list[str]:
    return __all__
