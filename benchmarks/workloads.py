"""The workloads of the accuracy tables, by name, in plain torch.nn with random weights.

    add_SHAPE   mul_SHAPE   sub_SHAPE   div_SHAPE   relu_SHAPE   tanh_SHAPE   sigmoid_SHAPE      any rank: 1664, 8x16x32
    gemm_MxKxN   softmax_RxC   layernorm_RxC   rmsnorm_RxC   attention_HxSxD                      any sizes
    conv_BxHxWxICxOCxKxSxP   maxpool_BxHxWxCxKxSxP   avgpool_BxHxWxCxKxSxP   batchnorm_NxCxHxW
    copy_RxC       from DRAM to the common memory, where the result stays
    resnet18   resnet50   bert_base   bert_large   bert_xlarge

Images are channels-last for convolutions and pools (K, S and P are window, stride and padding along both axes). The
batch norm is what is left of one in evaluation, a scale and a shift of each channel in f32; its tensor lies as its name
says, and its result is f32.

`workload(name)` gives the function or module and its inputs, `workload(name, "f16")` the same in another type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

SEQUENCE = 512
"""Tokens that the encoder blocks read."""


@dataclass(frozen=True)
class Workload:
    """The function to trace, and its inputs."""

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of `wb.trace` without which it would be other work."""
    measured_launches: int | None = None
    """The first so many launches are the work that is measured, others only use its result; None for all."""
    needs_common_memory: bool = False

    @property
    def operands(self) -> list[Tensor]:
        """The inputs, and the weights of a module."""
        module = self.function
        return [*self.inputs, *(module.state_dict().values() if isinstance(module, nn.Module) else ())]

    def resulting_in(self, dtype: torch.dtype) -> Workload:
        """The same with its result in this type."""
        return replace(self, function=Resulting(self.function, dtype))


class Resulting(nn.Module):
    """A function whose result is converted."""

    def __init__(self, function: Callable[..., Tensor], dtype: torch.dtype) -> None:
        super().__init__()
        self.function, self.dtype = function, dtype

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs).to(self.dtype)


class UnknownWorkload(ValueError):
    """A name that is none of the families above."""


def family_of(name: str) -> str:
    """`gemm` of `gemm_8x8x8`, `bert` of `bert_base`, `resnet` of `resnet18`."""
    return name.partition("_")[0].rstrip("0123456789")


def workload(name: str, dtype: str = "f32") -> Workload:
    """The workload of that name; the same name and type give the same numbers."""
    make = maker(name)
    torch.manual_seed(0)
    with made_in(DTYPES[dtype]):
        return make()


def maker(name: str) -> Callable[[], Workload]:
    """The function that makes the workload of that name; raises `UnknownWorkload` for any other name."""
    if name in NETWORKS:
        return NETWORKS[name]
    family, _, sizes = name.partition("_")
    make, letters = FAMILIES.get(family, (None, ""))
    given = sizes.split("x")
    numbers = all(each.isascii() and each.isdecimal() for each in given)
    if make is None or not numbers or (letters != ANY_RANK and len(given) != len(letters.split("x"))):
        known = [*NETWORKS, *(f"{each}_{wanted}" for each, (_, wanted) in FAMILIES.items())]
        raise UnknownWorkload(f"no workload is called {name!r}; known are {', '.join(known)}")
    return partial(make, *map(int, given))


@contextmanager
def made_in(dtype: torch.dtype) -> Iterator[None]:
    """Tensors that are made without a type have this one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def elementwise(function: Callable[..., Tensor], operands: int) -> Callable[..., Workload]:
    return lambda *shape: Workload(function, tuple(torch.randn(shape) for _ in range(operands)))


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


def rmsnorm(rows: int, columns: int) -> Workload:
    module = nn.RMSNorm(columns)
    nn.init.normal_(module.weight)
    return Workload(module, (torch.randn(rows, columns),))


class FoldedNorm(nn.Module):
    """A batch norm in evaluation, whose constants are folded into a scale and a shift of each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale, self.shift = (nn.Parameter(torch.randn(channels, 1, 1, dtype=torch.float32)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return x.float() * self.scale + self.shift


def batchnorm(n: int, c: int, h: int, w: int) -> Workload:
    return Workload(FoldedNorm(c), (torch.randn(n, c, h, w),))


def copied(x: Tensor) -> Tensor:
    """Copies all of it, and reads one number of the copy: so it is a tensor between two kernels, which may stay."""
    stays = torch.empty_like(x).copy_(x)
    return stays[:1, :1] + 1


def copy(rows: int, columns: int) -> Workload:
    options = {"resident": ["copy"], "fusion": [("copy", "add")]}
    return Workload(copied, (torch.randn(rows, columns),), options, measured_launches=1, needs_common_memory=True)


def pool(kind: type[nn.MaxPool2d] | type[nn.AvgPool2d]) -> Callable[..., Workload]:
    def made(b: int, h: int, w: int, c: int, k: int, s: int, p: int) -> Workload:
        return Workload(kind(k, s, p), (image(b, c, h, w),))

    return made


class Encoder(nn.Module):
    """One block of BERT: attention and two linear layers, each with what it read added and normalised."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.out = nn.Linear(hidden, hidden)
        self.widen, self.narrow = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            linear(x).view(len(x), self.heads, -1).transpose(0, 1) for linear in (self.query, self.key, self.value)
        )
        attended = self.attend(q, k, v).permute(2, 0, 1).reshape(x.shape)
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


ANY_RANK = "SHAPE"

FAMILIES: dict[str, tuple[Callable[..., Workload], str]] = {
    "add": (elementwise(torch.add, 2), ANY_RANK),
    "mul": (elementwise(torch.mul, 2), ANY_RANK),
    "sub": (elementwise(torch.sub, 2), ANY_RANK),
    "div": (elementwise(torch.div, 2), ANY_RANK),
    "relu": (elementwise(torch.relu, 1), ANY_RANK),
    "tanh": (elementwise(torch.tanh, 1), ANY_RANK),
    "sigmoid": (elementwise(torch.sigmoid, 1), ANY_RANK),
    "gemm": (gemm, "MxKxN"),
    "conv": (conv, "BxHxWxICxOCxKxSxP"),
    "softmax": (softmax, "RxC"),
    "layernorm": (layernorm, "RxC"),
    "rmsnorm": (rmsnorm, "RxC"),
    "batchnorm": (batchnorm, "NxCxHxW"),
    "maxpool": (pool(nn.MaxPool2d), "BxHxWxCxKxSxP"),
    "avgpool": (pool(nn.AvgPool2d), "BxHxWxCxKxSxP"),
    "attention": (attention, "HxSxD"),
    "copy": (copy, "RxC"),
}
"""Family -> the function that makes a workload, and the sizes in its name."""

NETWORKS: dict[str, Callable[[], Workload]] = {
    "resnet18": lambda: resnet(basic, (2, 2, 2, 2)),
    "resnet50": lambda: resnet(bottleneck, (3, 4, 6, 3)),
    "bert_base": lambda: bert(768, 12),
    "bert_large": lambda: bert(1024, 16),
    "bert_xlarge": lambda: bert(2048, 32),
}
