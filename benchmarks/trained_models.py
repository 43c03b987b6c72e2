"""Small models with data that they can learn, and the steps that train them: the rows of `fifty_steps.py`.

    mlp           three linear layers and GELUs
    conv          three convolutions with batch norms, both pools
    transformer   one layer of an encoder, PyTorch's own, over an embedding
    gpt           GPT-2 of four layers

Each is trained by `sgd` (momentum 0.9), by `adamw`, and by `adamw_bf16`, whose forward pass is under autocast. A batch
is made of random numbers and answers that follow from them, so that losses fall.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.models.shipped.gpt import GPT2

WORDS, TOKENS = 32, 16

Batch = tuple[Tensor, Tensor]
Step = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Trained:
    """A model, and its batches."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Batch]


class Encoder(nn.Module):
    """Words through one layer of an encoder; each is to become another word."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
        self.out = nn.Linear(32, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.layer(self.embedding(words)))


def gpt() -> nn.Module:
    """Its words begin small, as GPT-2's do: they are also what its results are products of."""
    model = GPT2(layers=4, width=32, heads=4, words=WORDS, longest=TOKENS)
    for embedding in (model.words, model.places):
        nn.init.normal_(embedding.weight, std=0.2)
    return model


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8),
    )  # fmt: skip


def vectors() -> Batch:
    x = torch.randn(32, 32)
    return x, x[:, :8].argmax(1)


def images() -> Batch:
    x, y = torch.randn(16, 3, 16, 16), torch.randint(0, 8, (16,))
    return x + y.view(-1, 1, 1, 1) / 4, y


def shifted() -> Batch:
    """Words, of which each answer is the next but five in the list of words."""
    words = torch.randint(0, WORDS, (4, TOKENS))
    return words, (words + 5) % WORDS


def counted() -> Batch:
    """Sentences that count up from any word; the answer is the next word."""
    words = (torch.randint(0, WORDS, (4, 1)) + torch.arange(TOKENS + 1)) % WORDS
    return words[:, :-1], words[:, 1:].contiguous()


TRAINED: Mapping[str, Trained] = {
    "mlp": Trained(mlp, vectors),
    "conv": Trained(convolutions, images),
    "transformer": Trained(Encoder, shifted),
    "gpt": Trained(gpt, counted),
}

WAYS = ("sgd", "adamw", "adamw_bf16")


def optimizer_of(way: str, model: nn.Module) -> torch.optim.Optimizer:
    if way == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return torch.optim.AdamW(model.parameters(), lr=0.003)


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer, *, narrow: bool) -> Step:
    """A step as a loop of training has it; `narrow` for a forward pass in bf16."""

    def step(x: Tensor, y: Tensor) -> Tensor:
        around: AbstractContextManager[object] = torch.autocast("cpu", torch.bfloat16) if narrow else nullcontext()
        with around:
            loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step
