"""Notebooks of models that people know, each through all views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.browser import lab

if TYPE_CHECKING:
    import nbformat

_SETUP = """
import torch
from torch import nn

import workbench as wb
from workbench.models.resnet import resnet18
from workbench.models.seeded import with_statistics
from workbench.models.shipped.gpt import GPT2

_ = torch.manual_seed(0)
"""

_MODELS = {
    "softmax": "j = wb.trace(torch.softmax, torch.randn(512, 512), 1)",
    "a feed-forward network": """
ffn = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
j = wb.trace(ffn.eval(), torch.randn(64, 256))
""",
    "ResNet-18": "j = wb.trace(with_statistics(resnet18()).eval(), torch.randn(1, 3, 64, 64))",
    "an encoder": """
layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
j = wb.trace(nn.TransformerEncoder(layer, 2).eval(), torch.randn(1, 32, 128))
""",
    "GPT-2 of 12 layers": """
model = GPT2(layers=12, width=96, heads=4, words=512, longest=32)
j = wb.trace(model.eval(), torch.randint(0, 512, (1, 32)))
""",
}

_VIEWS = (
    "j.simulated",
    "j.captured",
    "j.lowered",
    "j.rendered",
    "j.scheduled",
    "j",
    "j.findings",
    "j.simulated.plot()",
    "j.simulated.stalls",
    "j.simulated.roofline",
    "j.simulated.scratchpad",
    "wb.compare(j, j.with_(machine='edge-8x8'))",
)
_ONCE = (
    "wb.machine('tpu-v3')",
    "wb.ops",
    "j.scheduled.kernels[0].program",
    "j.scheduled.kernels[0].buffers",
    "j.scheduled.kernels[0].passes[2]",
    "j.scheduled.tiles(j.scheduled.kernels[0].name)",
    "j.simulated.roofline.plot()",
    "j.simulated.scratchpad.plot()",
    "j.scheduled.tiles(j.scheduled.kernels[0].name).plot()",
)

MODELS = tuple(_MODELS)


def notebook(name: str) -> nbformat.NotebookNode:
    """One model: a cell that traces it, and one for each view."""
    import nbformat

    views = (*_VIEWS, *(_ONCE if name == "softmax" else ()))
    codes = (_SETUP, _MODELS[name], *views)
    cells = [nbformat.v4.new_markdown_cell(f"# {name}")]
    return lab.notebook(*cells, *(nbformat.v4.new_code_cell(code.strip()) for code in codes))
