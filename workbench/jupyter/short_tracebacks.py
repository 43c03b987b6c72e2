"""An error of the workbench in a cell, shown with the user's own lines and the message.

The workbench's frames would not help the user, and would put a hundred lines above the message. `%tb` shows all.
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
    """Shows the workbench's errors with short tracebacks, unless the session has its own way to show errors."""
    if not shell.custom_exceptions:
        shell.set_custom_exc((WorkbenchError,), _tell)


def _tell(shell: Any, kind: type[BaseException], error: BaseException, _: object, tb_offset: int | None = None) -> Any:
    # %tb and %debug read these.
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, error.__traceback__
    with _users_lines(error):
        told = shell.InteractiveTB.structured_traceback(kind, error, error.__traceback__, tb_offset=0)
    told.append(_MORE)
    shell._showtraceback(kind, error, told)
    return told


@contextmanager
def _users_lines(error: BaseException) -> Generator[None]:
    """Within the block the error, and the errors from which it came, have only frames of the user's."""
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
