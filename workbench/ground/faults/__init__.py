"""Native code that may fault runs first in a process of its own, where a fault becomes an answer.

torch-mlir, MLIR's passes and compiled kernels run inside the Python process, so that one bad kernel can end a
notebook's session with all its data. Work that is known to be safe (`operators/aten/proven.py`) runs in this process at
once. All other work is tried first: a worker process (`workbench.commands.worker`) does the same work, under a time-out
and with watched memory around its tensors. Its verdict is kept, on disk beside the kernels.

`ATEN_WORKBENCH_WORKER_TIMEOUT` is the longest time of a trial in seconds, `ATEN_WORKBENCH_WORKER=off` turns trials off.
"""
