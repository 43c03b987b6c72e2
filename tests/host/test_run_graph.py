"""Running a record: literals of every kind come back as what they were, and inputs stay as they are."""

from __future__ import annotations

import pytest
import torch

from tests.flow import capture
from workbench.ground.errors import CaptureFailed
from workbench.ir import AtenGraph, Literal, Ref, Sequence
from workbench.operators.host.run_graph import execute
from workbench.operators.tensors.element_types import DTYPES, dtype_name, to_dtype
from workbench.operators.tensors.torch_literals import from_arg, from_literal, to_arg, to_literal


@pytest.mark.parametrize("value", [None, True, 3, 2.5, float("inf"), "tanh", torch.bfloat16, torch.strided,
                                   torch.channels_last, torch.device("cpu")])  # fmt: skip
def test_a_literal_comes_back_as_it_was(value: object) -> None:
    literal = to_literal(value)
    assert isinstance(literal, Literal)
    assert from_literal(literal) == value and type(from_literal(literal)) is type(value)


def test_lists_and_references_are_arguments_and_objects_are_not() -> None:
    arg = to_arg([Ref("x"), [1, None]])
    assert arg == Sequence((Ref("x"), Sequence((Literal("int", 1), Literal("none", None)))))
    assert from_arg(arg, {"x": 5}.__getitem__) == [5, [1, None]]
    with pytest.raises(CaptureFailed, match="a object, cannot be recorded as an argument of an op"):
        to_arg(object())


@pytest.mark.parametrize(("name", "dtype"), DTYPES.items())
def test_element_types_have_short_names_both_ways(name: str, dtype: torch.dtype) -> None:
    assert dtype_name(dtype) == name and to_dtype(name) == dtype


def test_a_record_with_dtypes_layouts_and_devices_runs() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        made = torch.full((2, 1, 3, 4), 2.0, dtype=torch.float64, device="cpu")
        return (x.to(torch.float64) * made).contiguous(memory_format=torch.channels_last)

    x = torch.randn(2, 5, 3, 4)
    graph = AtenGraph.from_json(capture(fn, (x,)).graph.to_json())
    (found,) = execute(graph, [x]).outputs
    torch.testing.assert_close(found, fn(x))
    assert found.stride() == fn(x).stride() == graph.types[graph.outputs[0]].strides


def test_mutations_are_reported_and_the_given_tensors_left_alone() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        y.zero_()
        return x * 2

    x, y = torch.ones(2), torch.full((2,), 3.0)
    done = execute(capture(fn, (x, y)).graph, [x, y])
    assert torch.equal(done.outputs[0], torch.full((2,), 8.0))
    assert torch.equal(done.mutated["x"], torch.full((2,), 4.0)) and torch.equal(done.mutated["y"], torch.zeros(2))
    assert torch.equal(x, torch.ones(2)) and torch.equal(y, torch.full((2,), 3.0))
