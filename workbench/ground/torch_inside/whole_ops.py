"""Keeps ops whole while PyTorch makes a program functional, without repeating the preparation for each program.

PyTorch leaves an op whole by giving it twenty kernels for the time, and does so with each of the hundreds of ops that
it could take apart. That, and finding these ops, took three quarters of the time of making a small program functional.
The kernels that an op gets depend on its own kernels alone, so they are kept; an op whose own kernels have changed is
left to PyTorch.

The set of PyTorch's own ops is kept too, until an op is registered. The states of random numbers that PyTorch makes
before and after each program, six tensors each time, are not made: nothing uses them unless its switch
`functionalize_rng_ops` is on. The function that would compare the program's inputs with those of its export is not made
either: they are the same, and it has a line for each parameter that is compared with each other line.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, Final, NamedTuple, cast
from unittest import mock

from workbench.ground.environment.this_thread import returning
from workbench.ground.torch_inside.needs import takes
from workbench.ground.torch_inside.operator_objects import ops_with_a_kernel_for

with takes(
    "torch._decomp.decompositions_for_rng.PhiloxStateTracker.reset",
    "torch._export.utils._collect_all_valid_cia_ops_for_namespace",
    "torch._export.utils._materialize_cpp_cia_ops",
    "torch._export.utils._special_op_to_preserve_cia",
    "torch._functorch.config.functionalize_rng_ops",
    "torch._subclasses.fake_impls._deregister_op_impl",
    "torch._subclasses.fake_impls.op_implementations_dict",
    "torch.export._unlift._ok_to_generate_guards_fn",
    "torch.export.exported_program._override_composite_implicit_decomp",
    "torch.ops.aten.add.Tensor._dispatch_cache",
    "torch.ops.aten._dir",
    use="What run_decompositions does for hundreds of ops and for each program, kept from one program to the next.",
    instead="ExportedProgram.run_decompositions, which does all of it anew",
):
    from torch._decomp import decompositions_for_rng
    from torch._export import utils
    from torch._functorch import config as functorch_config
    from torch._subclasses import fake_impls
    from torch.export import _unlift, exported_program  # pyright: ignore[reportPrivateUsage]

_utils, _rules, _program = cast("tuple[Any, Any, Any]", (utils, fake_impls, exported_program))
_random, _switches = cast("tuple[Any, Any]", (decompositions_for_rng, functorch_config))
_of_namespace: Final = _utils._collect_all_valid_cia_ops_for_namespace
_by_pytorch: Final = _program._override_composite_implicit_decomp
_KERNELS: Final[dict[Any, _Given]] = {}
"""The kernels of each op; used and filled in turn (`ground/environment/turns.py`)."""

_NAMESPACES: Final = (
    "profiler", "inductor", "quantized", "prim", "export", "debug_mode_ops", "prims", "rngprims", "debugprims",
    "mkldnn", "mkl", "onednn", "_native", "sparse", "_inductor_test", "_c10d_functional", "_c10d_functional_autograd",
    "c10d_functional", "_dtensor", "symm_mem", "fsdp", "flex_lib", "streams", "onnx", "onnx_symbolic", "_test",
)  # fmt: skip
"""PyTorch's own namespaces but for `aten`, whose ops PyTorch keeps itself. In any other an op may get a kernel at any
time."""

_FOUND: Final[dict[str, tuple[object, set[Any]]]] = {}
"""By namespace: the registered ops at the last search, and the ops found that PyTorch could take apart."""


class _Given(NamedTuple):
    before: dict[Any, Any]
    """The op's kernels outside of the block."""
    while_whole: dict[Any, Any]
    rule: Any
    """The function that computes the type and shape of the op's result within the block."""


@contextmanager
def quickly_kept_whole() -> Generator[None]:
    """Within the block `run_decompositions` does the same as otherwise, in less time."""
    find_once = cache(_utils._materialize_cpp_cia_ops)  # it finds the ops of all namespaces, and is called for each
    registered = ops_with_a_kernel_for("CompositeImplicitAutograd")

    def find(namespace: Any) -> set[Any]:
        name, state = namespace.name, (registered, len(namespace._dir))
        if name not in _NAMESPACES:
            return _of_namespace(namespace)
        if name not in _FOUND or _FOUND[name][0] != state:
            found = _of_namespace(namespace)
            _FOUND[name] = ((registered, len(namespace._dir)), found)  # the search may have added some
        return _FOUND[name][1]

    with (
        mock.patch.object(_utils, "_materialize_cpp_cia_ops", find_once),
        mock.patch.object(_utils, "_collect_all_valid_cia_ops_for_namespace", find),
        mock.patch.object(_program, "_override_composite_implicit_decomp", _kept_whole),
        mock.patch.object(_unlift, "_ok_to_generate_guards_fn", returning(False)),
        _without_random_states(),
    ):
        yield


def _without_random_states() -> AbstractContextManager[object]:
    if _switches.functionalize_rng_ops:
        return nullcontext()
    return mock.patch.object(_random.PhiloxStateTracker, "reset", returning(None))


@contextmanager
def _kept_whole(ops: Mapping[Any, Callable[..., Any]]) -> Generator[None]:
    known = {op: given for op, call in ops.items() if (given := _known(op, call)) is not None}
    others = {op: call for op, call in ops.items() if op not in known}
    plain = {op: dict(op.py_kernels) for op in others if op not in _rules.op_implementations_dict}
    with _by_pytorch(others):
        for op, before in plain.items():
            if ops[op] is _utils._special_op_to_preserve_cia:
                _KERNELS[op] = _Given(before, dict(op.py_kernels), _rules.op_implementations_dict[op])
        try:
            for op, given in known.items():
                _set_kernels(op, given.while_whole)
                _rules.op_implementations_dict[op] = given.rule
            yield
        finally:
            for op, given in known.items():
                _set_kernels(op, given.before)
                _rules._deregister_op_impl(op)


def _known(op: Any, call: Callable[..., Any]) -> _Given | None:
    given = _KERNELS.get(op)
    if given is None or call is not _utils._special_op_to_preserve_cia or op in _rules.op_implementations_dict:
        return None
    return given if op.py_kernels == given.before else None


def _set_kernels(op: Any, kernels: dict[Any, Any]) -> None:
    op.py_kernels.clear()
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()
