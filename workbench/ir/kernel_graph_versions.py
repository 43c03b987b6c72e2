"""The data of lowered graphs of versions before today's, as today's."""

from __future__ import annotations

from typing import Any, Final, cast


def without_layouts(graph: object) -> object:
    """The data of a lowered graph of version 3, in which all tensors lay as PyTorch has them."""
    return without_rewrites({**cast("dict[str, Any]", graph), "layouts": []}) if isinstance(graph, dict) else graph


def without_rewrites(graph: object) -> object:
    """The data of a lowered graph of version 4, which had neither graph passes nor patterns."""
    return {**cast("dict[str, Any]", graph), "rewrites": [], "merged": {}} if isinstance(graph, dict) else graph


EARLIER: Final = {3: without_layouts, 4: without_rewrites}
"""The version of a lowered graph -> what makes its data today's."""
