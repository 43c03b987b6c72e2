"""The overloads of the automatic route, which torch-mlir turns into linalg, by their class for scheduling.

A test imports every entry in a kernel of its own. Ops that decompose into others are in `formulas`.
"""

from __future__ import annotations


def names(overloads: str) -> frozenset[str]:
    """The overloads in a text."""
    return frozenset(overloads.split())


POINTWISE = names(
    """
    aten.add.Tensor aten.add.Scalar aten.sub.Tensor aten.sub.Scalar aten.rsub.Scalar aten.mul.Tensor aten.mul.Scalar
    aten.div.Tensor aten.div.Scalar aten.neg.default aten.abs.default
    aten.exp.default aten.exp2.default aten.expm1.default aten.log.default aten.log2.default aten.log1p.default
    aten.sqrt.default aten.rsqrt.default aten.pow.Tensor_Scalar aten.pow.Tensor_Tensor
    aten.sin.default aten.cos.default aten.tanh.default aten.sigmoid.default aten.erf.default
    aten.relu.default aten.silu.default aten.hardtanh.default aten.leaky_relu.default aten.softplus.default
    aten.hardswish.default aten.hardsigmoid.default aten.elu.default
    aten.floor.default aten.ceil.default aten.sign.default
    aten.maximum.default aten.minimum.default aten.clamp.default aten.clamp_min.default aten.clamp_max.default
    aten.where.self aten.eq.Tensor aten.ne.Tensor aten.lt.Tensor aten.le.Tensor aten.gt.Tensor aten.ge.Tensor
    aten.eq.Scalar aten.ne.Scalar aten.lt.Scalar aten.le.Scalar aten.gt.Scalar aten.ge.Scalar
    aten.logical_and.default aten.logical_or.default aten.logical_not.default aten.bitwise_not.default
    aten.bitwise_and.Tensor aten.bitwise_or.Tensor aten._to_copy.default
    """
)

COMPARISONS = frozenset(
    f"aten.{name}.{of}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for of in ("Tensor", "Scalar")
)

REDUCTION = names("aten.sum.dim_IntList aten.amax.default aten.amin.default")

CONTRACTION = names("aten.mm.default aten.bmm.default aten.convolution.default")

WINDOW = names(
    """
    aten.max_pool1d.default aten.max_pool2d.default aten.max_pool3d.default
    aten.avg_pool1d.default aten.avg_pool2d.default
    """
)

COPY = names("aten.clone.default")

VIEW = names(
    """
    aten.t.default aten.transpose.int aten.permute.default aten.view.default aten._unsafe_view.default
    aten.expand.default aten.select.int aten.slice.Tensor aten.unsqueeze.default aten.squeeze.default
    aten.squeeze.dim aten.squeeze.dims aten.detach.default aten.alias.default aten.split.Tensor
    aten.split_with_sizes.default aten.chunk.default aten.unbind.int aten.narrow.default aten.movedim.int
    aten.flatten.using_ints aten.unflatten.int aten.diagonal.default aten.numpy_T.default
    aten.mT.default aten.swapaxes.default aten.swapdims.default aten.movedim.intlist
    aten.moveaxis.int aten.moveaxis.intlist aten.linalg_diagonal.default aten.data.default
    aten.unfold.default aten.view_as.default aten.expand_as.default
    aten.as_strided.default
    """
)

ASSEMBLY = names(
    """
    aten.cat.default aten.stack.default
    aten.slice_scatter.default aten.select_scatter.default aten.diagonal_scatter.default
    aten.as_strided_scatter.default
    """
)
"""Ops whose result consists of parts, each computed in its place in the result or copied to it: see
`workbench.lowering.assembly`."""

_CLASSES = {
    "pointwise": POINTWISE,
    "reduction": REDUCTION,
    "contraction": CONTRACTION,
    "window": WINDOW,
    "copy": COPY,
    "view": VIEW,
    "assembly": ASSEMBLY,
}


DTYPES = names("f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool")
"""Element types that kernels compute with."""

KINDS = tuple(_CLASSES)

ALL = frozenset[str]().union(*_CLASSES.values())
"""Every overload that has a class."""

_CLASS_OF = {op: name for name, ops in _CLASSES.items() for op in ops}


def class_of(op: str) -> str | None:
    """The class of an overload: pointwise, reduction, contraction, window, copy, view or assembly. None if the
    automatic route does not take the overload."""
    return _CLASS_OF.get(op)
