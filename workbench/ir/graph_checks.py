"""Checks of captured and lowered graphs: a record may come from any file.

Readers of a graph rely on these checks: values are made before they are read, all names exist, types are valid, and
containers hold as many results as there are.
"""

from __future__ import annotations

import json
import keyword
import math
import re
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice

from workbench.ir.codec import RecordFormatError, held_against
from workbench.ir.graph import PARTS, AtenGraph, Literal, Node, Numbers, TensorType, Tree
from workbench.ir.host_work import BREAK, HostWork
from workbench.ir.kernels import KernelGraph

MOST = 3
"""The most mistakes that are reported."""

MOST_MODULES = 250
"""The most nested modules that a node may be in: views walk down the tree of modules."""

LARGEST = 2**48
"""The most elements that a tensor may span: numbers computed from fewer stay exact in 64 bits."""

LARGEST_WORK = 2**62
"""The most bytes or operations of a step on the host."""

_OVERLOAD = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*(\.\w+)*")
_KERNEL = re.compile(r"[A-Za-z_]\w*", re.ASCII)
DTYPES = frozenset({
    "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool", "c64", "c128", "complex32",
    "uint16", "uint32", "uint64", "qint8", "qint32", "quint8", "quint2x4", "quint4x2", "bits8", "bits16", 
    "bits1x8", "bits2x4", "bits4x2",
    "int1", "int2", "int3", "int4", "int5", "int6", "int7",
    "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
})  # fmt: skip
"""Names of element types; a test compares these names with PyTorch's own."""
_LAYOUTS = ("strided", "jagged", "_mkldnn", *(f"sparse_{kind}" for kind in ("coo", "csr", "csc", "bsr", "bsc")))
_MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_DEVICE = re.compile(r"(cpu|cuda|meta|xpu|mps|hpu|xla|mtia|lazy|ipu|vulkan|privateuseone|npu)(:\d{1,4})?")
_INPUTS = ("user", "parameter", "buffer", "gradient", "state", "closure", "constant")
_TREES = ("leaf", "constant", "tuple", "list", "dict", "object", "kept", "same", "call")
_KINDS: dict[str, tuple[type, ...]] = {
    "none": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    **dict.fromkeys(("complex", "str", "dtype", "device", "layout", "memory_format", "json"), (str,)),
}
_ROUTES = ("template", "builder", "automatic", "host", "view")


@held_against(AtenGraph)
def check_graph(graph: AtenGraph) -> None:
    """Raises `RecordFormatError` for the first mistakes of a captured graph."""
    _raise("the captured graph", _graph_mistakes(graph))


@held_against(KernelGraph)
def check_lowered(lowered: KernelGraph) -> None:
    """Raises `RecordFormatError` for the first mistakes of a lowered graph, or of the captured one in it."""
    check_graph(lowered.captured)
    _raise("the lowered graph", _lowered_mistakes(lowered))


def absent(names: Iterable[str], known: Container[str], begin: str, end: str) -> Iterator[str]:
    """Yields a mistake for each name that is not known: the name between the texts `begin` and `end`."""
    return (f"{begin}{name!r}{end}" for name in names if name not in known)


def _raise(what: str, mistakes: Iterator[str]) -> None:
    if found := [*islice(mistakes, MOST)]:
        raise RecordFormatError(f"{what} makes no sense: {'; '.join(found)}")


def _graph_mistakes(graph: AtenGraph) -> Iterator[str]:
    inputs = [slot.value for slot in graph.inputs]
    yield from (f"input {slot.value!r} is of kind {slot.kind!r}" for slot in graph.inputs if slot.kind not in _INPUTS)
    known = set(inputs)
    if len(known) < len(inputs):
        yield "two inputs have one value"
    yield from _in_order(graph.nodes, known)
    yield from _typed(graph.types, known, (*inputs, *graph.outputs))
    for what, names in (
        ("result", graph.outputs),
        ("a value stored in an input", [change.value for change in graph.mutations]),
        ("base of a result", [alias.base for alias in graph.aliases]),
        ("a saved value", graph.saved),
    ):
        yield from absent(names, known, f"{what}: there is no value ", "")
    yield from absent([change.target for change in graph.mutations], inputs, "", " is changed, but is not an input")
    for alias in graph.aliases:
        if not 0 <= alias.output < len(graph.outputs):
            yield f"there is no result {alias.output} to share the memory of {alias.base!r}"
        yield from _type_mistakes(f"result {alias.output}", alias.type) if alias.type else ()
    yield from _tree_mistakes("the results", graph.tree, len(graph.outputs))
    yield from _tree_mistakes("the inputs", graph.input_tree, sum(slot.kind == "user" for slot in graph.inputs))
    yield from _work_mistakes(graph)
    yield from numbers_mistakes(graph.numbers, known)  # also of what Python gives back at a break


def _work_mistakes(graph: AtenGraph) -> Iterator[str]:
    """Yields mistakes for work on the host that is at no graph break, or has a wrong operator or amount."""
    breaks = {node.name for node in graph.nodes if node.op == BREAK}
    for work in graph.host_work:
        if work.node not in breaks:
            yield f"{work.op!r} is computed between graphs at {work.node!r}, which is no graph break"
        yield from work_mistakes(work)


def work_mistakes(work: HostWork) -> Iterator[str]:
    """Yields a mistake for work of an operator without a valid name, or in amounts that are negative or too large."""
    amounts = (work.calls, work.bytes_in, work.bytes_out, work.flops)
    if not _OVERLOAD.fullmatch(work.op) or min(amounts) < 0 or max(amounts) > LARGEST_WORK:
        yield f"between graphs {work.op!r:.60} is called {work.calls} times, for {work.flops} operations"


def _in_order(nodes: tuple[Node, ...], known: set[str]) -> Iterator[str]:
    """Yields the mistakes of nodes, such as operands that nothing before makes; adds the nodes' results to the values
    that are `known`."""
    names: set[str] = set()
    for node in nodes:
        if node.name in names:
            yield f"two nodes have the name {node.name!r}"
        names.add(node.name)
        if not _OVERLOAD.fullmatch(node.op):
            yield f"node {node.name!r} calls {node.op!r}, which names no overload"
        for operand in node.operands:
            if operand not in known:
                yield f"node {node.name!r} reads {operand!r}, which nothing before it makes"
        for result in node.results:
            if result in known:
                yield f"node {node.name!r} makes {result!r}, which exists already"
            known.add(result)
        if node.origin.line is not None and node.origin.line < 0:
            yield f"node {node.name!r} has the line {node.origin.line}"
        if node.origin.part not in ("", *PARTS):
            yield f"node {node.name!r} is in the part {node.origin.part!r} of a training step"
        if node.origin.module.count(".") >= MOST_MODULES:
            yield f"node {node.name!r} is in more than {MOST_MODULES} modules, one in the other"
        for literal in node.literals:
            if not _is_literal(literal):
                yield f"node {node.name!r} has the argument {literal.value!r} of kind {literal.kind!r}"
        yield from (
            f"node {node.name!r} is given {key!r:.60} by name, which is no name of an argument"
            for key in node.kwargs
            if not key.isidentifier() or keyword.iskeyword(key)
        )
        for body in node.bodies:
            yield from (f"{body.name}, which {node.name!r} runs: {mistake}" for mistake in _graph_mistakes(body))


def _is_literal(literal: Literal) -> bool:
    if type(literal.value) not in _KINDS.get(literal.kind, ()):
        return False
    return literal.kind not in _TEXTS or _TEXTS[literal.kind](str(literal.value))


def _is_complex(text: str) -> bool:
    try:
        complex(text)
    except ValueError:
        return False
    return True


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_TEXTS: dict[str, Callable[[str], bool]] = {
    "complex": _is_complex,
    "dtype": DTYPES.__contains__,
    "device": lambda text: _DEVICE.fullmatch(text) is not None,
    "layout": _LAYOUTS.__contains__,
    "memory_format": _MEMORY_FORMATS.__contains__,
    "json": _is_json,
}
"""For literals that are kept as texts and stand for something else: True if a text is valid for its kind."""


def _typed(types: dict[str, TensorType], known: set[str], needed: tuple[str, ...]) -> Iterator[str]:
    yield from (f"{value!r} has no type" for value in needed if value in known and value not in types)
    yield from (f"there is a type of {value!r}, which is no value" for value in types if value not in known)
    for value, kind in types.items():
        yield from _type_mistakes(value, kind)


def _type_mistakes(value: str, kind: TensorType) -> Iterator[str]:
    if len(kind.shape) != len(kind.strides):
        yield f"{value!r} has {len(kind.shape)} extents and {len(kind.strides)} strides"
    elif min(kind.shape, default=0) < 0 or kind.dtype not in DTYPES:
        yield f"{value!r} is {kind}, which no tensor is"
    else:
        reach = abs(kind.offset) + sum(n * abs(s) for n, s in zip(kind.shape, kind.strides, strict=True))
        if math.prod(kind.shape) > LARGEST or reach > LARGEST:
            yield f"{value!r} of {kind} spans more than {LARGEST:,} elements"


def _tree_mistakes(what: str, tree: Tree, leaves: int) -> Iterator[str]:
    found = 0

    def walk(part: Tree) -> Iterator[str]:
        nonlocal found
        found += part.kind == "leaf"
        if part.kind not in _TREES or (part.items and part.kind in ("leaf", "constant", "kept", "same")):
            yield f"{what} are in a {part.kind!r} of {len(part.items)}"
        if part.kind in ("constant", "kept", "same") and not (part.constant and _is_literal(part.constant)):
            yield f"{what} have the constant {part.constant}"
        if part.kind == "call" and (part is not tree or len(part.keys) != len(part.items) or not part.items):
            yield f"{what} are in a call of {len(part.items)}"
        if (part.kind == "dict" or part.keys) and len(part.keys) != len(part.items):
            yield f"{what} have {len(part.keys)} keys for {len(part.items)} things"
        for item in part.items:
            yield from walk(item)

    yield from walk(tree)
    if found != leaves:
        yield f"{what} are {leaves} tensors, but their containers hold {found}"


def numbers_mistakes(numbers: tuple[Numbers, ...], known: Container[str]) -> Iterator[str]:
    """Reports numbers of a value that does not exist, or that cannot be unpacked."""
    for each in numbers:
        if each.value not in known:
            yield f"there are numbers of {each.value!r}, which does not exist"
            continue
        try:
            each.array  # noqa: B018
        except (ValueError, zlib.error) as error:
            yield f"the numbers of {each.value!r} cannot be unpacked: {error}"


def _lowered_mistakes(lowered: KernelGraph) -> Iterator[str]:
    captured = {node.name for node in lowered.captured.nodes}
    known = {slot.value for slot in lowered.captured.inputs}
    yield from _in_order(tuple(item.node for item in lowered.nodes), known)
    kernels = {kernel.name for kernel in lowered.kernels}
    nodes = {item.node.name: item for item in lowered.nodes}
    if len(kernels) < len(lowered.kernels):
        yield "two kernels have one name"
    for item in lowered.nodes:
        if item.parent not in captured:
            yield f"node {item.node.name!r} was made of {item.parent!r}, which was not captured"
        if item.route not in _ROUTES:
            yield f"node {item.node.name!r} is on the route {item.route!r}"
        if item.kernel and item.kernel not in kernels:
            yield f"node {item.node.name!r} is in the kernel {item.kernel!r}, which does not exist"
    for kernel in lowered.kernels:
        yield from absent(kernel.nodes, nodes, f"kernel {kernel.name!r} has the node ", ", which does not exist")
        values = (*kernel.inputs, *kernel.outputs, *(bound.value for bound in kernel.bounds))
        yield from absent(values, lowered.types, f"kernel {kernel.name!r} has ", ", which has no type")
        if not _KERNEL.fullmatch(kernel.name):
            yield f"a kernel is called {kernel.name!r:.60}, which MLIR and Python cannot call it"
        if not kernel.nodes:
            yield f"kernel {kernel.name!r} has no nodes"
    bases = {view.value for view in lowered.views}
    for view in lowered.views:
        if view.value not in lowered.types or view.base not in lowered.types or view.base in bases:
            yield f"{view.value!r} is a view of {view.base!r}, which does not exist or is a view itself"
    fused = [name for decision in lowered.fusions for name in (decision.producer, decision.consumer)]
    yield from absent(fused, nodes, "", " is in a decision on fusion, but does not exist")
    yield from (
        f"{value!r} has no type" for value in known if value in lowered.captured.types and value not in lowered.types
    )
    for value, kind in lowered.types.items():
        yield from _type_mistakes(value, kind)
    for order in lowered.layouts:
        yield from _type_mistakes(f"{order.value} as PyTorch has it", order.given)
        kind = lowered.types.get(order.value)
        if kind is None or order.value in bases:
            yield f"{order.value!r} has an order of axes, but is no storage"
        elif (order.given.shape, order.given.dtype) != (kind.shape, kind.dtype):
            yield f"{order.value!r} is {kind}, and {order.given} as PyTorch has it"
        elif sorted(order.axes) != [*range(len(kind.shape))]:
            yield f"{order.value!r} of {kind} has its axes in the order {order.axes}"
