"""Messages to loggers that nobody would hear: they need not break a graph."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast


class UnheardLogs(set[Callable[..., object]]):
    """Dynamo's set of methods of loggers whose calls it leaves out, with those that print nothing: the logger is set to
    a higher level, or the method prints a message in its first call alone, as `warning_once` of transformers.

    A message that is printed in each call breaks the graph, so that it is printed in each run.
    """

    def __contains__(self, method: object) -> bool:
        return super().__contains__(method) or _is_unheard(method)


def _is_unheard(method: object) -> bool:
    logger = getattr(method, "__self__", None)
    if not isinstance(logger, logging.Logger):
        return False
    function = cast(Any, method).__func__
    if hasattr(function, "cache_info"):
        return True
    level = logging.getLevelNamesMapping().get(getattr(function, "__name__", "").upper())
    return level is not None and not logger.isEnabledFor(level)
