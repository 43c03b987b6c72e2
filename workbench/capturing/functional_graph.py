"""Makes an exported graph functional: changes in place become values, and no op is taken apart.

Changes in place of elements that overlap in memory are refused, as PyTorch refuses them when it has numbers. Without
data PyTorch does not look for such overlaps, and the functional graph would give numbers where the call raises. It
would also give wrong numbers for calls that PyTorch accepts: a fill of an expanded row, columns that are moved onto
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, combinations, dropwhile
from typing import Any, cast

import torch
from torch import fx
from torch.export import ExportedProgram

from workbench.capturing.result_aliases import itself
from workbench.capturing.tensor_copies import lies
from workbench.ground import errors
from workbench.ground.environment.call_sites import place_text
from workbench.ground.torch_inside.autograd_inside import autocast_in_graphs, data_reader
from workbench.ground.torch_inside.capture_settings import views_around_changes
from workbench.ground.torch_inside.functorch_layers import TRANSFORMS, batch_dim_remover
from workbench.ground.torch_inside.operator_objects import (
    HigherOrderOperator,
    by_name,
    is_overload,
    is_packet,
    op_name,
    schema_if_op,
    schema_of_op,
    without_autograd_kernels,
)
from workbench.ground.torch_inside.torch_export import exporting_here_alone, onednn_as_it_is
from workbench.ground.torch_inside.whole_ops import quickly_kept_whole
from workbench.operators.tensors.tensor_memory import lies_on_itself, refuse_unreadable_in, share_elements


def functional(name: str, exported: ExportedProgram) -> ExportedProgram:
    """Returns the program without changes in place; changes of its inputs are listed as mutations.

    A custom op that changes arguments becomes one that returns them. PyTorch has two forms for that; the older form is
    used, with views around the call: the newer form would hide the views in the call's arguments.
    """
    refuse_gradients(name, exported.graph_module)
    _refuse_reshaped(name, exported)
    _refuse_overlapping(name, exported.graph)
    refuse_unreadable_in(exported, name)
    _without_assumptions(exported.graph_module)
    _with_casts(exported.graph_module, torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)
    onednn, apart = onednn_as_it_is(exported.graph_module), without_autograd_kernels(_WRONGLY_TAKEN_APART)
    with views_around_changes(), quickly_kept_whole(), exporting_here_alone(), onednn, apart:
        made = cast("ExportedProgram", cast(Any, exported).run_decompositions({}))
    _without_unasked(made.graph)
    return made


def refuse_gradients(name: str, gm: fx.GraphModule) -> None:
    """Refuses `torch.func.grad` and its like, which Dynamo and export take into the graph."""
    graphs = (each.graph for each in gm.modules() if isinstance(each, fx.GraphModule))
    all_nodes = chain.from_iterable(each.nodes for each in graphs)
    nodes = list(dropwhile(lambda node: node.name not in TRANSFORMS, all_nodes))
    if nodes:
        places = (place_text(node.meta.get("stack_trace")) for node in nodes)
        raise errors.GradientsInside(name, TRANSFORMS[nodes[0].name], next(filter(None, places), ""))


def _without_unasked(graph: fx.Graph) -> None:
    """Leaves out the gradients that `output_mask` excludes: without data PyTorch returns that of a batch norm
    nevertheless."""
    for node in graph.nodes:
        if schema_if_op(node.target) is None:
            continue
        if (mask := by_name(node.target, node.args, node.kwargs).get("output_mask")) is not None:
            made = zip(node.meta["val"], cast("Sequence[bool]", mask), strict=True)
            node.meta["val"] = tuple(each if wanted else None for each, wanted in made)


_WRONGLY_TAKEN_APART = (torch.ops.aten.multilabel_margin_loss_forward.default, torch.ops.aten.softshrink.default)
"""Ops that PyTorch takes apart, wrongly, even if no op is to be taken apart. The ops in place of the first read class 0
for labels after the first -1; those in place of the second round the limit to 16 bits."""


def _without_assumptions(gm: torch.fx.GraphModule) -> None:
    """Removes export's assertions of the types before autocast; the record has the types of the graph itself."""
    for part in gm.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        for node in part.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_tensor_metadata.default):
            part.graph.erase_node(node)
        part.recompile()


_HIDE_CASTS = ("inner", "tensordot", "einsum", "linalg_multi_dot", "chain_matmul")
"""Ops that stay whole in a graph, although autocast casts the operands of the products inside them."""


def _with_casts(gm: torch.fx.GraphModule, kind: torch.dtype | None) -> None:
    """Writes out the casts that autocast to `kind` makes inside of ops; in regions of autocast inside the graph,
    too."""
    made = False
    for node in [node for node in gm.graph.nodes if node.op == "call_function"]:
        if str(node.target).endswith("wrap_with_autocast"):
            device, dtype, enabled, _, part = node.args[:5]
            inner = kind if device != "cpu" else dtype if enabled else None
            _with_casts(cast("torch.fx.GraphModule", getattr(gm, part.target)), inner)
        elif kind is not None and op_name(node.target) in _HIDE_CASTS:
            with gm.graph.inserting_before(node):
                node.args = fx.map_arg(node.args, lambda given: _cast(gm, given, kind))
            made = True
    if made:
        gm.recompile()


def _cast(gm: torch.fx.GraphModule, given: torch.fx.Node, kind: torch.dtype) -> torch.fx.Node:
    value = given.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return given
    if value.dtype == kind:
        return given
    made = gm.graph.call_function(torch.ops.aten.to.dtype, (given, kind))
    made.meta = {name: meta for name, meta in given.meta.items() if name != "val"} | {"val": value.to(kind)}
    return made


_WRAPPERS = ("tag_activation_checkpoint", "wrap")
"""Ops that only run the graph in their arguments: their other arguments matter to gradients alone."""


def unwrapped(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Replaces each wrapper in Dynamo's graph, such as `torch.utils.checkpoint`, by a call of the wrapped part."""
    for node in list(gm.graph.nodes):
        if isinstance(node.target, HigherOrderOperator) and node.target.name() in _WRAPPERS:
            body = cast("torch.fx.Node", node.args[0])
            with gm.graph.inserting_before(node):
                called = gm.graph.call_module(str(body.target), node.args[1:])
            called.meta = dict(node.meta)
            node.replace_all_uses_with(called)
            gm.graph.erase_node(node)
            gm.recompile()
    return gm


def in_atens_words(gm: fx.GraphModule) -> fx.GraphModule:
    """Replaces the calls in the graph that PyTorch cannot make functional or whose result type it gets wrong."""
    found = {node: substitute(node.target) for node in gm.graph.nodes if node.op == "call_function"}
    found = {node: target for node, target in found.items() if target is not node.target}
    for node, target in found.items():
        node.target = target
    if found:
        gm.recompile()
    return gm


def substitute(target: Any) -> Any:
    """Returns the op to call in place of `target`, mostly `target` itself.

    Views among the prims become the ATen ops that they stand for: PyTorch only knows for ATen's views that they share
    memory.
    """
    if is_packet(target):
        default = getattr(target, "default", None)
        found = substitute(default)
        return target if found is default else found
    if (
        is_overload(target)
        and target.namespace == "prims"
        and any(each.alias_info is not None for each in schema_of_op(target).returns)
    ):
        return target.impl_aten
    return _SUBSTITUTES.get(target, target)


def _threshold_backward(gradient: torch.Tensor, x: torch.Tensor, threshold: float) -> torch.Tensor:
    """Casts both operands to their common type, the result's type: without data PyTorch gives the result the gradient's
    type.

    `_dropout_backward` corrects the same fault.
    """
    kind = torch.result_type(gradient, x)
    return torch.ops.aten.threshold_backward.default(gradient.to(kind), x.to(kind), threshold)


def _dropout_backward(gradient: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    return gradient * mask * scale


def _instance_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    var: torch.Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> torch.Tensor:
    """Writes the changes of the running statistics as ops: the schema of `instance_norm` does not mention these
    changes, so export would lose them."""
    if use_input_stats and mean is not None and var is not None:
        own_var, own_mean = torch.var_mean(x, list(range(2, x.dim())))
        mean.copy_(mean * (1 - momentum) + momentum * own_mean.mean(0))
        var.copy_(var * (1 - momentum) + momentum * own_var.mean(0))
        mean = var = None
    return torch.ops.aten.instance_norm.default(
        x, weight, bias, mean, var, use_input_stats, momentum, eps, cudnn_enabled
    )


def _of_module(
    x: torch.Tensor,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """`_instance_norm` with the arguments of `torch.nn.functional.instance_norm`."""
    return _instance_norm(x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


def _enter_autocast(*settings: Any) -> torch.autocast:
    """Enters a region of autocast; an export only notes the call that Dynamo writes for `with torch.autocast(...)`.

    Outside of the region, a cast of one of its results would seem to change nothing, and export would drop the cast.
    """
    entered = torch.autocast(*settings)
    entered.__enter__()
    if (inside := _ENTERED.get()) is not None:
        inside.append(entered)
    return entered


def _exit_autocast(entered: torch.autocast) -> None:
    if (inside := _ENTERED.get()) is not None:
        inside.remove(entered)
    entered.__exit__(None, None, None)


_ENTERED: ContextVar[list[torch.autocast] | None] = ContextVar("regions of autocast that an export is in", default=None)


@contextmanager
def autocast_is_left() -> Generator[None]:
    """Leaves the regions of autocast that an export entered but did not leave because of an error."""
    before = _ENTERED.set(inside := [])
    try:
        yield
    finally:
        for entered in reversed(inside):
            entered.__exit__(None, None, None)
        _ENTERED.reset(before)


def _without_batch_dim(x: torch.Tensor, level: int, size: int, place: int) -> torch.Tensor:
    """Moves the batch dim of a `vmap` result to the place in `out_dims`: export itself can only move it to place 0."""
    return _REMOVE_BATCH_DIM(x, level, size, 0).movedim(0, place)


_REMOVE_BATCH_DIM = batch_dim_remover()
_ENTER, _EXIT = autocast_in_graphs()
_SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    _ENTER: _enter_autocast,
    _EXIT: _exit_autocast,
    torch.ops.aten.threshold_backward.default: _threshold_backward,
    torch.ops.aten.native_dropout_backward.default: _dropout_backward,
    torch.instance_norm: _instance_norm,
    _REMOVE_BATCH_DIM: _without_batch_dim,
    data_reader(): torch.ops.aten.detach.default,  # `x.data`
    torch.nn.functional.instance_norm: _of_module,
}


def _refuse_reshaped(name: str, exported: ExportedProgram) -> None:
    for node in exported.graph.nodes:
        if torch.Tag.inplace_view not in getattr(node.target, "tags", ()) or not node.args:
            continue
        changed = node.args[0]
        if isinstance(changed, torch.fx.Node) and itself(changed).op == "placeholder":
            raise errors.ReshapedInput.by(name, str(node.target), place_text(node.meta.get("stack_trace")))


def _refuse_overlapping(name: str, graph: fx.Graph) -> None:
    """Raises for the first op in place that writes an element twice, or reads elements that it also writes."""
    for node in graph.nodes:
        schema = schema_if_op(node.target) if node.op == "call_function" else None
        if schema is None or not schema.is_mutable:
            continue
        given = list(_tensors_given(node, schema.arguments))
        if getattr(node.target, "namespace", "aten") not in ("aten", "prims"):
            _refuse_changed_twice(name, node, given)
        for tensor in (tensor for argument, tensor in given if _writes(argument)):
            if lies_on_itself(tensor) and not _is_given(node):
                raise _refused(name, node, "in which several elements are the same memory")
            if _is_elementwise(node.target) and any(_overlap_in_part(tensor, other) for _, other in given):
                raise _refused(name, node, "some of whose elements it also reads at other places")


def _refuse_changed_twice(name: str, node: fx.Node, given: Sequence[tuple[Any, torch.Tensor]]) -> None:
    """Refuses a custom op with two arguments in the same memory, one of which the op changes: the graph passes each as
    a copy, so the op would not see the change in the other."""
    for (argument, tensor), (other, beside) in combinations(given, 2):
        if (_writes(argument) or _writes(other)) and share_elements(tensor, beside):
            where = place_text(node.meta.get("stack_trace"))
            raise errors.SharedElements(
                f"{name} calls {node.target}{f' at {where}' if where else ''} with {argument.name} and {other.name} in "
                "the same memory, and it changes one of them. In a graph each is a value of its own: give a copy of "
                "one of them, `.clone()`"
            )


def _writes(argument: Any) -> bool:
    """True if the op changes this argument."""
    return argument.alias_info is not None and argument.alias_info.is_write


def _tensors_given(node: fx.Node, arguments: Sequence[Any]) -> Iterator[tuple[Any, torch.Tensor]]:
    """Each tensor of a call, with the schema's argument that it belongs to."""
    for number, argument in enumerate(arguments):
        given = node.args[number] if number < len(node.args) else node.kwargs.get(argument.name)
        for each in given if isinstance(given, list | tuple) else [given]:
            value = each.meta.get("val") if isinstance(each, fx.Node) else None
            if isinstance(value, torch.Tensor):
                yield argument, value


def _is_elementwise(target: Any) -> bool:
    """True for `copy_` and pointwise ops: in these PyTorch looks for partly overlapping memory."""
    return op_name(target) == "copy_" or torch.Tag.pointwise in target.tags


def _is_given(node: fx.Node) -> bool:
    """True if the op changes an input of the graph: the record's checks refuse such an input later, by its name and
    strides."""
    changed = node.args[0] if node.args else None
    return isinstance(changed, fx.Node) and itself(changed).op == "placeholder"


def _overlap_in_part(written: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two different views share elements. PyTorch raises for dense views; its results for others depend on the
    order in which it walks the elements."""
    if other is written or (lies(written) == lies(other) and not lies_on_itself(written)):
        return False
    return share_elements(written, other)


def _refused(name: str, node: fx.Node, what: str) -> errors.SharedElements:
    where = place_text(node.meta.get("stack_trace"))
    return errors.SharedElements(
        f"{name} calls {node.target}{f' at {where}' if where else ''} on a tensor {what}. A graph "
        "of values cannot say that, and PyTorch refuses it, or its numbers follow from its order of work. Give a copy: "
        "`.clone()`"
    )
