"""Example kernels for the tests of native execution."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir.fx import stateless_fx_import

ELEMENT = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "i8", torch.bool: "i1",
}  # fmt: skip


def memref(tensor: torch.Tensor) -> str:
    """The memref type of a tensor as it lies in memory."""
    shape = "".join(f"{extent}x" for extent in tensor.shape)
    strides = ", ".join(map(str, tensor.stride()))
    offset = f", offset: {tensor.storage_offset()}" if tensor.storage_offset() else ""
    return f"memref<{shape}{ELEMENT[tensor.dtype]}, strided<[{strides}]{offset}>>"


def rendered(
    function: Callable[..., torch.Tensor | tuple[torch.Tensor, ...]],
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    name: str = "k",
) -> str:
    """`function` as linalg on tensors between memref arguments laid out as `inputs` and `outputs`."""
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    text = str(stateless_fx_import(graph, output_type="linalg-on-tensors", model_name="main"))
    signature = re.search(r"func\.func @main\((.*?)\)(?: -> .*)? \{\n", text)
    assert signature is not None
    kinds = [part.split(":")[1].strip() for part in signature[1].split(", %")]
    head = [f"%in{i}: {memref(tensor)}" for i, tensor in enumerate(inputs)]
    head += [f"%out{i}: {memref(tensor)}" for i, tensor in enumerate(outputs)]
    body = [
        f"    %arg{i} = bufferization.to_tensor %in{i} restrict : {memref(tensor)} to {kind}\n"
        for i, (tensor, kind) in enumerate(zip(inputs, kinds, strict=True))
    ]
    text = text.replace(signature[0], f"func.func @{name}({', '.join(head)}) {{\n" + "".join(body))
    returned = re.search(r"    return (.*?) : (.*)\n", text)
    assert returned is not None
    values = zip(returned[1].split(", "), returned[2].split(", "), outputs, strict=True)
    tail = [
        f"    bufferization.materialize_in_destination {value} in restrict writable %out{i}"
        f" : ({kind}, {memref(tensor)}) -> ()\n"
        for i, (value, kind, tensor) in enumerate(values)
    ]
    return text.replace(returned[0], "".join(tail) + "    return\n")
