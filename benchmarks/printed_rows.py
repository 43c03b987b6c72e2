"""Rows that a benchmark prints as it measures them, with a cache of its own: lines of JSON, or a table of Markdown."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]


def printed(rows: Iterable[Row], columns: Sequence[str], line: Callable[[Row], str], *, table: bool) -> list[Row]:
    """All rows. Each is measured when it is asked for, and printed by `line` where a `table` is wanted."""
    if table:
        print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ["ATEN_WORKBENCH_CACHE"] = folder
        for row in rows:
            found.append(row)
            print(line(row) if table else json.dumps(row), flush=True)
    return found
