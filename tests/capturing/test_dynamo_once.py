"""Tests that other threads do not see a trace's changes to Dynamo."""

from __future__ import annotations

from tests.fresh_process import python

PROGRAM = """
import threading
import torch
from workbench.ground.torch_inside.dynamo_once import no_other_compiler

found = []

def compiled():
    try:
        for backend in ("npu", "aot_eager"):  # both are searched for: this process has not used them
            torch.compile(torch.relu, backend=backend)
        wrapped = torch._dynamo.eval_frame.get_compiler_fn("eager")
        found.append(callable(wrapped))
    except Exception as error:
        found.append(error)

with no_other_compiler():
    other = threading.Thread(target=compiled)
    other.start()
    other.join()
print(found)
"""


def test_another_thread_compiles_for_a_backend_by_name_while_dynamo_reads_here():
    assert python("-c", PROGRAM).strip() == "[True]"
