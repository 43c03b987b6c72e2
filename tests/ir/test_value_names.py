"""Names of values, and the memory that a type of values spans."""

from __future__ import annotations

import pytest
import torch

from workbench.ir import Literal, Ref, Sequence, TensorType
from workbench.ir.value_names import counted_name, marked_name, with_names
from workbench.operators.tensors.tensor_memory import span


def test_a_new_name_is_one_that_no_other_has() -> None:
    assert counted_name("add", {"mul"}) == "add"
    assert counted_name("add", {"add", "add_1"}) == "add_2"
    assert marked_name("add.clone", {"add.clone", "add.clone_"}) == "add.clone__"


def test_values_are_renamed_within_lists_too() -> None:
    arg = Sequence((Ref("a"), Sequence((Ref("b"), Literal("int", 3)))))
    assert with_names(arg, {"a": "x", "b": "y"}) == Sequence((Ref("x"), Sequence((Ref("y"), Literal("int", 3)))))


@pytest.mark.parametrize(
    ("shape", "strides", "elements"),
    [((), (), 1), ((3, 4), (4, 1), 12), ((3, 4), (10, 2), 27), ((3, 0), (7, 1), 0), ((5, 3), (0, 1), 3)],
)
def test_a_type_and_a_tensor_span_the_same_elements(
    shape: tuple[int, ...], strides: tuple[int, ...], elements: int
) -> None:
    tensor = torch.empty(40).as_strided(shape, strides)
    assert TensorType(shape, "f32", strides).span == span(tensor) == elements
