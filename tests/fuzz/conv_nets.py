"""From a seed to a training step of a convolutional net: blocks of convolution, norm, activation and pool, then a head.

Every block is run with PyTorch as it is drawn; what PyTorch refuses, or what leaves no image, is drawn again.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from tests.fuzz.generate import MACHINES
from tests.fuzz.judge import Verdict
from tests.fuzz.training_steps import OPTIMIZERS, judge_function, step_of
from workbench.lowering.fusion_rules import SWITCHES

ACTIVATIONS = (
    *("ReLU()", "SiLU()", "GELU()", "GELU('tanh')", "Hardswish()", "LeakyReLU(0.1)", "ELU()", "Mish()", "Sigmoid()"),
    *("Tanh()", "PReLU({c})", "ReLU6()", "Softplus()", "CELU(0.7)", "Hardtanh()", "Softmax(1)", "LogSigmoid()"),
)
NORMS = ("BatchNorm{d}d({c})",) * 4 + ("GroupNorm({g}, {c})", "InstanceNorm{d}d({c}, affine=True)")
IMAGES = {1: (24, 31), 2: (8, 9, 16), 3: (4, 6)}
"""Number of an image's axes -> sizes of its sides."""
MOST_ELEMENTS = 5000


class Residual(nn.Module):
    """Adds what it is given to what its layers make of it."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Gated(Residual):
    """Multiplies what it is given by what its layers make of it: squeeze and excite."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.layers(x)


class Joined(Residual):
    """Puts what its layers make beside what it is given, along the channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.layers(x)], 1)


@dataclass(frozen=True, slots=True)
class ConvNet:
    """A net as the text of its layers, the images it is given, and how it is trained and compiled."""

    seed: int
    layers: tuple[str, ...]
    shape: tuple[int, ...]
    classes: int
    optimizer: str
    training: bool
    channels_last: bool
    machine: str
    fusion: str

    def net(self) -> nn.Sequential:
        torch.manual_seed(self.seed)
        space = {**vars(nn), "Residual": Residual, "Gated": Gated, "Joined": Joined}
        made = nn.Sequential(*(eval(layer, space) for layer in self.layers)).train(self.training)
        return made.to(memory_format=torch.channels_last) if self.channels_last else made

    def images(self) -> torch.Tensor:
        images = torch.randn(self.shape, generator=torch.Generator().manual_seed(self.seed))
        return images.to(memory_format=torch.channels_last) if self.channels_last else images

    def function(self) -> Callable[[], torch.Tensor]:
        net, images = self.net(), self.images()
        labels = torch.arange(len(images)) * 3 % self.classes
        return step_of(lambda: nn.functional.cross_entropy(net(images), labels), list(net.parameters()), self.optimizer)

    def text(self) -> str:
        """Its layers, and the expression that makes it."""
        return "\n".join([*self.layers, repr(self)])


class _Drawing:
    """The layers so far, and what they make of the images."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.axes = chance, chance.choices((1, 2, 3), (2, 8, 1))[0]
        side = IMAGES[self.axes]
        self.shape = (
            chance.randint(2, 4),
            chance.choice((1, 3, 4, 6)),
            *(chance.choice(side) for _ in range(self.axes)),
        )
        self.now, self.layers = torch.randn(self.shape), list[str]()

    @property
    def channels(self) -> int:
        return self.now.shape[1]

    def add(self, layer: str) -> bool:
        """True if PyTorch takes the layer here, and leaves no more and no fewer numbers than wanted."""
        space = {**vars(nn), "Residual": Residual, "Gated": Gated, "Joined": Joined}
        try:
            made = eval(layer, space)(self.now)
        except (RuntimeError, ValueError, IndexError):
            return False
        fits = 0 < made.numel() <= MOST_ELEMENTS and bool(made.isfinite().all()) and float(made.abs().max()) < 1e3
        if fits:
            self.now = made.detach()
            self.layers.append(layer)
        return fits

    def convolution(self, wanted: int | None = None) -> str:
        """A convolution; one with as many channels as wanted keeps the image's size."""
        chance, channels = self.chance, self.channels
        groups = chance.choice([1, 1, *(each for each in (2, 3, 4, channels) if channels % each == 0)])
        made = wanted or groups * chance.randint(1, max(1, 12 // groups))
        made = made if made % groups == 0 else groups * made
        if wanted:
            size, dilation = chance.choice((1, 3)), chance.choice((1, 1, 2))
            more = f", padding={dilation * (size // 2)}, dilation={dilation}"
        else:
            size = chance.choice((1, 2, 3, 3, 3, 5))
            more = f", stride={chance.choice((1, 1, 2, 3))}, padding={chance.randint(0, size // 2)}"
            more += f", dilation={chance.choice((1, 1, 1, 2))}"
            more += chance.choice(("", "", "", ", padding_mode='circular'", ", padding_mode='reflect'"))
        kind = f"Conv{self.axes}d"
        if not wanted and chance.random() < 0.15:
            kind, size, more = f"ConvTranspose{self.axes}d", chance.randint(1, 3), f", stride={chance.randint(1, 2)}"
        bias = chance.choice((True, False))
        return f"{kind}({channels}, {made}, {size}{more}, groups={groups}, bias={bias})"

    def norm(self, channels: int) -> str:
        groups = self.chance.choice([each for each in range(1, channels + 1) if channels % each == 0])
        return self.chance.choice(NORMS).format(d=self.axes, c=channels, g=groups)

    def activation(self, channels: int) -> str:
        return self.chance.choice(ACTIVATIONS).format(c=channels)

    def pool(self) -> str:
        chance, d = self.chance, self.axes
        size, step = chance.choice((2, 2, 3)), chance.choice((1, 2, 2, 3))
        return chance.choice(
            (
                f"MaxPool{d}d({size}, {step}, padding={chance.randint(0, size // 2)})",
                f"MaxPool{d}d({size}, {step}, ceil_mode=True)",
                f"AvgPool{d}d({size}, {step}, padding={chance.randint(0, 1)})",
                f"AvgPool{d}d({size}, {step}, ceil_mode=True, count_include_pad=False)",
                f"AdaptiveAvgPool{d}d({chance.randint(1, 5)})",
                f"AdaptiveMaxPool{d}d({chance.randint(1, 5)})",
                "Upsample(scale_factor=2)",
            )
        )

    def around(self) -> str:
        """Layers around which what they are given goes, too."""
        chance, c = self.chance, self.channels
        if chance.random() < 0.3:
            less = max(1, c // 2)
            conv = f"Conv{self.axes}d"
            squeezed = f"AdaptiveAvgPool{self.axes}d(1), {conv}({c}, {less}, 1), ReLU(), {conv}({less}, {c}, 1)"
            return f"Gated({squeezed}, {chance.choice(('Sigmoid()', 'Hardsigmoid()'))})"
        within = [self.convolution(c), self.norm(c), self.activation(c)]
        return f"{chance.choice(('Residual', 'Residual', 'Joined'))}({', '.join(within[: chance.randint(1, 3)])})"

    def block(self) -> None:
        """A convolution, and often a norm, an activation and a pool; or layers to go around."""
        chance = self.chance
        if chance.random() < 0.25:
            self.add(self.around())
            return
        while not self.add(self.convolution()):
            pass
        for make, often in ((self.norm, 0.7), (self.activation, 0.85)):
            if chance.random() < often:
                self.add(make(self.channels))
        if chance.random() < 0.35:
            self.add(self.pool())

    def head(self, classes: int) -> None:
        if self.chance.random() < 0.4:
            self.add(f"AdaptiveAvgPool{self.axes}d(1)")
        self.add("Flatten()")
        self.add(f"Linear({self.channels}, {classes})")


def conv_net(seed: int) -> ConvNet:
    """The net of a seed."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    drawing, classes = _Drawing(chance), chance.randint(2, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(chance.randint(1, 4)):
            drawing.block()
        drawing.head(classes)
    return ConvNet(
        seed,
        tuple(drawing.layers),
        drawing.shape,
        classes,
        chance.choice(list(OPTIMIZERS)),
        training=chance.random() < 0.85,
        channels_last=drawing.axes == 2 and chance.random() < 0.2,
        machine=chance.choices([name for name, _ in MACHINES], [weight for _, weight in MACHINES])[0],
        fusion=chance.choices(("None", repr("none"), repr({"off": [chance.choice(SWITCHES)]})), (16, 1, 3))[0],
    )


def judged_net(seed: int) -> Verdict:
    """The verdict on a training step of the net of a seed."""
    return judge_net(conv_net(seed))


def judge_net(net: ConvNet) -> Verdict:
    """Traces and checks the step: its loss, gradients, parameters, statistics and what the optimizer keeps."""
    return judge_function(net.function, net.machine, net.fusion)
