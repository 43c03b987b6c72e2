"""Rewrites convolutions over few channels as convolutions over more: see `folded_window`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from workbench.explaining.findings.module_copies import has_hooks

if TYPE_CHECKING:
    from torch import nn


def folds(module: object) -> bool:
    """True if `folded_window` takes the module: a plain convolution over images, with zero padding and without
    dilation. The work of a subclass or a hook would be lost."""
    from torch import nn

    return (
        type(module) is nn.Conv2d
        and not has_hooks(module)
        and module.groups == 1
        and module.padding_mode == "zeros"
        and module.dilation == (1, 1)
        and not isinstance(module.padding, str)
    )


def folded_window(conv: nn.Conv2d) -> nn.Module:
    """The same convolution with the rows or columns of its window as additional channels.

    Folds adjacent rows, or, where the channels are innermost, adjacent columns with all their channels. Each row or
    column is copied once for each place of the window that contains it, in long runs. In return a product's depth is
    channels times rows or columns, and fills more rows of an array.
    """
    return folded_window_class()(conv)


@cache
def folded_window_class() -> type[Any]:
    """The class of `folded_window`'s results; made at its first use, since it needs PyTorch."""
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn

    class FoldedWindow(nn.Module):
        def __init__(self, conv: nn.Conv2d) -> None:
            super().__init__()
            self.conv = conv

        def forward(self, x: Tensor) -> Tensor:
            innermost = x.is_contiguous(memory_format=torch.channels_last)
            return self.with_columns_folded(x) if innermost else self.with_rows_folded(x)

        def with_rows_folded(self, x: Tensor) -> Tensor:
            (high, _), (down, right) = self.conv.kernel_size, self.conv.stride
            above, left = cast("tuple[int, int]", self.conv.padding)
            rows = F.pad(x, (0, 0, above, above)).unfold(2, high, down).permute(0, 1, 4, 2, 3).flatten(1, 2)
            weight = self.conv.weight.flatten(1, 2).unsqueeze(2)
            return F.conv2d(rows, weight, self.conv.bias, stride=(1, right), padding=(0, left))

        def with_columns_folded(self, x: Tensor) -> Tensor:
            (_, wide), (down, right) = self.conv.kernel_size, self.conv.stride
            above, left = cast("tuple[int, int]", self.conv.padding)
            columns = F.pad(x.permute(0, 2, 3, 1), (0, 0, left, left)).unfold(2, wide, right)
            places = columns.permute(0, 1, 2, 4, 3).flatten(3, 4).contiguous().permute(0, 3, 1, 2)
            weight = self.conv.weight.permute(0, 3, 1, 2).flatten(1, 2).unsqueeze(3)
            return F.conv2d(places, weight, self.conv.bias, stride=(down, 1), padding=(above, 0))

    return FoldedWindow
