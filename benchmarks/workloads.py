"""The workloads of the accuracy table, by name, in plain torch.nn with random weights.

    gemm_MxKxN   conv_BxHxWxICxOCxKxSxP   layernorm_RxC   softmax_RxC   attention_HxSxD      any sizes
    resnet18   resnet50   bert_base   bert_large   bert_xlarge

`workload(name)` gives the function or module and its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SEQUENCE = 512
"""Tokens that the encoder blocks read."""


@dataclass(frozen=True)
class Workload:
    """What to trace, and on what."""

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]


class UnknownWorkload(ValueError):
    """A name that is none of the families above."""


def workload(name: str) -> Workload:
    """The workload of that name; the same name gives the same numbers."""
    torch.manual_seed(0)
    whole = NETWORKS.get(name)
    if whole is not None:
        return whole()
    family, _, sizes = name.partition("_")
    make, letters = FAMILIES.get(family, (None, ""))
    given = sizes.split("x")
    if make is None or len(given) != len(letters.split("x")) or not all(each.isdigit() for each in given):
        known = [*NETWORKS, *(f"{each}_{wanted}" for each, (_, wanted) in FAMILIES.items())]
        raise UnknownWorkload(f"no workload is called {name!r}; known are {', '.join(known)}")
    return make(*map(int, given))


def gemm(m: int, k: int, n: int) -> Workload:
    return Workload(torch.matmul, (torch.randn(m, k), torch.randn(k, n)))


def conv(b: int, h: int, w: int, ic: int, oc: int, k: int, s: int, p: int) -> Workload:
    module = nn.Conv2d(ic, oc, k, stride=s, padding=p, bias=False)
    return Workload(channels_last(module), (image(b, ic, h, w),))


def layernorm(rows: int, columns: int) -> Workload:
    module = nn.LayerNorm(columns)
    nn.init.normal_(module.weight)
    nn.init.normal_(module.bias)
    return Workload(module, (torch.randn(rows, columns),))


def softmax(rows: int, columns: int) -> Workload:
    return Workload(nn.Softmax(dim=1), (torch.randn(rows, columns),))


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of queries, keys and values [heads, sequence, depth]; the result is [heads, depth, sequence]."""
    scores = k @ q.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return v.transpose(-2, -1) @ scores.softmax(dim=-2)


def attention(heads: int, sequence: int, depth: int) -> Workload:
    q, k, v = (torch.randn(heads, sequence, depth) for _ in range(3))
    return Workload(attend, (q, k, v))


class Encoder(nn.Module):
    """One block of BERT: attention and two linear layers, each with what it read added and normalised."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.out = nn.Linear(hidden, hidden)
        self.widen, self.narrow = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            linear(x).view(len(x), self.heads, -1).transpose(0, 1) for linear in (self.query, self.key, self.value)
        )
        attended = attend(q, k, v).permute(2, 0, 1).reshape(x.shape)
        x = self.norm1(self.out(attended) + x)
        return self.norm2(self.narrow(torch.relu(self.widen(x))) + x)


def bert(hidden: int, heads: int) -> Workload:
    return Workload(Encoder(hidden, heads).eval(), (torch.randn(SEQUENCE, hidden),))


class Convolution(nn.Sequential):
    """A convolution and its norm."""

    def __init__(self, channels: int, out: int, size: int, stride: int = 1) -> None:
        norm = nn.BatchNorm2d(out)
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, std=0.1)
        nn.init.normal_(norm.running_mean, std=0.1)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
        super().__init__(nn.Conv2d(channels, out, size, stride, size // 2, bias=False), norm)


class Residual(nn.Module):
    """A block of convolutions with a ReLU between each two, and what it read added to its result."""

    def __init__(self, channels: int, convolutions: list[Convolution], out: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(convolutions)
        same = stride == 1 and channels == out
        self.shortcut = nn.Identity() if same else Convolution(channels, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.convolutions[0](x)
        for each in self.convolutions[1:]:
            y = each(torch.relu(y))
        return torch.relu(y + self.shortcut(x))


def basic(channels: int, width: int, stride: int) -> tuple[Residual, int]:
    """ResNet-18's block, and the channels of its result."""
    two = [Convolution(channels, width, 3, stride), Convolution(width, width, 3)]
    return Residual(channels, two, width, stride), width


def bottleneck(channels: int, width: int, stride: int) -> tuple[Residual, int]:
    """ResNet-50's block, and the channels of its result."""
    out = 4 * width
    three = [Convolution(channels, width, 1), Convolution(width, width, 3, stride), Convolution(width, out, 1)]
    return Residual(channels, three, out, stride), out


def resnet(block: Callable[[int, int, int], tuple[Residual, int]], depths: tuple[int, ...]) -> Workload:
    layers: list[nn.Module] = [Convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        for place in range(depth):
            made, channels = block(channels, 64 * 2**stage, 2 if stage and not place else 1)
            layers.append(made)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
    return Workload(channels_last(nn.Sequential(*layers)), (image(1, 3, 224, 224),))


def image(*shape: int) -> Tensor:
    return torch.randn(*shape).contiguous(memory_format=torch.channels_last)


def channels_last(module: nn.Module) -> nn.Module:
    return module.eval().to(memory_format=torch.channels_last)


FAMILIES: dict[str, tuple[Callable[..., Workload], str]] = {
    "gemm": (gemm, "MxKxN"),
    "conv": (conv, "BxHxWxICxOCxKxSxP"),
    "layernorm": (layernorm, "RxC"),
    "softmax": (softmax, "RxC"),
    "attention": (attention, "HxSxD"),
}

NETWORKS: dict[str, Callable[[], Workload]] = {
    "resnet18": lambda: resnet(basic, (2, 2, 2, 2)),
    "resnet50": lambda: resnet(bottleneck, (3, 4, 6, 3)),
    "bert_base": lambda: bert(768, 12),
    "bert_large": lambda: bert(1024, 16),
    "bert_xlarge": lambda: bert(2048, 32),
}
