"""Native code that may fault runs first in a process of its own, where a fault is an answer and not an end.

torch-mlir, MLIR's passes and compiled kernels run inside the Python process, so that one bad kernel can take a
notebook with everything in it down. What is known to be safe (`aten/proven.py`) is done in process at once. Everything
else is a trial: the same work, done first by a worker process (`workbench.worker`), under a time-out and with the
memory around its tensors watched. Its verdict is kept, on disk beside the kernels.

`ATEN_WORKBENCH_WORKER_TIMEOUT` is the seconds a trial may take, `ATEN_WORKBENCH_WORKER=off` does without trials.
"""
