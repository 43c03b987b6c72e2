"""`torch.compile(model, backend="npu", options={"machine": "tpu-v3"})`: found by its entry point.

Each graph of Dynamo's becomes a journey and runs natively through the journey's own scheduled kernels. If Dynamo breaks
a function up, there are several graphs, with plain Python between them. A graph whose results require gradients becomes
two journeys, a forward and a backward one. `wb.last_journeys()` returns them. PyTorch computes a graph that cannot be
captured on the host, with a warning.

Dynamo passes parameters with every call, so each call uses their current values. Symbolic shapes and numbers are fixed
to their values in a call; a call with other values has a journey of its own.
"""

from __future__ import annotations

from workbench.backend.npu_backend import npu as npu
from workbench.backend.recent_journeys import last_journeys as last_journeys
