"""Tables as pandas DataFrames. pandas is imported with the first DataFrame: nothing else in the views needs it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.ground.basics.table import Cell, Table
from workbench.ground.errors import EmptyTable

if TYPE_CHECKING:
    import pandas as pd


def frame(table: Table, whole: Collection[str] = ()) -> pd.DataFrame:
    """The table as a new DataFrame: changing it changes nothing else.

    An empty table with a reason warns at the caller's line, and has the reason in `.attrs["why_empty"]`. Columns named
    in `whole` hold whole numbers, some of which may be missing.
    """
    import pandas as pd

    columns = {
        name: pd.Series([row[place] for row in table.rows], dtype="Int64" if name in whole else _dtype(table, place))
        for place, name in enumerate(table.columns)
    }
    made = pd.DataFrame(columns, columns=list(table.columns))
    if table.why_empty and not table.rows:
        made.attrs["why_empty"] = table.why_empty
        warnings.warn(f"the table is empty: {table.why_empty}", EmptyTable, stacklevel=3)
    return made


def _dtype(table: Table, place: int) -> str:
    """`object` keeps tuples, texts and missing lines as they are; plain number columns become numbers."""
    kinds: set[object] = {type(row[place]) for row in table.rows}
    for kind, dtype in (({int}, "int64"), ({float}, "float64"), ({int, float}, "float64"), ({bool}, "bool")):
        if kinds == kind:
            return dtype
    return "object"


def frame_of_columns(columns: Mapping[str, Sequence[Cell]]) -> pd.DataFrame:
    """Long columns as a DataFrame, without going through rows."""
    import pandas as pd

    return pd.DataFrame(dict(columns), columns=list(columns))
