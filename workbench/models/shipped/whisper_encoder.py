"""The encoder of Whisper, of `transformers`: half a minute of sound in full."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from workbench.models.example import Example
from workbench.models.from_transformers import made

SMALL: Mapping[str, object] = {
    "d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "num_mel_bins": 16,
    "max_source_positions": 32, "vocab_size": 100, "pad_token_id": 0, "decoder_layers": 1,
    "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip
FULL: Mapping[str, object] = {}


def example(*, full: bool) -> Example:
    model = made("whisper_encoder", "WhisperModel", "WhisperConfig", **(FULL if full else SMALL))
    config = model.config
    return Example(model.encoder, (torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions),))
