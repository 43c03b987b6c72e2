"""Notebooks of models that people know, each through all views."""

from __future__ import annotations

import nbformat

from tests.browser import lab

_SETUP = """
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from tests.models import resnet18, with_statistics

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
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, 2)
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(b, t, width))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, layers=12, width=96, heads=4, words=512, length=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(length, width)
        self.h, self.ln_f = nn.ModuleList(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


j = wb.trace(GPT2().eval(), torch.randint(0, 512, (1, 32)))
""",
}

_VIEWS = (
    "j.simulated",
    "j.captured",
    "j.lowered",
    "j.scheduled",
    "j",
    "j.findings",
    "j.simulated.plot()",
    "j.simulated.stalls",
)
_ONCE = ("wb.machine('tpu-v3')", "wb.ops", "j.scheduled.kernels[0].program", "j.scheduled.kernels[0].buffers")


MODELS = tuple(_MODELS)


def notebook(name: str) -> nbformat.NotebookNode:
    """One model: a cell that traces it, and one for each view."""
    views = (*_VIEWS, *(_ONCE if name == "softmax" else ()))
    codes = (_SETUP, _MODELS[name], *views)
    cells = [nbformat.v4.new_markdown_cell(f"# {name}")]
    return lab.notebook(*cells, *(nbformat.v4.new_code_cell(code.strip()) for code in codes))
