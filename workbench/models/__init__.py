"""Example models: each with its weights, made of a seed, and with inputs to trace it on.

    e = wb.models.resnet18()
    j = wb.trace(e.module, *e.inputs, kwargs=e.kwargs)

`names()` lists them; `get("resnet18", size="full")` gives one in its published size. Small ones, the default, have the
same layers with fewer channels and pixels, and take seconds. Nothing is downloaded. A model's code is loaded when the
model is asked for; those of `transformers` need the extra `aten-workbench[models]`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from simulator.did_you_mean import did_you_mean, sentences
from workbench.ground.errors import BadOption

if TYPE_CHECKING:
    from workbench.models.example import Example as Example

SIZES: Final = ("small", "full")

_PLAIN: Final = (
    *("detection_head", "gpt", "lenet", "lstm", "mlp", "mobilenet_v3", "resnet18", "resnet50", "transformer_block"),
    *("unet", "vgg16"),
)
"""Models of plain `torch.nn`, one file each in the folder `shipped`."""
_OF_TRANSFORMERS: Final = (
    *("bert", "gpt2", "gpt2_decode", "llama", "llama_decode", "mixtral"),
    *("vit", "whisper_encoder"),
)
_NAMES: Final = tuple(sorted((*_PLAIN, *_OF_TRANSFORMERS)))


def names() -> tuple[str, ...]:
    """The names of all models, in alphabetical order."""
    return _NAMES


def get(name: str, *, size: str = "small") -> Example:
    """The model of that name, with its inputs; the same name and size give the same numbers."""
    if name not in _NAMES:
        raise BadOption(
            sentences(f"no model is called {name!r}{did_you_mean(str(name), _NAMES)}", f"There are {_listed()}")
        )
    if size not in SIZES:
        raise BadOption(f"size={size!r} of the model {name} is unknown; expected 'small' or 'full'")
    if name in _OF_TRANSFORMERS:
        make = partial(importlib.import_module("workbench.models.of_transformers").example, name)
    else:
        make = importlib.import_module(f"workbench.models.shipped.{name}").example
    with importlib.import_module("workbench.models.seeded").seeded():
        return cast("Example", make(full=size == "full"))


def _listed() -> str:
    return ", ".join(_NAMES)


def __getattr__(name: str) -> Callable[..., Example]:
    if name in _NAMES:
        return partial(get, name)
    raise AttributeError(
        sentences(f"module {__name__!r} has no model {name!r}{did_you_mean(name, _NAMES)}", f"There are {_listed()}")
    )


def __dir__() -> list[str]:
    return sorted([*_NAMES, "get", "names"])
