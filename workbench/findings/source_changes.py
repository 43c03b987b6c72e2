"""Changes of the person's own lines that can be tried on a copy of what they traced."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from simulator.did_you_mean import did_you_mean, sentences
from workbench.errors import BadOption
from workbench.findings.batch_norms import FOLDED_BATCH_NORMS, with_batch_norms_folded
from workbench.findings.module_copies import copied_module, has_hooks, with_submodule
from workbench.ir import AtenGraph

if TYPE_CHECKING:
    from torch import nn

CHANNELS_LAST = "channels last"
"""Images, weights and activations with the channels innermost."""
EVALUATION = "evaluation mode"
"""All modules as `eval()` has them."""
FOLDED_WINDOW = "folded window"
"""`folded window:path`: the convolution at that path as one over the rows or columns of its window, laid beside each
other."""


def changed(
    name: str,
    target: Callable[..., object],
    inputs: Sequence[object],
    kwargs: Mapping[str, object],
    graph: AtenGraph,
) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
    """The call with a change made to copies of what it is given; what is given stays as it is. `graph` is
    what was captured of it."""
    kind, _, path = name.partition(":")
    if kind == FOLDED_WINDOW:
        return _folded(target, path), tuple(inputs), dict(kwargs)
    if kind == CHANNELS_LAST:
        return _channels_last(target, inputs, kwargs)
    if kind == FOLDED_BATCH_NORMS:
        return with_batch_norms_folded(target, graph), tuple(inputs), dict(kwargs)
    if kind == EVALUATION:
        return copied_module(EVALUATION, target).eval(), tuple(inputs), dict(kwargs)
    hint = did_you_mean(name, [CHANNELS_LAST, EVALUATION, FOLDED_BATCH_NORMS, FOLDED_WINDOW])
    known = (
        f"Known are {CHANNELS_LAST!r}, {EVALUATION!r}, {FOLDED_BATCH_NORMS!r} and '{FOLDED_WINDOW}:<path of a Conv2d>'"
    )
    raise BadOption(sentences(f"there is no change {name!r}{hint}", known))


def call_of(name: str, written: str) -> str:
    """The call that tries a change on a copy, and beside it what one would write in the model itself."""
    yours = "in your code, model being what was traced" if "model" in written else "in your code"
    return f"j.changed({name!r})  # {yours}: {written}"


def _channels_last(
    target: Callable[..., object], inputs: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
    import torch
    from torch import nn
    from torch.utils import _pytree

    def laid(value: object) -> object:
        images = isinstance(value, torch.Tensor) and value.dim() == 4
        return value.detach().clone(memory_format=torch.channels_last) if images else value  # type: ignore[union-attr]

    function = target
    if isinstance(target, nn.Module):
        function = copy.deepcopy(target).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    given, keyed = cast("tuple[Any, Any]", _pytree.tree_map(laid, (tuple(inputs), dict(kwargs))))
    return cast("Callable[..., object]", function), given, keyed


def _folded(target: Callable[..., object], path: str) -> nn.Module:
    made = copied_module(f"{FOLDED_WINDOW}:{path}", target)
    try:
        conv = made.get_submodule(path)
    except AttributeError:
        raise BadOption(f"'{FOLDED_WINDOW}:{path}': there is no module at {path!r} in what was traced") from None
    if not folds(conv):
        raise BadOption(
            f"'{FOLDED_WINDOW}:{path}': what stands there is of the class {type(conv).__name__}; expected a plain "
            "Conv2d, without hooks, of one group over images with zeros around them, whose window has no holes"
        )
    return with_submodule(made, path, folded_window(cast("nn.Conv2d", conv)))


def folds(module: object) -> bool:
    """Whether `folded_window` takes it: a convolution over images, zeros around them, windows without holes, and
    nothing else: what a subclass or a hook does would be lost."""
    from torch import nn

    return (
        isinstance(module, nn.Conv2d)
        and type(module) is nn.Conv2d
        and not has_hooks(module)
        and module.groups == 1
        and module.padding_mode == "zeros"
        and module.dilation == (1, 1)
        and not isinstance(module.padding, str)
    )


def folded_window(conv: nn.Conv2d) -> nn.Module:
    """The same convolution over images whose channels are its window's rows as well, or its columns: so many more.

    What lies beside each other is folded: rows, or, where the channels are innermost, the columns, each of which brings
    all its channels along. They are copied once for each place of the window that they lie in, in long runs. For that a
    product's depth is channels times rows or columns, and an array with many rows to fill is filled so much further.
    """
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn

    class FoldedWindow(nn.Module):
        def __init__(self) -> None:
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

    return FoldedWindow()
