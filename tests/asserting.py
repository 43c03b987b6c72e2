"""Functions that assert something of their data, where pytest does not rewrite assertions."""

from __future__ import annotations

import torch


def positive(x: torch.Tensor) -> torch.Tensor:
    assert x.min() > 0, "some are not"
    return x.log()


def summed(x: torch.Tensor) -> torch.Tensor:
    torch.ops.aten._assert_async.msg(x.sum() > 0, "no sum")
    return x * 2
