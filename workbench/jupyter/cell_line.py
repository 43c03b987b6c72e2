"""One line below a running cell that says how far the work is, and leaves no output behind.

A front end takes an output away again by one message only, `clear_output`, which takes away all outputs of the cell. So
the line stands only where it is the cell's only output. Behind each line follows a `clear_output` that waits: the next
output, whoever sends it, takes the line's place. Whether somebody has sent one shows in the number of messages that the
kernel has sent: if it is not what it was after our own last one, the line is gone, and nothing more is drawn.

Programs that run notebooks without a reader (nbval, nbclient, nbconvert) keep every message and understand few of them.
They are sent none: only front ends with cells to look at name the cell in their request.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

_PATIENCE_SECONDS = 5.0
"""How long the kernel's thread for outputs is waited for. It answers within milliseconds, unless it has ended."""

_ALONE_AT: list[int] = []
"""How many messages the kernel had sent when the running cell had no output but, perhaps, our line. Nothing until a
cell has begun under our eyes."""


def watch() -> None:
    """From the next cell on we know what the kernel has sent; says so to the shell of a kernel, once."""
    kernel = _kernel()
    if kernel is None or _ALONE_AT:
        return
    _ALONE_AT.append(-1)  # of the running cell it is not known

    def at_begin(_: object) -> None:
        _ALONE_AT[:] = [kernel.session.message_count]

    kernel.shell.events.register("pre_run_cell", at_begin)


def cell_line() -> CellLine | None:
    """The line below the cell that runs in this thread, if somebody looks at cells."""
    kernel = _kernel()
    if kernel is None or threading.current_thread() is not threading.main_thread():
        return None
    parent = cast("dict[str, Any]", kernel.get_parent("shell") or {})
    if "cellId" not in cast("dict[str, Any]", parent.get("metadata") or {}):
        return None
    return CellLine(kernel, parent)


@dataclass(frozen=True)
class CellLine:
    """The line of one cell."""

    kernel: Any
    parent: dict[str, Any]
    """The request by which the cell runs: outputs go below the cell that asked."""

    def draw(self, text: str) -> None:
        """Shows the line, in place of the one before."""
        shown = {"data": {"text/plain": text}, "metadata": {}, "transient": {}}
        self._alone(lambda: (self._send("display_data", shown), self._send("clear_output", {"wait": True})))

    def remove(self) -> None:
        """Takes the line away; comes back when this is under way, before the cell can end."""
        self._alone(lambda: self._send("clear_output", {"wait": False}))

    def _alone(self, say: Callable[[], object]) -> None:
        """Sends if no output has come between, in the thread that sends what programs print: so none does meanwhile."""
        done = threading.Event()

        def checked() -> None:
            try:
                if [self.kernel.session.message_count] == _ALONE_AT:
                    say()
                    _ALONE_AT[:] = [self.kernel.session.message_count]
            finally:
                done.set()

        self.kernel.iopub_thread.schedule(checked)
        done.wait(_PATIENCE_SECONDS)

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        self.kernel.session.send(self.kernel.iopub_socket, kind, content, parent=self.parent, ident=kind.encode())


def _kernel() -> Any:
    """The kernel that this process is, if it is one of Jupyter's."""
    if "ipykernel" not in sys.modules or (ipython := sys.modules.get("IPython")) is None:
        return None
    return getattr(cast(Any, ipython).get_ipython(), "kernel", None)
