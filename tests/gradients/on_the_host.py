"""Ops of the table of gradients that the host computes, and calls that no step can have, with the reason of each."""

from __future__ import annotations

_RARE = "no kernel yet; rare in training"
_SAMPLED = "no kernel yet: each pixel reads four places that depend on data"
_GAMMA = "no kernel yet: PyTorch's own series"

REASONS: dict[str, str] = {
    "aten._upsample_bilinear2d_aa.default": "no kernel yet: the number of neighbours depends on the scale",
    "aten._upsample_bilinear2d_aa_backward.default": "the same as for the op itself",
    "aten.as_strided.default": "addresses the memory of a parameter; the record has only a view of it",
    "aten.affine_grid_generator.default": _RARE,
    "aten.digamma.default": _GAMMA,
    "aten.grid_sampler_2d.default": _SAMPLED,
    "aten.grid_sampler_2d_backward.default": _SAMPLED,
    "aten.lgamma.default": _GAMMA,
    "aten.mode.default": _RARE,
    "aten.multi_margin_loss_backward.default": _RARE,
    "aten.multilabel_margin_loss_backward.default": _RARE,
    "aten.multilabel_margin_loss_forward.default": _RARE,
    "aten.polygamma.default": _GAMMA,
    "aten.renorm.default": _RARE,
}

REFUSED: dict[str, str] = {
    "gaussian_nll_loss": "`F.gaussian_nll_loss` reads the variances' signs in Python",
    "ctc_loss": "`F.ctc_loss` reads lengths in Python",
    "index by a mask": "the number of results depends on the mask's data",
    "masked_select": "the same as for an index by a mask",
}
