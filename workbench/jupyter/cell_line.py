"""One line below a running cell with the progress of the work, which leaves no output behind.

A front end removes outputs by one message only, `clear_output`, which removes all outputs of the cell. So the line is
shown only while it is the cell's only output. A waiting `clear_output` follows each line: the next output, from any
sender, replaces the line. After that nothing more is drawn. To notice other outputs we watch the messages of the
kernel's session; several requests may run at once, and their answers are not outputs.

Programs that run notebooks without a reader (nbval, nbclient, nbconvert) keep every message and understand few of them.
They get no line: only front ends that show cells name the cell in their request.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from workbench.ground.environment.progress import draw_below_cells

_PATIENCE_SECONDS = 5.0
"""The longest wait for the kernel's thread for outputs. It answers within milliseconds, unless it has ended."""

_OUTPUTS: Final = ("stream", "display_data", "update_display_data", "execute_result", "error", "clear_output")


@dataclass
class _Seen:
    """The outputs below cells since we began to look."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    outputs: int = 0
    alone_at: int | None = None
    """The number of outputs when the running cell had none, or only our line. None until a cell begins."""


_SEEN = _Seen()


def watch() -> None:
    """Counts the outputs of cells, from the next cell on, and offers the line below a cell to the progress of long
    work; called once in a kernel, before anything is drawn."""
    draw_below_cells(cell_line)
    kernel = _kernel()
    if kernel is None or hasattr(kernel.session, "_workbench_watches"):
        return
    kernel.session._workbench_watches = True
    send = kernel.session.send

    def counted(stream: object, message: Any, *args: object, **options: object) -> object:
        if (message["header"]["msg_type"] if isinstance(message, dict) else message) in _OUTPUTS:
            with _SEEN.lock:
                _SEEN.outputs += 1
        return send(stream, message, *args, **options)

    def at_begin(_: object) -> None:
        _SEEN.alone_at = _SEEN.outputs

    kernel.session.send = counted
    kernel.shell.events.register("pre_run_cell", at_begin)


def cell_line() -> CellLine | None:
    """The line below the cell that runs in this thread, if the front end shows cells."""
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
        """Removes the line; returns when the message is sent, before the cell can end."""
        self._alone(lambda: self._send("clear_output", {"wait": False}))

    def _alone(self, say: Callable[[], object]) -> None:
        """Calls `say` if the cell has no other output, in the thread that sends printed output, so that no output comes
        in between."""
        done = threading.Event()

        def checked() -> None:
            try:
                if _SEEN.outputs == _SEEN.alone_at:
                    say()
                    _SEEN.alone_at = _SEEN.outputs
            finally:
                done.set()

        self.kernel.iopub_thread.schedule(checked)
        done.wait(_PATIENCE_SECONDS)

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        self.kernel.session.send(self.kernel.iopub_socket, kind, content, parent=self.parent, ident=kind.encode())


def _kernel() -> Any:
    """The Jupyter kernel of this process; None if it runs none."""
    if "ipykernel" not in sys.modules or (ipython := sys.modules.get("IPython")) is None:
        return None
    return getattr(cast(Any, ipython).get_ipython(), "kernel", None)
