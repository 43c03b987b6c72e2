"""A person's own pattern, there while a program is traced: a scaled relu becomes one op with a builder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import workbench as wb
from tests.rewriting.own_ops import EXAMPLES, scaled_relu_op


@contextmanager
def patterned() -> Iterator[None]:
    """With the pattern registered: what is traced meanwhile keeps it."""
    from torch_mlir.dialects import arith

    with wb.ops.scope():

        @wb.ops.builder(scaled_relu_op, dialect="arith", kind="elementwise")
        def build(op: Any) -> Any:
            def one(x: Any) -> Any:
                return arith.maximumf(arith.mulf(x, op.number(op["scale"])), op.number(0.0))

            return op.elementwise(one, op["x"])

        function, example = EXAMPLES[scaled_relu_op]
        wb.pattern("scaled relu", op=scaled_relu_op, example=example, takes=_floats)(function)
        yield


def _floats(of: Any) -> bool:
    return of["x"].dtype == "f32"
