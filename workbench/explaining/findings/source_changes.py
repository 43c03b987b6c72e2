"""Changes of the user's own lines that can be tried on a copy of the traced function."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from simulator.did_you_mean import did_you_mean, sentences
from workbench.explaining.findings.batch_norms import FOLDED_BATCH_NORMS, with_batch_norms_folded
from workbench.explaining.findings.folded_windows import folded_window, folds
from workbench.explaining.findings.int8_weights import INT8_WEIGHTS, with_int8_weights
from workbench.explaining.findings.module_copies import copied_module, submodule_at, with_submodule
from workbench.explaining.findings.same_numbers import refuse_other_numbers, results_of_copy
from workbench.ground.errors import BadOption
from workbench.ir import AtenGraph

if TYPE_CHECKING:
    import torch
    from torch import nn

BFLOAT16 = "bfloat16"
"""Name of the change that makes float weights and inputs bfloat16: half the bytes of f32, and other numbers."""
CHANNELS_LAST = "channels last"
"""Name of the change that makes the channels of images, weights and activations innermost."""
EVALUATION = "evaluation mode"
"""Name of the change that puts all modules in evaluation mode, as `eval()` does."""
FOLDED_WINDOW = "folded window"
"""Name of a change of one convolution, as in `folded window:path`: the rows or columns of the window of the convolution
at that path become channels."""
Call: TypeAlias = tuple[Callable[..., object], tuple[object, ...], dict[str, object]]
"""A callable and its arguments."""
_OF_THE_WHOLE = (BFLOAT16, CHANNELS_LAST, EVALUATION, FOLDED_BATCH_NORMS, INT8_WEIGHTS)
"""The changes that have no path."""


def changed(
    name: str,
    target: Callable[..., object],
    inputs: Sequence[object],
    kwargs: Mapping[str, object],
    graph: AtenGraph,
) -> Call:
    """The call with a change made on copies of the function and its arguments; the originals stay unchanged. `graph` is
    the captured function."""
    from workbench.operators.aten.overload_names import draws_lots

    kind, _, path = name.partition(":")
    _refuse_misnamed(name, target)
    if kind in (FOLDED_WINDOW, FOLDED_BATCH_NORMS):
        folded = _folded(target, path) if kind == FOLDED_WINDOW else with_batch_norms_folded(target, graph)
        drawn = draws_lots(node.op for node in graph.nodes)
        refuse_other_numbers(name, target, folded, inputs, kwargs, drawn=drawn)
        return folded, tuple(inputs), dict(kwargs)
    if kind == CHANNELS_LAST:
        return _channels_last(target, inputs, kwargs)
    if kind == BFLOAT16:
        return _narrowed(target, inputs, kwargs)
    if kind == INT8_WEIGHTS:
        return with_int8_weights(target), tuple(inputs), dict(kwargs)
    return _evaluated(target), tuple(inputs), dict(kwargs)


def _refuse_misnamed(name: str, target: Callable[..., object]) -> None:
    """Raises if the name is no change, if a change of the whole model has a path, or if a change of one module has
    none."""
    kind, colon, path = name.partition(":")
    if kind == FOLDED_WINDOW and not colon:
        near = [f"{FOLDED_WINDOW}:{path}" for path in _paths_to_fold(target)]
        hint = f"; did you mean {near[0]!r}?" if near else ", of which the traced function has none"
        raise BadOption(f"{name!r} is a change of one convolution: name it, '{FOLDED_WINDOW}:<path of a Conv2d>'{hint}")
    if kind in _OF_THE_WHOLE and colon:
        raise BadOption(
            f"{name!r}: {kind!r} is a change of the whole model, not of the part {path!r}; leave {path!r} out"
        )
    if kind not in (FOLDED_WINDOW, *_OF_THE_WHOLE):
        hint = did_you_mean(name, [*_OF_THE_WHOLE, FOLDED_WINDOW])
        known = f"The changes are {', '.join(map(repr, _OF_THE_WHOLE))} and '{FOLDED_WINDOW}:<path of a Conv2d>'"
        raise BadOption(sentences(f"there is no change {name!r}{hint}", known))


def _paths_to_fold(target: Callable[..., object]) -> list[str]:
    """The paths of a module's convolutions that `folded window` takes."""
    from torch import nn

    if not isinstance(target, nn.Module):
        return []
    modules = cast("list[tuple[str, nn.Module]]", [*target.named_modules()])
    return [path for path, each in modules if folds(each)]


def _evaluated(target: Callable[..., object]) -> nn.Module:
    made = copied_module(EVALUATION, target)
    if not any(each.training for each in made.modules()):
        raise BadOption(f"{EVALUATION!r}: all modules of the traced model are in evaluation mode already")
    return made.eval()


def call_of(name: str, written: str) -> str:
    """The call that tries a change on a copy, and the same change as a line in the model itself."""
    yours = "in your code, where model is the traced one" if "model" in written else "in your code"
    return f"j.changed({name!r})  # {yours}: {written}"


def _channels_last(target: Callable[..., object], inputs: Sequence[object], kwargs: Mapping[str, object]) -> Call:
    import torch
    from torch import nn

    from workbench.ground.torch_inside import pytrees

    def laid(value: object) -> object:
        images = isinstance(value, torch.Tensor) and value.dim() == 4
        return value.detach().clone(memory_format=torch.channels_last) if images else value  # type: ignore[union-attr]

    function = target
    if isinstance(target, nn.Module):
        function = copy.deepcopy(target).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    held = [*_weights(target), *pytrees.tree_leaves((tuple(inputs), dict(kwargs)))]
    images = [each for each in held if isinstance(each, torch.Tensor) and each.dim() == 4]
    if all(each.is_contiguous(memory_format=torch.channels_last) for each in images):
        told = "has its channels outermost" if images else "has four dims"
        raise BadOption(f"{CHANNELS_LAST!r}: none of the tensors that the function is given, or has as weights, {told}")
    given, keyed = cast("tuple[Any, Any]", pytrees.tree_map(laid, (tuple(inputs), dict(kwargs))))
    return cast("Callable[..., object]", function), given, keyed


def _weights(target: Callable[..., object]) -> list[torch.Tensor]:
    from torch import nn

    return [*target.parameters(), *target.buffers()] if isinstance(target, nn.Module) else []


def _narrowed(target: Callable[..., object], inputs: Sequence[object], kwargs: Mapping[str, object]) -> Call:
    import torch
    from torch import nn

    from workbench.ground.torch_inside import pytrees

    def narrow(value: object) -> object:
        wide = isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float64)
        return value.detach().bfloat16() if wide else value  # type: ignore[union-attr]

    function = copied_module(BFLOAT16, target).bfloat16() if isinstance(target, nn.Module) else target
    given, keyed = cast("tuple[Any, Any]", pytrees.tree_map(narrow, (tuple(inputs), dict(kwargs))))
    before, after = (pytrees.tree_leaves(each) for each in ((tuple(inputs), dict(kwargs)), (given, keyed)))
    floats = (each for each in _weights(target) if each.is_floating_point())
    same = all(old is new for old, new in zip(before, after, strict=True))
    if same and all(each.dtype == torch.bfloat16 for each in floats):
        where = "weights and inputs" if isinstance(target, nn.Module) else "inputs"
        raise BadOption(f"{BFLOAT16!r}: none of the {where} is a tensor of float32 or float64, or a container of some")
    results_of_copy(BFLOAT16, function, given, keyed)  # raises where PyTorch does
    return function, given, keyed


def _folded(target: Callable[..., object], path: str) -> nn.Module:
    made = copied_module(f"{FOLDED_WINDOW}:{path}", target)
    conv = submodule_at(made, path)
    if conv is None:
        raise BadOption(f"'{FOLDED_WINDOW}:{path}': the traced model has no module at {path!r}")
    if not folds(conv):
        raise BadOption(
            f"'{FOLDED_WINDOW}:{path}': the module there is a {type(conv).__name__}; expected a plain Conv2d "
            "without hooks, of one group, with zero padding and without dilation"
        )
    return with_submodule(made, path, folded_window(cast("nn.Conv2d", conv)))
