"""Makes the record of an exported program: nodes by overload, arguments by schema, origins, types, mutations."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from workbench.capturing.conversions import convert
from workbench.capturing.placed_gradients import without_copies
from workbench.capturing.result_aliases import aliases, offset_bytes, owners_among, results
from workbench.capturing.user_call import module_as_written
from workbench.ground import errors
from workbench.ground.environment.call_sites import Place, place_of, place_text
from workbench.ground.torch_inside import pytrees as pytree
from workbench.ground.torch_inside.operator_objects import HigherOrderOperator, overload_name, schema_of_op
from workbench.ground.torch_inside.tensor_inside import memory_of
from workbench.ir import (
    ASSERTIONS,
    BACKWARD,
    FORWARD,
    Arg,
    AtenGraph,
    Input,
    Literal,
    Mutation,
    Node,
    Numbers,
    Origin,
    Ref,
    Sequence,
    TensorType,
    Tree,
)
from workbench.ir.graph import MOST_NUMBERS
from workbench.ir.value_names import counted_name
from workbench.operators.aten.overload_schema import arguments
from workbench.operators.aten.registry import Registrations
from workbench.operators.aten.run_node import HIGHER_ORDER
from workbench.operators.tensors.tensor_memory import span
from workbench.operators.tensors.torch_literals import options_literal, to_arg, to_type


@dataclass(frozen=True)
class Slot:
    """An input tensor of the graph, with the kind and the path that the record has for it."""

    kind: str
    path: str
    tensor: torch.Tensor
    gradient: bool = False
    """True if the caller's tensor requires a gradient."""


@dataclass(frozen=True)
class Recorded:
    """A record, and the slots of its inputs in the same order."""

    graph: AtenGraph
    slots: tuple[Slot, ...]


_KINDS = ("user", "parameter", "buffer", "gradient", "state", "closure", "constant")


class Namer:
    """Gives each value a readable name that no other has."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def __call__(self, wish: str) -> str:
        base = re.sub(r"\W+", "_", wish).strip("_") or "value"
        name = counted_name(base, self.taken)
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class Traced:
    """A functional program, with facts that only its tracer knows."""

    name: str
    capture: str
    """The way in which the program was captured: dynamo, export or train."""
    program: ExportedProgram
    exported: ExportedProgram
    """The program before it was made functional."""
    user: tuple[Slot, ...]
    """The caller's tensors in order, used or not."""
    slot_of: Callable[[str], Slot]
    """Returns the slot of a placeholder, by the placeholder's name."""
    leaves: tuple[int | Slot, ...]
    """The results: numbers of the program's outputs, or the slot of an input that is returned unchanged."""
    tree: Tree
    input_tree: Tree
    modules: Mapping[str, str]
    """Module paths by the keys of a node's module stack."""
    called: Place
    """The user's line that asked for the trace: the place of calls in PyTorch's own modules."""


def record(traced: Traced, registrations: Registrations) -> Recorded:
    """Returns the record of a program; `registrations` may hold conversions."""
    name, program, slot_of, leaves = traced.name, traced.program, traced.slot_of, traced.leaves
    graph, made_names = program.graph, result_names(program)
    live = _live(program, [made_names[leaf] for leaf in leaves if isinstance(leaf, int)])
    given = [node for node in graph.find_nodes(op="placeholder") if isinstance(node.meta["val"], torch.Tensor)]
    slots = {node.name: slot_of(node.name) for node in given}
    used = {id(slot.tensor): slot for place, slot in slots.items() if place in live}
    used.update({id(slot.tensor): slot for slot in leaves if isinstance(slot, Slot)})
    ordered = list(traced.user)
    held = [slot for slot in used.values() if slot.kind != "user"]
    ordered += sorted(held, key=lambda slot: (_KINDS.index(slot.kind), slot.path))

    namer = Namer()
    names = {id(slot.tensor): namer(slot.path) for slot in ordered}
    values = {place: names[id(slot.tensor)] for place, slot in slots.items() if id(slot.tensor) in names}
    offsets = {_storage(node): offset_bytes(_fake(node)) for node in given}
    types = {
        names[id(slot.tensor)]: to_type(slot.tensor, base_offset=int(slot.tensor.storage_offset())) for slot in ordered
    }
    memories = {values[node.name]: _storage(node) for node in given if node.name in values}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op != "call_function" or node.name not in live:
            continue
        if node.target is operator.getitem:
            if isinstance(node.meta["val"], (torch.Tensor, list, tuple)):  # and not a number, or None
                values[node.name] = f"{values[cast('torch.fx.Node', node.args[0]).name]}.{node.args[1]}"
        else:
            _refuse_symbols(name, node)
            made = _node(node, namer, values, traced.modules, traced.called)
            types.update(_quantised(made, _types(made, node.meta.get("val"), offsets)))
            made_memories = [memory_of(tensor) for _, tensor in _tensors(node.meta.get("val"))]
            memories.update(zip(made.results, made_memories, strict=True))
            conversion = registrations.find(made.op, "conversion")
            nodes += convert(made, types, namer.taken, conversion) if conversion else (made,)

    mutations = _mutations(program, values)
    _refuse_misfits(name, types, mutations, {names[id(slot.tensor)]: slot.path for slot in ordered})
    after = {mutation.target: mutation.value for mutation in mutations}
    given_names = {place: value for place, value in values.items() if place in slots}
    owners, found = owners_among(traced.exported, given_names), results(traced.exported)
    outputs = [values[made_names[leaf]] if isinstance(leaf, int) else names[id(leaf.tensor)] for leaf in leaves]
    outputs = [after.get(value, value) for value in outputs]
    gradients = [names[id(slot.tensor)] for slot in ordered if slot.kind == "gradient"]
    kept, mutations = without_copies(nodes, mutations, gradients, types, memories, (*names.values(), *outputs))
    for name_of_copy in {node.name for node in nodes}.difference(node.name for node in kept):
        del types[name_of_copy]
    lie = [found[leaf] if isinstance(leaf, int) else names[id(leaf.tensor)] for leaf in leaves]
    made = AtenGraph(
        name=name,
        inputs=tuple(Input(names[id(slot.tensor)], slot.kind, slot.path) for slot in ordered),
        nodes=kept,
        outputs=tuple(outputs),
        tree=traced.tree,
        types=types,
        mutations=mutations,
        aliases=aliases(lie, owners, outputs, types),
        capture=traced.capture,
        input_tree=traced.input_tree,
        numbers=numbers_of([names[id(slot.tensor)] for slot in ordered], ordered),
        saved=_saved(kept, [names[id(slot.tensor)] for slot in ordered if slot.kind in _GIVEN_FORWARD], memories),
    )
    return Recorded(made, tuple(ordered))


_SHAPED_LIKE = ("aten.ones_like.", "aten.zeros_like.", "aten.full_like.", "aten.empty_like.", "aten.new_")
"""Ops that read a tensor's shape only."""
_GIVEN_FORWARD = ("user", "parameter", "buffer", "closure", "constant")


def _saved(nodes: Iterable[Node], given: Iterable[str], memories: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the inputs and forward results that the backward pass reads, each memory under its first name."""
    owners: dict[int, str] = {}
    for value in (*given, *(value for node in nodes if node.origin.part == FORWARD for value in node.results)):
        owners.setdefault(memories.get(value, -1), value)
    reads = (node for node in nodes if node.origin.part == BACKWARD and not node.op.startswith(_SHAPED_LIKE))
    read = [value for node in reads for value in node.operands]
    return tuple(dict.fromkeys(owners[memories[value]] for value in read if memories[value] in owners))


def numbers_of(values: Iterable[str], slots: Iterable[Slot]) -> tuple[Numbers, ...]:
    """Packs the contents of the inputs whose numbers a record keeps: integers that may be indices. `values` names the
    slots."""
    pairs = zip(values, slots, strict=True)
    return tuple(_numbers(value, slot.tensor) for value, slot in pairs if _may_index(slot.tensor))


def _may_index(tensor: torch.Tensor) -> bool:
    whole = tensor.dtype in (torch.int64, torch.int32) and tensor.device.type == "cpu"
    return whole and 0 < span(tensor) <= MOST_NUMBERS


def _numbers(name: str, tensor: torch.Tensor) -> Numbers:
    flat = tensor.detach().as_strided((span(tensor),), (1,)).resolve_neg()
    return Numbers.of(name, flat.to(torch.int64).numpy())


def _refuse_symbols(name: str, node: torch.fx.Node) -> None:
    """Refuses shapes and numbers that only the data decides, since a record cannot hold them."""
    for part in pytree.tree_leaves(node.meta.get("val")):
        symbol = isinstance(part, (torch.SymInt, torch.SymFloat, torch.SymBool))
        if symbol or (isinstance(part, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in part.shape)):
            what = "a number" if symbol else "a shape"
            place = place_text(node.meta.get("stack_trace"))
            raise errors.GraphBreak(name, f"{node.target} makes {what} that depends on the data", place)


def _refuse_misfits(
    name: str, types: Mapping[str, TensorType], mutations: Iterable[Mutation], paths: Mapping[str, str]
) -> None:
    for target, value in ((mutation.target, mutation.value) for mutation in mutations):
        kind = types[target]
        if kind.shape != types[value].shape:
            raise errors.ReshapedInput(
                f"{name} gives {paths[target]} the shape {types[value]} in place, and it has {kind}. The tensors "
                "of a graph keep their shape: give it a tensor of that shape, or return the result"
            )
        if any(stride == 0 and extent > 1 for stride, extent in zip(kind.strides, kind.shape, strict=True)):
            raise errors.SharedElements(
                f"{name} changes {paths[target]} in place, an expanded tensor of shape {list(kind.shape)} with "
                f"the strides {list(kind.strides)}: several of its elements share one place in memory. PyTorch "
                "refuses it too; give it a clone()"
            )


def result_names(program: ExportedProgram) -> list[str]:
    """The names of the nodes that make a program's results, in order."""
    return [spec.arg.name for spec in program.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]


def _live(program: ExportedProgram, results: list[str]) -> set[str]:
    """The names of the nodes that results, mutations and assertions need, and of the changed inputs, which may be
    written and never read."""
    mutating = [spec for spec in program.graph_signature.output_specs if _mutates(spec.kind)]
    places = _mutable(program)
    wanted = {*results, *(spec.arg.name for spec in mutating), *(places[str(spec.target)] for spec in mutating)}
    wanted |= {node.name for node in program.graph.nodes if str(node.target) in ASSERTIONS}
    for node in reversed(list(program.graph.nodes)):
        if node.name in wanted and node.op != "output":
            wanted |= {needed.name for needed in node.all_input_nodes}
    return wanted


def _mutates(kind: OutputKind) -> bool:
    return kind not in (OutputKind.USER_OUTPUT, OutputKind.TOKEN)


def _mutations(program: ExportedProgram, values: Mapping[str, str]) -> tuple[Mutation, ...]:
    places = _mutable(program)
    found = [
        Mutation(values[places[str(spec.target)]], values[spec.arg.name])
        for spec in program.graph_signature.output_specs
        if _mutates(spec.kind)
    ]
    return tuple(sorted(found, key=lambda mutation: mutation.target))


def _mutable(program: ExportedProgram) -> dict[str, str]:
    """The placeholders of a program, by the names that its mutations have for them."""
    specs = program.graph_signature.input_specs
    return {
        str(spec.target if spec.kind is not InputKind.USER_INPUT else spec.arg.name): spec.arg.name for spec in specs
    }


def _fake(node: torch.fx.Node) -> torch.Tensor:
    return cast("torch.Tensor", node.meta["val"])


def _storage(node: torch.fx.Node) -> int:
    return memory_of(_fake(node))


def _types(node: Node, value: object, offsets: Mapping[int, int]) -> dict[str, TensorType]:
    return {
        result: to_type(fake, base_offset=int(offsets.get(memory_of(fake), 0)) // fake.element_size())
        for result, (_, fake) in zip(node.results, _tensors(value), strict=True)
    }


def _quantised(node: Node, types: dict[str, TensorType]) -> dict[str, TensorType]:
    """Returns the types with the element type of a quantised result, whose type without data is the operand's float
    type."""
    if not node.op.startswith("aten.quantize_per_"):
        return types
    kind = arguments(node)["dtype"]
    assert isinstance(kind, Literal)
    return {value: replace(each, dtype=str(kind.value)) for value, each in types.items()}


def _tensors(made: object, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors among an op's results, each with its place after `name`; a result may be None, or a list of
    tensors."""
    if isinstance(made, torch.Tensor):
        return [(name, made)]
    parts = cast("list[object]", made) if isinstance(made, (tuple, list)) else []
    return [found for place, part in enumerate(parts) for found in _tensors(part, f"{name}.{place}")]


def _node(node: torch.fx.Node, namer: Namer, values: dict[str, str], modules: Mapping[str, str], called: Place) -> Node:
    """Returns the recorded node.

    `auto_functionalized`, which wraps a custom op that changes arguments, is recorded as a node of that custom op.
    """
    overload, given, keywords = cast(Any, node.target), list(node.args), dict(node.kwargs)
    if overload is torch.ops.higher_order.auto_functionalized:
        overload, given = cast(Any, given[0]), []
    if isinstance(node.target, HigherOrderOperator) and overload is node.target:
        op = f"{HIGHER_ORDER}.{overload.name()}.default"
    else:
        op = f"{overload.namespace}.{schema_of_op(overload).name.split('::')[1]}.{overload_name(overload)}"
    name = values[node.name] = namer(op.split(".")[1])
    found = place_of(node.meta.get("stack_trace"))
    file, line = found if found[0] else called
    part = str(cast("dict[str, object]", node.meta.get("custom") or {}).get("part", ""))
    origin = Origin(name, op, file, line, _module(node, modules), part)
    made = [_arg(value, values, origin) for value in given]
    named = {key: _arg(value, values, origin) for key, value in keywords.items()}
    args, kwargs = (
        _by_schema(schema_of_op(overload), made, named) if op.split(".")[0] != HIGHER_ORDER else (made, named)
    )
    results = tuple(place for place, _ in _tensors(node.meta.get("val"), name))
    return Node(name, op, tuple(args), kwargs, results, origin)


def _by_schema(schema: Any, args: list[Arg], named: Mapping[str, Arg]) -> tuple[list[Arg], dict[str, Arg]]:
    """Sorts the arguments into positional and keyword-only ones."""
    kwargs: dict[str, Arg] = {}
    for index, argument in enumerate(schema.arguments):
        if argument.name in named and argument.kwarg_only:
            kwargs[argument.name] = named[argument.name]
        elif argument.name in named:
            args += [to_arg(skipped.default_value) for skipped in schema.arguments[len(args) : index]]
            args.append(named[argument.name])
    return args, kwargs


def _arg(value: object, values: Mapping[str, str], caller: Origin) -> Arg:
    if isinstance(value, torch.fx.Node):
        if value.op == "get_attr":
            return _body(value, caller)
        return Ref(values[value.name]) if value.name in values else to_arg(value.meta["val"])
    if isinstance(value, (list, tuple)):
        return Sequence(tuple(_arg(item, values, caller) for item in cast("list[object]", value)))
    return options_literal(cast("dict[str, object]", value)) if isinstance(value, dict) else to_arg(value)


def _body(attribute: torch.fx.Node, caller: Origin) -> AtenGraph:
    """Records a graph in an op's arguments as a graph of its own; nodes without a place have the caller's."""
    name, owner = str(attribute.target), cast("torch.fx.GraphModule", attribute.graph.owning_module)
    graph = cast("torch.fx.GraphModule", owner.get_submodule(name)).graph
    namer = Namer()
    values = {node.name: namer(node.name) for node in graph.find_nodes(op="placeholder")}
    types = {values[node.name]: to_type(_fake(node)) for node in graph.find_nodes(op="placeholder")}
    inputs, nodes = tuple(Input(value, "user", value) for value in types), list[Node]()
    for node in graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem:
            values[node.name] = f"{values[cast('torch.fx.Node', node.args[0]).name]}.{node.args[1]}"
        elif node.op == "call_function":
            _refuse_symbols(name, node)
            nodes.append(_node(node, namer, values, {}, (caller.file, caller.line)))
            types |= _types(nodes[-1], node.meta["val"], {})
    given = _arg(graph.output_node().args[0], values, caller)
    outputs = [arg.value for arg in (given.items if isinstance(given, Sequence) else (given,)) if isinstance(arg, Ref)]
    called = Tree("tuple", items=(Tree("tuple", items=(Tree("leaf"),) * len(inputs)), Tree("dict")))
    return AtenGraph(name, inputs, tuple(nodes), tuple(outputs), _tree(given), types, input_tree=called)


def _tree(given: Arg) -> Tree:
    """The containers of a body's results."""
    if isinstance(given, Sequence):
        return Tree("tuple", items=tuple(_tree(item) for item in given.items))
    return Tree("constant", constant=given) if isinstance(given, Literal) else Tree("leaf")


def _module(node: torch.fx.Node, modules: Mapping[str, str]) -> str:
    stack = cast("dict[str, tuple[str, object]]", node.meta.get("nn_module_stack") or {})
    for key, (path, _) in reversed(stack.items()):
        called = key.removeprefix("L__self__").partition("@")[0]  # `@1` of the second call of one module
        found = modules.get(called) if called.isdigit() else None
        if found is None:
            found = modules[path] if path in modules else module_as_written(path)
        return found
    return ""
