"""Models of `transformers`, with random weights: made of a configuration, so that nothing is downloaded."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from workbench.ground.errors import MissingExtra
from workbench.models.example import Example


def transformers(name: str) -> Any:
    """The package; an error names the extra where it is missing."""
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise MissingExtra(
            f"The model {name} is one of transformers, which is not installed; "
            "pip install 'aten-workbench[models]' brings it."
        ) from None


def made(name: str, model: str, config: str, **figures: object) -> Any:
    """A model, an `nn.Module`, of the class `model`, of a configuration of the class `config`."""
    package = transformers(name)
    return getattr(package, model)(getattr(package, config)(**figures)).eval()


def one_more_token(name: str, prefill: Example) -> Example:
    """The call after this one: it reads the cache that earlier tokens left, and leaves its own there."""
    model: Any = prefill.module
    cache = transformers(name).DynamicCache(config=model.config)
    with torch.no_grad():
        model(*prefill.inputs, cache=cache)
    return Example(model, (torch.randint(0, model.config.vocab_size, (1, 1)),), {"cache": cache})
