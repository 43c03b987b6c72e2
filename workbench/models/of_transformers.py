"""Models of `transformers`, with random weights: made of a configuration, so that nothing is downloaded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

import torch

from workbench.ground.errors import MissingExtra
from workbench.models.example import Example

Figures = Mapping[str, object]

_SMALL: Final = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_WITHOUT_AN_END: Final = {"bos_token_id": 0, "eos_token_id": None}
"""Options for a sequence of tokens that never ends by itself."""
_BERT: Final = {**_SMALL, "vocab_size": 100, "max_position_embeddings": 64}
_LLAMA: Final = {**_BERT, **_WITHOUT_AN_END, "num_key_value_heads": 2}

MODELS: Final[Mapping[str, tuple[str, str, Figures, Figures]]] = {
    "bert": ("BertModel", "BertConfig", _BERT, {}),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64, **_WITHOUT_AN_END},
        {},
    ),
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        _LLAMA,
        {
            "hidden_size": 2048,
            "num_hidden_layers": 22,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "intermediate_size": 5632,
            "vocab_size": 32000,
            "max_position_embeddings": 2048,
        },
    ),
    "mixtral": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {**_LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
        {
            "hidden_size": 1024,
            "num_hidden_layers": 4,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "intermediate_size": 3584,
            "vocab_size": 32000,
            "max_position_embeddings": 2048,
        },
    ),
    "vit": ("ViTModel", "ViTConfig", {**_SMALL, "image_size": 32, "patch_size": 8}, {}),
    "whisper_encoder": (
        "WhisperModel",
        "WhisperConfig",
        {
            "d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128,
            "num_mel_bins": 16, "max_source_positions": 32, "vocab_size": 100, "pad_token_id": 0, "decoder_layers": 1,
            "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "bos_token_id": 1, "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        {},
    ),
}  # fmt: skip
"""The class of the model, the class of its configuration, and the figures in which the small and the full model differ
from the published one: Llama is as large as TinyLlama in full, Mixtral has four layers."""


def example(name: str, *, full: bool) -> Example:
    """A model, an `nn.Module`, and its input: tokens, an image, or half a minute of sound."""
    if name.endswith("_decode"):
        return _one_more_token(name, example(name.removesuffix("_decode"), full=full))
    model_class, config_class, small, large = MODELS[name]
    package = _transformers(name)
    config = getattr(package, config_class)(**(large if full else small))
    model = getattr(package, model_class)(config).eval()
    if name == "whisper_encoder":
        return Example(model.encoder, (torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions),))
    if name == "vit":
        return Example(model, (torch.randn(1, 3, config.image_size, config.image_size),))
    return Example(model, (torch.randint(0, config.vocab_size, (1, 128 if full else 16)),))


def _one_more_token(name: str, prefill: Example) -> Example:
    """The call for the next token: it reads the cache that the earlier tokens left, and adds to it."""
    model: Any = prefill.module
    cache = _transformers(name).DynamicCache(config=model.config)
    with torch.no_grad():
        model(*prefill.inputs, cache=cache)
    return Example(model, (torch.randint(0, model.config.vocab_size, (1, 1)),), {"cache": cache})


def _transformers(name: str) -> Any:
    """The package `transformers`; if it is missing, an error names the extra that has it."""
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise MissingExtra(
            f"The model {name} is one of transformers, which is not installed; "
            "pip install 'aten-workbench[models]' brings it."
        ) from None
