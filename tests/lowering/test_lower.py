"""Lowering: what becomes a kernel, what a view, what is refused, and that the numbers stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.flow import capture, flow
from tests.programs import PROGRAMS
from workbench.ground import errors
from workbench.ir import KernelGraph, RecordFormatError
from workbench.lowering.fusion_rules import RULES
from workbench.lowering.lower import lower
from workbench.operators.host.run_graph import run_nodes
from workbench.operators.tensors.element_types import to_dtype


def lowered(fn: Any, *inputs: torch.Tensor) -> KernelGraph:
    """Lowered, after making sure that the lowered nodes compute what `fn` does and the order of kernels is one."""
    captured = capture(fn, inputs)
    graph = lower(captured.graph)
    check_structure(graph)
    given = dict(zip((i.value for i in captured.graph.inputs), [*inputs, *captured.live()], strict=True))
    known = run_nodes([item.node for item in graph.nodes], given)
    found = captured.rebuild([known[value] for value in captured.graph.outputs])
    torch.testing.assert_close(found, fn(*inputs), rtol=1e-5, atol=1e-5)
    return graph


def check_structure(graph: KernelGraph) -> None:
    """Each node in one kernel or a view; each kernel makes what others read, all of one shape; order is causal."""
    in_kernels = [name for kernel in graph.kernels for name in kernel.nodes]
    assert len(in_kernels) == len(set(in_kernels))
    assert set(in_kernels) == {item.node.name for item in graph.nodes if item.route != "view"}
    assert all(bool(item.kernel) == (item.route != "view") for item in graph.nodes)
    bases = graph.bases
    assert not set(bases.values()) & set(bases)
    ready = {given.value for given in graph.captured.inputs}
    read = {*graph.captured.outputs, *bases.values(), *(value for each in graph.kernels for value in each.inputs)}
    for kernel in graph.kernels:
        assert len({graph.types[value].shape for value in kernel.outputs}) == 1
        assert set(kernel.outputs) <= read
        assert {bases.get(value, value) for value in kernel.inputs} <= ready
        ready |= set(kernel.outputs)
    assert {bases.get(value, value) for value in graph.captured.outputs} <= ready
    assert len({kernel.name for kernel in graph.kernels}) == len(graph.kernels)


def kinds(graph: KernelGraph) -> list[str]:
    return [kernel.kind for kernel in graph.kernels]


def names(graph: KernelGraph) -> list[str]:
    return [kernel.name for kernel in graph.kernels]


def refusals(graph: KernelGraph) -> dict[tuple[str, str], str]:
    return {(f.producer, f.consumer): f.reason for f in graph.fusions if not f.fused}


@pytest.mark.test_all(but=6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_lowered_programs_compute_the_same_and_survive_json(name: str) -> None:
    program = PROGRAMS[name]
    fn = program.build()
    captured = capture(fn, program.inputs(), program.kwargs())
    graph = lower(captured.graph)
    check_structure(graph)
    assert KernelGraph.from_json(graph.to_json()) == graph
    assert {item.route for item in graph.nodes} <= {"automatic", "view"}
    fresh, options = program.inputs(seed=5), program.kwargs(seed=5)
    leaves = captured.values(fresh, options)
    given = dict(zip((i.value for i in captured.graph.inputs), leaves, strict=True))
    known = run_nodes([item.node for item in graph.nodes], given)
    found = captured.rebuild([known[value] for value in captured.graph.outputs])
    torch.testing.assert_close(found, fn(*fresh, **options), rtol=1e-5, atol=1e-5)
    for item in graph.nodes:
        for value in item.node.results:
            assert graph.types[value].shape == tuple(known[value].shape)
            assert to_dtype(graph.types[value].dtype) == known[value].dtype
    for value in captured.graph.outputs:
        assert graph.types[value].strides == captured.graph.types[value].strides


ONE_KERNEL = {
    "softmax_last": "reduction",
    "softmax_first": "reduction",
    "softmax_middle": "reduction",
    "log_softmax": "reduction",
    "layernorm": "reduction",
    "rmsnorm": "reduction",
    "rmsnorm_written_out": "reduction",
    "var_last": "reduction",
    "mean_two_dims": "reduction",
    "max_all": "reduction",
    "gelu_tanh": "elementwise",
    "chain_of_ten": "elementwise",
    "add_broadcast": "elementwise",
    "matmul_bias_gelu": "contraction",
    "linear": "contraction",
    "both_transposed": "contraction",
    "bmm": "contraction",
}


@pytest.mark.parametrize(("name", "kind"), ONE_KERNEL.items())
def test_programs_that_are_one_kernel(name: str, kind: str) -> None:
    program = PROGRAMS[name]
    graph = lower(capture(program.build(), program.inputs()).graph)
    assert kinds(graph) == [kind]
    assert all(fusion.fused for fusion in graph.fusions)


def test_a_decomposition_keeps_its_parents_origin() -> None:
    graph = lowered(lambda x: torch.softmax(x, -1), torch.randn(3, 4))
    (parent,) = graph.captured.nodes
    assert len(graph.nodes) == 5
    assert all(item.node.origin == parent.origin and item.parent == "softmax" for item in graph.nodes)
    assert all(item.rule == "aten.softmax.int" for item in graph.nodes)
    assert names(graph) == ["k0_softmax"]


def test_the_feed_forward_says_why_its_hidden_activation_is_stored() -> None:
    program = PROGRAMS["ffn_residual"]
    graph = lower(capture(program.build(), program.inputs()).graph)
    assert names(graph) == ["k0_linear_gelu", "k1_linear_add"]
    (reason,) = [reason for (_, consumer), reason in refusals(graph).items() if consumer == "linear_1.mm"]
    assert "a second product needs whole rows of the first one's result" in reason


def test_views_cost_no_kernel_and_resolve_to_what_lies_in_memory() -> None:
    graph = lowered(lambda x: x.t()[1:].unsqueeze(0).transpose(1, 2), torch.randn(6, 5))
    assert graph.kernels == ()
    (output,) = graph.captured.outputs
    assert {view.base for view in graph.views} == {"x"}
    assert (graph.types[output].shape, graph.types[output].strides, graph.types[output].offset) == (
        (1, 6, 4),
        (4, 5, 1),
        1,
    )


def test_every_edge_between_computing_nodes_has_one_decision() -> None:
    graph = lowered(PROGRAMS["mlp"].build(), *PROGRAMS["mlp"].inputs())
    computing = [item.node for item in graph.nodes if item.route != "view"]
    maker = {value: node.name for node in computing for value in node.results}
    edges = {(maker[v], node.name) for node in computing for v in node.operands if v in maker}
    assert {(f.producer, f.consumer) for f in graph.fusions} == edges
    assert len(graph.fusions) == len(edges)
    rules = {rule.name for rule in RULES}
    assert {f.rule for f in graph.fusions} <= rules and all(f.reason for f in graph.fusions)
    kernel_of = {item.node.name: item.kernel for item in graph.nodes}
    assert all(f.fused == (kernel_of[f.producer] == kernel_of[f.consumer]) for f in graph.fusions)


def test_a_value_needed_outside_is_not_fused_away() -> None:
    graph = lower(
        capture(lambda x: (h := x * 2, h.sum(1)), (torch.randn(4, 4),)).graph, fusion={"off": ["several results"]}
    )
    assert len(graph.kernels) == 2
    assert "the result is also an output" in refusals(graph)[("mul", "sum")]


def test_a_value_read_by_two_kernels_is_made_once() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        h = torch.relu(x)
        return h @ w + h

    graph = lowered(fn, torch.randn(4, 4), torch.randn(4, 4))
    assert kinds(graph) == ["elementwise", "contraction"]
    assert len(refusals(graph)) == 2


def test_a_diamond_around_a_kernel_makes_no_cycle() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        a = x @ w
        return torch.softmax(a * 2, -1) + torch.relu(a)

    assert kinds(lowered(fn, torch.randn(5, 5), torch.randn(5, 5)))[0] == "contraction"


def test_an_epilogue_whose_operand_needs_the_product_stays_outside() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        a = x @ w
        return a + a @ w

    graph = lowered(fn, torch.randn(5, 5), torch.randn(5, 5))
    assert kinds(graph) == ["contraction", "contraction"]
    assert graph.kernels[1].nodes == ("matmul_1", "add")


def test_a_smaller_shape_is_not_computed_again_for_each_row() -> None:
    graph = lowered(lambda x, b: x + torch.exp(b), torch.randn(8, 4), torch.randn(4))
    assert len(graph.kernels) == 2
    assert "differ" in refusals(graph)[("exp", "add")]


KERNELS: dict[str, tuple[Any, list[tuple[int, ...]], list[str]]] = {
    "a reduced result broadcast the other way": (lambda x: x / x.sum(1), [(6, 6)], ["reduction", "elementwise"]),
    "a reduced result broadcast over columns": (lambda x: x / x.sum(0), [(6, 6)], ["reduction"]),
    "a reduced result broadcast over rows": (lambda x: x / x.sum(1, keepdim=True), [(6, 6)], ["reduction"]),
    "a sum of all": (lambda x: x / x.sum(), [(6, 6)], ["reduction"]),
    "reductions over different dims": (lambda x: x.sum(0) + x.sum(1), [(6, 6)], ["reduction"] * 2),
    "a reduction of a reduction": (lambda x: x.exp().sum(0).sum(0), [(6, 6)], ["reduction"] * 2),
    "work on a reduced result stays with it": (
        lambda x: torch.sqrt(x.pow(2).mean(-1) + 1e-6) * 3, [(6, 9)], ["reduction"]
    ),
    "work on both sides of a reduction joins it": (
        lambda x, w: torch.softmax(torch.tanh(x) * w, -1) * 2 + 1, [(6, 9), (9,)], ["reduction"]
    ),
    "a copy that is needed": (lambda x: x.t().contiguous(), [(3, 4)], ["elementwise"]),
    "a copy that is not": (lambda x: x.contiguous() * 2, [(3, 4)], ["elementwise"]),
    "a copy for a shape": (lambda x: x.t().reshape(-1) * 2, [(3, 4)], ["elementwise"] * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_fused_into_how_many_kernels(name: str) -> None:
    function, shapes, expected = KERNELS[name]
    assert kinds(lowered(function, *map(torch.randn, shapes))) == expected


def test_kernels_are_not_fused_across_a_view() -> None:
    graph = lowered(lambda x: (x * 2).view(-1).sum(), torch.randn(3, 4))
    assert len(graph.kernels) == 2
    (decision,) = [f for f in graph.fusions if not f.fused]
    assert (decision.producer, decision.consumer, decision.rule) == ("mul", "sum", "never across a view")


@pytest.mark.test_all
def test_a_pointwise_op_after_a_reshape_moves_to_where_its_operand_is_made() -> None:
    """The layers of a transformer are products of matrices between reshapes; what follows them belongs to them."""
    torch.manual_seed(0)
    up, down = torch.nn.Linear(24, 40), torch.nn.Linear(40, 24)
    x = torch.randn(2, 6, 24)
    graph = lowered(lambda x: x + down(torch.nn.functional.gelu(up(x))), x)
    assert kinds(graph) == ["contraction", "contraction"]
    moved = flow(lambda x: x + down(torch.nn.functional.gelu(up(x))), [x])
    moved.assert_matches_eager(torch.randn(2, 6, 24))


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    "stays",
    [
        lambda x, y: (x * 2).view(12) + y.t().reshape(12),
        lambda x, y: (x * 2).view(2, 2, 3) + y.sum(0)[:3],
        lambda x, y: (x * 2).view(2, 6) * y.reshape(2, 6)[:, :1],
        lambda x, y: (x * 2).view(1, 4, 3).transpose(0, 1) + 1,
    ],
)
def test_a_pointwise_op_that_may_not_move_is_right_where_it_is(stays) -> None:
    inputs = [torch.randn(4, 3), torch.randn(3, 4)]
    flow(stays, inputs).assert_matches_eager(*inputs)


@pytest.mark.test_all(but=8)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
    ],
)
def test_matmul_of_any_ranks_is_one_product(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    graph = lowered(lambda a, b: a @ b, torch.randn(left), torch.randn(right))
    assert kinds(graph).count("contraction") == 1


@pytest.mark.test_all
def test_linear_of_any_rank_keeps_its_bias_in_the_products_kernel() -> None:
    layer = nn.Linear(6, 4)
    for shape in ((6,), (5, 6), (2, 5, 6), (2, 1, 5, 6)):
        graph = lowered(layer, torch.randn(shape))
        assert kinds(graph) == ["contraction"]
        assert len(graph.kernels[0].nodes) == 2


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.std(-1),
        lambda x: x.std(),
        lambda x: x.var(),
        lambda x: torch.var(x, dim=(0, 1), correction=2, keepdim=True),
        lambda x: x.min(0).values,
        lambda x: x.min(),
        lambda x: x.amax((0, 1)),
        lambda x: x.amin(),
        lambda x: x.sum((0, 1), keepdim=True),
        lambda x: x.sum(-1, dtype=torch.float64),
        lambda x: x.mean((), keepdim=True),
        lambda x: torch.log_softmax(x, 0, dtype=torch.float64),
        lambda x: x.pow(3) + x.abs() ** 0.5 + x.abs() ** 1.3 + x**-1,
        lambda x: F.layer_norm(x, (4, 6)),
        lambda x: F.rms_norm(x, (6,)),
        lambda x: F.silu(x) + F.hardswish(x),
        lambda x: F.dropout(x, 0.5, training=False) * 2,
        lambda x: x.sum().sum(-1),
    ],
)
def test_formulas_compute_what_pytorch_does(fn: Any) -> None:
    lowered(fn, torch.randn(4, 6))


@pytest.mark.test_all
def test_formulas_with_a_third_operand() -> None:
    x, y, c = torch.randn(4, 5), torch.randn(5, 6), torch.randn(6)
    assert kinds(lowered(lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), c, x, y)).count("contraction") == 1
    lowered(lambda c, x, y: torch.addmm(c, x, y, beta=0), c, x, y)
    lowered(torch.baddbmm, torch.randn(2, 4, 6), torch.randn(2, 4, 5), torch.randn(2, 5, 6))
    lowered(torch.mv, x, torch.randn(5))
    lowered(torch.dot, torch.randn(5), torch.randn(5))


@pytest.mark.test_all(but=8)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.softmax(x, -1),
        lambda x: torch.log_softmax(x, 0),
        lambda x: x.sum(-1),
        lambda x: x.sum(),
        lambda x: x.mean(-1),
        lambda x: x.var(0),
        lambda x: F.layer_norm(x, (300,)),
        lambda x: F.rms_norm(x, (300,)),
        lambda x: F.gelu(x),
        lambda x: F.silu(x),
        lambda x: torch.softmax(x, -1, dtype=torch.float32),
    ],
)
def test_sixteen_bit_floats_are_rounded_once_at_the_end(fn: Any, dtype: torch.dtype) -> None:
    x = (torch.randn(8, 300) + 1).to(dtype)
    captured = capture(fn, (x,))
    graph = lower(captured.graph)
    assert len(graph.kernels) == 1
    known = run_nodes([item.node for item in graph.nodes], {"x": x})
    found = known[graph.captured.outputs[0]]
    assert found.dtype == fn(x).dtype == to_dtype(graph.types[graph.captured.outputs[0]].dtype)
    torch.testing.assert_close(found, fn(x.float()).to(found.dtype), rtol=torch.finfo(dtype).eps, atol=1e-4)


def missing(x: torch.Tensor) -> torch.Tensor:
    a = torch.lgamma(x)
    b = torch.lgamma(a)
    return torch.i0(b)


def test_ops_without_a_route_are_named_all_at_once() -> None:
    graph = capture(missing, (torch.randn(4, 4),)).graph
    with pytest.raises(errors.MissingRoutes) as caught:
        lower(graph, on_missing="error")
    text, line = str(caught.value), missing.__code__.co_firstlineno
    assert f"aten.lgamma.default: 2 node(s), at {__file__}:{line + 1}, {__file__}:{line + 2}" in text
    assert f"aten.i0.default: 1 node(s), at {__file__}:{line + 3}" in text
    assert '@wb.ops.builder("aten.lgamma.default", dialect="math", kind="elementwise")' in text


def test_a_maximum_and_its_place_are_one_kernel() -> None:
    graph = capture(lambda x: tuple(x.max(-1)), (torch.randn(4, 4),)).graph
    kernels = lower(graph, on_missing="error").kernels
    assert [(kernel.kind, set(kernel.outputs)) for kernel in kernels] == [("reduction", set(graph.nodes[0].results))]


def test_a_chain_of_views_after_a_kernel_reads_that_kernels_layout() -> None:
    graph = lowered(lambda x: torch.relu(x.t()).t()[1].unsqueeze(0), torch.randn(5, 3))
    (output,) = graph.captured.outputs
    (made,) = graph.kernels[0].outputs
    assert graph.bases[output] == made
    assert graph.types[made].strides == (1, 3)
    assert (graph.types[output].strides, graph.types[output].offset) == ((3, 1), 3)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"on_missing": "ignore"}, errors.BadOption),
        ({"fusion": {"softmax": False}}, errors.FusionError),
        ({"prefer": "tossa"}, errors.BadOption),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception]) -> None:
    graph = capture(lambda x: x + 1, (torch.randn(2),)).graph
    with pytest.raises(error, match=next(iter(options))):
        lower(graph, **options)


def test_a_result_without_elements_needs_no_kernel() -> None:
    assert not lower(capture(lambda x: x + 1, (torch.randn(0, 3),)).graph).kernels


def test_mutated_values_are_kept() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.exp()

    graph = lower(capture(fn, (torch.randn(3),)).graph)
    (mutation,) = graph.captured.mutations
    assert mutation.value in {value for kernel in graph.kernels for value in kernel.outputs}


@pytest.mark.test_all
def test_a_copy_that_nobody_can_tell_from_the_original_is_none() -> None:
    """Dropout in eval mode is a clone; between a product and its activation it would cost a way to DRAM and back."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(20, 30), torch.nn.Dropout(), torch.nn.ReLU(), torch.nn.Dropout()
    ).eval()
    x = torch.randn(7, 20)
    made = flow(layers, [x])
    assert kinds(made.lowered)[0] == "contraction"
    made.assert_matches_eager(torch.randn(7, 20))


def test_a_clone_that_is_returned_has_memory_of_its_own() -> None:
    x = torch.randn(4, 5)
    made = flow(lambda x: x.clone().view(-1), [x])
    made.assert_matches_eager(x)
    assert made.run(x).untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ("aten.cosj.default", "did you mean aten.cos"),
        ("aten.add.Nope", "aten.add has no overload 'Nope'; its overloads are aten.add.Tensor"),
        ("nowhere.op.default", "define the op first"),
        ("aten.add", "calls no overload of an operator"),
    ],
)
def test_a_graph_from_elsewhere_that_names_an_unknown_op_is_refused(op: str, said: str) -> None:
    graph = capture(lambda x: x + 1, (torch.ones(3),)).graph
    strange = replace(graph, nodes=tuple(replace(node, op=op) for node in graph.nodes))
    with pytest.raises(errors.UnknownOverload, match=said):
        lower(strange)


def test_a_graph_from_elsewhere_that_names_an_unknown_element_type_is_refused() -> None:
    graph = capture(lambda x: x + 1, (torch.ones(3),)).graph
    strange = replace(graph, types={name: replace(kind, dtype="f99") for name, kind in graph.types.items()})
    with pytest.raises(RecordFormatError, match="'f99', which PyTorch does not have"):
        lower(strange)
