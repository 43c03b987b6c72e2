"""An error of the workbench's in a cell: the lines of whoever wrote the cell, and what is wrong.

Its own frames say nothing to them, and would be a hundred lines above the sentence that does. `%tb` shows all.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from workbench.ground.environment.call_sites import users_frames
from workbench.ground.errors import WorkbenchError

_MORE: Final = "\nLines inside the workbench are left out: %tb shows all."


def begin(shell: Any) -> None:
    """Unless somebody shows errors in a way of their own."""
    if not shell.custom_exceptions:
        shell.set_custom_exc((WorkbenchError,), _tell)


def _tell(shell: Any, kind: type[BaseException], error: BaseException, _: object, tb_offset: int | None = None) -> Any:
    # Which %tb and %debug ask for.
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, error.__traceback__
    with _users_lines(error):
        told = shell.InteractiveTB.structured_traceback(kind, error, error.__traceback__, tb_offset=0)
    told.append(_MORE)
    shell._showtraceback(kind, error, told)
    return told


@contextmanager
def _users_lines(error: BaseException) -> Generator[None]:
    """Within the block the error, and those that it came from, have only frames of the user's."""
    whole = [(each, each.__traceback__) for each in _chain(error)]
    try:
        for each, trace in whole:
            each.__traceback__ = users_frames(trace.tb_next if trace and each is error else trace)
        yield
    finally:
        for each, trace in whole:
            each.__traceback__ = trace


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
