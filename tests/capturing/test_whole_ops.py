"""Tests that ops kept from one program for the next equal those that PyTorch would build again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch._export import utils
from torch._subclasses import fake_impls
from torch.export import _unlift, exported_program

from workbench.ground.torch_inside.whole_ops import quickly_kept_whole

KEY = torch._C.DispatchKey.CompositeImplicitAutograd


def names(op: Any) -> dict[Any, str]:
    """A kernel is a function made anew each time: that it came from the same place must do."""
    plain = {key: getattr(kernel, "func", kernel) for key, kernel in op.py_kernels.items()}
    return {key: getattr(kernel, "__qualname__", str(kernel)) for key, kernel in plain.items()}


def found(ops: dict[Any, Any]) -> dict[Any, Any]:
    return {op: (names(op), op in fake_impls.op_implementations_dict) for op in ops}


def splits() -> dict[Any, Any]:
    return exported_program._split_decomp_table_to_cia_and_python_decomp({})[0]


@contextmanager
def quickly(ops: dict[Any, Any]) -> Iterator[None]:
    with quickly_kept_whole(), exported_program._override_composite_implicit_decomp(ops):
        yield


def test_ops_have_the_kernels_that_pytorch_gives_them_and_their_own_again_afterwards():
    ops = splits()
    with quickly(ops):
        pass
    before = found(ops)
    with exported_program._override_composite_implicit_decomp(ops):
        expected = found(ops)
    for _ in range(2):
        with quickly(ops):
            assert found(ops) == expected != before
        assert found(ops) == before


def test_they_have_their_own_again_after_an_error():
    ops = splits()
    with quickly(ops):
        pass
    before = found(ops)
    with pytest.raises(KeyError), quickly(ops):
        raise KeyError
    assert found(ops) == before


def test_inside_of_itself_it_leaves_ops_to_pytorch():
    ops = splits()
    with quickly(ops):
        pass
    before = found(ops)
    with quickly(ops):
        outer = {op: dict(op.py_kernels) for op in ops}
        with quickly(ops):
            pass
        assert {op: dict(op.py_kernels) for op in ops} == outer
    assert found(ops) == before


def test_an_op_that_is_made_or_changed_between_two_programs_is_seen():
    with torch.library._scoped_library("whole_ops_test", "FRAGMENT") as library:
        with quickly_kept_whole():
            assert all(op.namespace != "whole_ops_test" for op in splits())
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        op = torch.ops.whole_ops_test.twice.default
        for kernel in (None, lambda x: x * 2, lambda x: 2 * x):
            if kernel is not None:
                op.py_kernels.pop(KEY, None)
                op.py_impl(KEY)(kernel)
            with quickly_kept_whole():
                ops = splits()
            assert op in ops
            for _ in range(2):
                with quickly(ops):
                    assert op.py_kernels[KEY] is utils._special_op_to_preserve_cia
                    if kernel is not None:
                        assert op.py_kernels[torch._C.DispatchKey.CPU] is kernel
                assert op.py_kernels.get(KEY) is kernel


def test_the_same_program_is_made_without_guards_of_its_inputs(monkeypatch: pytest.MonkeyPatch):
    exported = torch.export.export(torch.nn.Linear(3, 4), (torch.randn(2, 3),), strict=False)
    made: list[Any] = []
    monkeypatch.setattr(_unlift, "_convert_guards_code_to_fn", lambda *given: made.append(given) or torch.nn.Identity())
    with quickly_kept_whole():
        quick = exported.run_decompositions({})
    assert not made
    monkeypatch.undo()
    plain = exported.run_decompositions({})
    assert str(quick.graph) == str(plain.graph) and str(quick.graph_signature) == str(plain.graph_signature)
