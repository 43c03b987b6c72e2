"""Nodes that registered builders make: in the kernels of their neighbours, by dialect, and what can go wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, math, tosa

import workbench as wb
from workbench.ground import errors
from workbench.ir import KernelGraph
from workbench.rendering.render import render
from workbench.scheduling.pass_pipeline import reproduce

X, Y = torch.randn(37, 53), torch.randn(37, 53)


pytestmark = pytest.mark.usefixtures("own_scope")


def total(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.logaddexp(x, y) * 2 + 1


def numbers(x: Any, y: Any) -> Any:
    return math.log(arith.addf(math.exp(x), math.exp(y)))


def by_numbers(op: Any) -> Any:
    return op.elementwise(numbers, *op.operands)


def by_tosa(op: Any) -> Any:
    x, y = op.operands
    added = tosa.add(op.type, tosa.exp(x.type, x), tosa.exp(y.type, y))
    return tosa.log(op.type, added)


def registered(builder: Callable[..., object], **options: Any) -> None:
    wb.ops.builder("aten.logaddexp.default", **{"dialect": "math", "kind": "elementwise", **options})(builder)


@pytest.mark.test_all
def test_a_builders_node_fuses_with_its_neighbours_by_its_kind():
    registered(by_numbers)
    journey = wb.trace(total, X, Y)
    assert [kernel.kind for kernel in journey.lowered.record.kernels] == ["elementwise"]
    assert list(journey.lowered.table.route) == ["builder", "automatic", "automatic"]
    assert journey.check().ok and journey.check(stage="rendered").ok
    journey.simulated.trace.invariants()


@pytest.mark.test_all
def test_an_opaque_builders_node_stands_alone():
    registered(by_numbers, kind="opaque")
    journey = wb.trace(total, X, Y)
    assert [kernel.kind for kernel in journey.lowered.record.kernels] == ["opaque", "elementwise"]
    assert "opaque" in journey.lowered.fusions.reason[0]
    assert journey.check().ok


@pytest.mark.test_all
def test_a_builders_node_runs_before_a_reduction_and_after_a_product():
    registered(by_numbers)

    def both(a: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.logaddexp(a @ b, y), torch.logaddexp(y, y + 1).sum(-1)

    journey = wb.trace(both, torch.randn(37, 20), torch.randn(20, 53), Y)
    assert sorted(kernel.kind for kernel in journey.lowered.record.kernels) == ["contraction", "reduction"]
    assert journey.check(rtol=1e-4, atol=1e-4).ok  # its plain formula loses digits that PyTorch keeps


def test_the_operations_of_a_builder_name_their_node():
    registered(by_numbers)
    journey = wb.trace(total, X, Y)
    (kernel,) = journey.rendered.kernels
    text = kernel.mlir.splitlines()
    made = {name for line, names in kernel.lines.items() for name in names if "math.log" in text[line - 1]}
    assert made == {"logaddexp"}
    assert kernel.record.absorbed == ()
    assert all(
        "logaddexp" in origins
        for origins in journey.simulated.events.origins[journey.simulated.events.kind == "VECTOR"]
    )


@pytest.mark.test_all
def test_one_of_two_dialects_is_preferred_and_tosa_is_lowered_in_a_step_of_its_own():
    registered(by_numbers)
    registered(by_tosa, dialect="tosa")
    first, preferred = wb.trace(total, X, Y), wb.trace(total, X, Y, prefer="tosa")
    assert "tosa." not in first.rendered.kernels[0].mlir and "tosa.exp" in preferred.rendered.kernels[0].mlir
    kernel = preferred.scheduled.kernels[0]
    step = kernel.passes[0]
    assert step.name == "tosa to linalg" and "tosa." not in step.mlir
    assert reproduce(preferred.rendered.kernels[0].mlir, step.pipeline) == step.mlir
    assert preferred.check().ok and preferred.check(stage="rendered").ok
    with pytest.raises(errors.BadOption, match="prefer='tossa': no builder is registered in that dialect"):
        wb.trace(total, X, Y, prefer="tossa")


def test_a_builder_may_use_the_bindings_directly():
    def direct(op: Any) -> Any:
        made = linalg.add(*op.operands, outs=[op.empty()])
        return made

    wb.ops.builder("aten.fmax.default", dialect="linalg", kind="elementwise")(direct)
    journey = wb.trace(lambda x, y: torch.fmax(x, y), X, Y)
    torch.testing.assert_close(journey.run(X, Y), X + Y)


def test_a_builder_registered_again_is_not_confused_with_the_old_one():
    registered(by_numbers)
    assert wb.trace(total, X, Y).check().ok
    wb.ops.drop("aten.logaddexp.default")
    registered(lambda op: op.elementwise(lambda x, y: arith.addf(x, y), *op.operands))
    torch.testing.assert_close(wb.trace(total, X, Y).run(X, Y), (X + Y) * 2 + 1)


def test_a_journey_keeps_what_was_registered_when_it_was_traced():
    with wb.ops.scope():
        registered(by_numbers)
        inside = wb.trace(total, X, Y)
    outside = wb.trace(total, X, Y)
    assert inside.check().ok and inside.lowered.table.route[0] == "builder"
    assert outside.check().ok and outside.lowered.table.route[0] == "automatic"


def test_arguments_come_by_their_name_in_the_schema():
    seen: dict[str, Any] = {}

    def lerp(op: Any) -> Any:
        seen.update(op.arguments)
        weight = op["weight"]
        return op.elementwise(
            lambda a, b: arith.addf(a, arith.mulf(op.number(weight), arith.subf(b, a))), op["self"], op["end"]
        )

    wb.ops.builder("aten.lerp.Scalar", dialect="math", kind="elementwise")(lerp)
    assert wb.trace(lambda x, y: torch.lerp(x, y, 0.25), X, Y).check().ok
    assert list(seen) == ["self", "end", "weight"] and seen["weight"] == 0.25


@pytest.mark.test_all
def test_each_result_of_several_gets_a_kernel_that_makes_no_other():
    def both(op: Any) -> Any:
        low, high = (
            op.elementwise(lambda x, y, make=make: make(x, y), *op.operands)
            for make in (arith.minimumf, arith.maximumf)
        )
        return low, high

    @torch.library.custom_op("buildertest::minmax", mutates_args=())
    def minmax(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.minimum(x, y), torch.maximum(x, y)

    @minmax.register_fake
    def _(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.empty_like(x), torch.empty_like(x)

    wb.ops.builder(minmax, dialect="arith", kind="elementwise")(both)

    def spread(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = minmax(x, y)
        return torch.exp(low), high

    journey = wb.trace(spread, X, Y)
    assert journey.check().ok
    texts = [kernel.mlir for kernel in journey.rendered.kernels]
    assert {("minimumf" in text, "maximumf" in text) for text in texts} == {(True, False), (False, True)}
    (node, _) = journey.captured.record.nodes
    assert node.results == ("minmax.0", "minmax.1")
    assert set(journey.simulated.by_op.node) == {"minmax", "exp"}


def returning(value: object) -> Callable[..., object]:
    return lambda op: value


def two(op: Any) -> Any:
    return op.operands


def failing(op: Any) -> Any:
    raise ValueError("no such thing")


def leaving(op: Any) -> Any:
    sys.exit("bye")


def wrong_shape(op: Any) -> Any:
    kind = ir.RankedTensorType.get([3], op.element)
    return op.empty(kind)


def wrong_dtype(op: Any) -> Any:
    return op.empty(ir.RankedTensorType.get([37, 53], ir.F64Type.get()))


def no_argument(op: Any) -> Any:
    return op["other_one"]


def no_number(op: Any) -> Any:
    return op.elementwise(lambda x, y: None, *op.operands)


def refused_by_mlir(op: Any) -> Any:
    axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 7)
    ir.Operation.create("tosa.reduce_sum", results=[op.type], operands=[op.operands[0]], attributes={"axis": axis})
    return op.operands[0]


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize(
    ("builder", "error", "message"),
    [
        (returning(3), errors.BuilderResult, "returned int (3); expected an MLIR value"),
        (returning(None), errors.BuilderResult, "returned NoneType"),
        (two, errors.BuilderResultCount, "returned 2 results; expected 1"),
        (failing, errors.BuilderFailed, "raised ValueError: no such thing"),
        (leaving, errors.BuilderFailed, "raised SystemExit: bye"),
        (wrong_shape, errors.BuilderResultType, "returned a value of type tensor<3xf32>; expected tensor<37x53xf32>"),
        (wrong_dtype, errors.BuilderResultType, "tensor<37x53xf64>; expected tensor<37x53xf32>"),
        (
            no_argument,
            errors.BuilderFailed,
            "): aten.logaddexp.default has no argument 'other_one'; did you mean 'other'? Its arguments are self,",
        ),
        (no_number, errors.BuilderFailed, "returned NoneType; expected a computed number"),
        (refused_by_mlir, errors.BuilderInvalidMlir, "made an op that MLIR refuses"),
    ],
)
def test_a_builder_that_goes_wrong_is_named_with_its_node(
    builder: Callable[..., object], error: type[Exception], message: str
):
    registered(builder)
    journey = wb.trace(total, X, Y)
    with pytest.raises(error) as caught:
        _ = journey.rendered
    text = str(caught.value)
    assert message in text
    assert f"{__file__}:{builder.__code__.co_firstlineno}" in text
    assert "logaddexp (aten.logaddexp.default" in text and f"{__file__}:{total.__code__.co_firstlineno + 1}" in text


def test_a_lowered_graph_without_its_builder_says_so():
    registered(by_numbers)
    record: KernelGraph = wb.trace(total, X, Y).lowered.record
    wb.ops.drop("aten.logaddexp.default")
    with pytest.raises(errors.RegistrationGone, match=r"logaddexp was lowered for a builder .* in 'math'"):
        render(record)


def test_the_record_gives_the_same_mlir_after_a_round_trip():
    registered(by_numbers)
    journey = wb.trace(total, X, Y)
    again = KernelGraph.from_json(journey.lowered.record.to_json())
    assert render(again) == journey.rendered.record


def product_along(op: Any) -> Any:
    (x,) = op.operands
    rank = ir.RankedTensorType(x.type).rank
    along = op["dim"] % rank
    dims = [ir.AffineExpr.get_dim(axis) for axis in range(rank)]
    gone = [ir.AffineExpr.get_constant(0)] if op["keepdim"] else []
    left = [*dims[:along], *gone, *dims[along + 1 :]]
    maps = [ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, left)]
    kinds = ["reduction" if axis == along else "parallel" for axis in range(rank)]
    iterators = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])
    indexing = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])
    ones = linalg.fill(op.number(1.0), outs=[op.empty()])
    made = linalg.GenericOp([op.type], [x], [ones], indexing, iterators)
    body = made.regions[0].blocks.append(op.element, op.element)
    with ir.InsertionPoint(body):
        linalg.YieldOp([arith.mulf(*body.arguments)])
    return made.result


@pytest.mark.test_all
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8x8"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.prod(x, 1),
        lambda x: torch.prod(x * 0.9, -1, keepdim=True) * x + 1,
        lambda x: torch.prod(torch.exp(x) * 0.3, 0) + 2,
    ],
)
def test_a_reduction_takes_its_neighbours_into_its_rows(function: Callable[..., Any], machine: str):
    wb.ops.builder("aten.prod.dim_int", dialect="linalg", kind="reduction")(product_along)
    journey = wb.trace(function, torch.rand(37, 53) + 0.5, machine=machine)
    assert [kernel.kind for kernel in journey.lowered.record.kernels] == ["reduction"]
    assert journey.check().ok
    journey.simulated.trace.invariants()


@pytest.mark.test_all
def test_a_builder_is_found_for_what_a_decomposition_makes():
    def product(op: Any) -> Any:
        zeros = linalg.fill(op.number(0.0), outs=[op.empty()])
        return linalg.matmul(*op.operands, outs=[zeros])

    wb.ops.builder("aten.mm.default", dialect="linalg", kind="contraction")(product)
    journey = wb.trace(
        lambda x, w, b: torch.relu(torch.nn.functional.linear(x, w, b)), X, torch.randn(20, 53), torch.randn(20)
    )
    routes = dict(zip(journey.lowered.table.op, journey.lowered.table.route, strict=True))
    assert routes["aten.mm.default"] == "builder" and routes["aten.relu.default"] == "automatic"
    assert [kernel.kind for kernel in journey.lowered.record.kernels] == ["contraction"]
    assert journey.check().ok
    assert (journey.simulated.events.kind == "MATMUL").any()


def test_a_builder_that_gives_an_operand_back_leaves_a_copy_that_names_it():
    registered(lambda op: op.operands[0])
    journey = wb.trace(lambda x, y: torch.logaddexp(x, y), X, Y)
    torch.testing.assert_close(journey.run(X, Y), X)
    assert set(journey.simulated.events.origins) == {("logaddexp",)}
