"""Records of captured graphs, kept on disk from one process to the next.

Dynamo has to read the function each time, since the function may depend on anything that Python holds. PyTorch's two
other passes, the export and the one that makes the program functional, see only Dynamo's graph, and take most of the
time of a capture. So their result is kept, with a key of all that they see.

The key contains each call of the graph with its arguments, place and module, each input tensor of the graph, the
settings of PyTorch that change an export, and the names that the record takes from the call. A graph with anything else
in it has no key: code that is not PyTorch's own (a custom op, a class of tensors, a mode), a graph within it, or a
constant. The line that asked for the trace is part of the key only if a call of the graph stands on that line.

An entry is the record as JSON, without the integers of inputs; the places of the record's inputs among the tensors of a
call; and the numbers of the nodes whose place is the line that asked for the trace.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import torch
from torch import nn

from workbench.capturing.capture_state import Capturing
from workbench.capturing.record_nodes import Recorded, Slot, numbers_of
from workbench.ground.environment.call_sites import Place, place_of
from workbench.ground.environment.disk_store import Store, made_by, packed, unpacked, user_store
from workbench.ground.torch_inside.capture_settings import (
    BUILT_IN_CLASS,
    DYNAMO_MARK,
    DYNAMO_MARKS,
    changed_settings,
    kernel_switches,
)
from workbench.ground.torch_inside.dispatch_modes import any_mode
from workbench.ground.torch_inside.functorch_layers import transform_at_work
from workbench.ground.torch_inside.module_names import BUILT_IN
from workbench.ground.torch_inside.operator_objects import is_overload, is_packet, kernels_in_words
from workbench.ground.torch_inside.tensor_inside import base_of, memory_of
from workbench.ir import AtenGraph, RecordFormatError, Tree, codec
from workbench.operators.tensors.tensor_memory import is_lazy


@dataclass(frozen=True)
class KeptGraph:
    """The entry for one graph's record in the store, which may have no such entry yet."""

    store: Store
    key: str
    slots: tuple[Slot, ...]
    """The tensors among which the record's inputs are found: the user's inputs, the graph's inputs, and results."""
    called: Place

    def get(self) -> Recorded | None:
        data = self.store.get(self.key)
        if data is None:
            return None
        try:
            graph, inputs, unplaced = _unpacked(data)
            slots = tuple(self.slots[place] for place in inputs)
            nodes = list(graph.nodes)
            for number in unplaced:
                origin = replace(nodes[number].origin, file=self.called[0], line=self.called[1])
                nodes[number] = replace(nodes[number], origin=origin)
        except (ValueError, KeyError, TypeError, IndexError, RecordFormatError):
            return None
        if len(slots) != len(graph.inputs) or not only_pytorchs(graph):
            return None
        numbers = numbers_of([each.value for each in graph.inputs], slots)
        return Recorded(replace(graph, nodes=tuple(nodes), numbers=numbers), slots)

    def put(self, recorded: Recorded) -> None:
        """Keeps a record, unless one of its inputs is not in `slots`, such as a constant, or an op has a kernel that is
        not PyTorch's."""
        first = {id(slot.tensor): place for place, slot in reversed(list(enumerate(self.slots)))}
        places = [first.get(id(slot.tensor)) for slot in recorded.slots]
        if None not in places and only_pytorchs(recorded.graph):
            record = codec.encode(replace(recorded.graph, numbers=()))
            origins = enumerate(node.origin for node in recorded.graph.nodes)
            unplaced = [number for number, origin in origins if (origin.file, origin.line) == self.called]
            self.store.put(self.key, packed({"graph": record, "inputs": places, "unplaced": unplaced}))


def kept_graph(
    trace: Capturing,
    gm: torch.fx.GraphModule,
    given: Sequence[torch.Tensor],
    leaves: Sequence[int | Slot],
    tree: Tree,
) -> KeptGraph | None:
    """Returns the entry for the record of a graph; None if the disk keeps nothing, or no key covers the graph."""
    store = user_store("graphs")
    if store is None:
        return None
    inside = [trace.slot_of(tensor, f"constant{number}") for number, tensor in enumerate(given)]
    key = graph_key(trace, gm, given, inside, leaves, tree)
    if key is None:
        return None
    slots = (*trace.user, *inside, *(leaf for leaf in leaves if isinstance(leaf, Slot)))
    return KeptGraph(store, f"{key} {made_by()}", slots, trace.called)


def _unpacked(data: bytes) -> tuple[AtenGraph, Sequence[int], Sequence[int]]:
    entry = cast("dict[str, object]", unpacked(data))
    inputs, unplaced = (codec.decode(tuple[int, ...], entry[name]) for name in ("inputs", "unplaced"))
    return codec.decode(AtenGraph, entry["graph"]), inputs, unplaced


_PLAIN: Final = (torch.Tensor, nn.Parameter, nn.Buffer)
_SIMPLE: Final = (bool, int, float, complex, str, type(None), type(Ellipsis))
_NAMED: Final = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_SPACES: Final = (torch, torch.Tensor, nn.functional, torch.functional, torch.linalg, torch.special, torch.fft)
_CACHED: Final = type(functools.lru_cache(lambda: None))
_FILE: Final = re.compile(r"registered at (\S+\.py):\d+")
_ROOT: Final = os.path.dirname(str(torch.__file__)) + os.sep


class _NoKey(Exception):
    """A part of the graph that no key covers."""


def graph_key(
    trace: Capturing,
    gm: torch.fx.GraphModule,
    given: Sequence[torch.Tensor],
    slots: Sequence[Slot],
    leaves: Iterable[int | Slot],
    tree: Tree,
) -> str | None:
    """Returns a key that is the same for graphs with the same record; None for a graph that no key covers.

    `slots` are the origins of the tensors in `given`.
    """
    seen = any_mode() or transform_at_work()  # the user's code, which sees every call
    if any(registered.route == "conversion" for registered in trace.registrations) or seen or _replaced():
        return None
    places = [place_of(node.meta.get("stack_trace")) for node in gm.graph.nodes]
    try:
        told = {
            "nodes": _nodes(gm, trace),
            "places": [places, trace.called if trace.called in places else None],
            "given": [_tensor(tensor, given) for tensor in given],
            "slots": [[slot.kind, slot.path, _first(slot, slots), _first(slot, trace.user)] for slot in slots],
            "user": [[slot.path, _tensor(slot.tensor, given)] for slot in trace.user],
            "leaves": [leaf if isinstance(leaf, int) else _leaf(leaf, trace, slots) for leaf in leaves],
            "call": [trace.name, codec.encode(tree), codec.encode(trace.input_tree)],
            "settings": _settings(),
        }
    except _NoKey:
        return None
    return hashlib.sha256(json.dumps(told, default=repr).encode()).hexdigest()


def only_pytorchs(graph: AtenGraph) -> bool:
    """True if every kernel of the graph's ops comes from PyTorch: a user may have registered another kernel for an
    op."""
    for op in {node.op for node in graph.nodes}:
        namespace, name, overload = op.split(".")
        found = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        files = _FILE.findall(kernels_in_words(found))
        kernels = cast("dict[object, Callable[..., object]]", found.py_kernels).values()
        if not all(file.startswith(_ROOT) for file in files) or not all(map(_is_pytorchs, kernels)):
            return False
    return True


def _is_pytorchs(function: Callable[..., object]) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"


def _replaced() -> bool:
    """True if a function of PyTorch has been replaced by other code: a graph calls both by the same name."""
    found = (each for space in _SPACES for name, each in vars(space).items() if not name.startswith("_"))
    return any(map(_is_foreign, found))


def _is_foreign(value: object) -> bool:
    if isinstance(value, types.FunctionType):
        return not value.__code__.co_filename.startswith(_ROOT)
    if isinstance(value, _CACHED):
        return _is_foreign(cast(Any, value).__wrapped__)
    kind = type(value).__module__.partition(".")[0]
    return callable(value) and not isinstance(value, type) and kind not in ("builtins", "torch", "typing")


def _nodes(gm: torch.fx.GraphModule, trace: Capturing) -> list[object]:
    modules, found = trace.modules(), list[object]()
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "call_function", "call_method", "output"):
            raise _NoKey
        target = node.target if node.op != "call_function" else _function(node.target)
        stack = cast("dict[str, tuple[str, object]]", node.meta.get("nn_module_stack") or {})
        inside = [[modules.get(key.partition("@")[0]), modules.get(path, path)] for key, (path, _) in stack.items()]
        said = [_argument(each) for each in (node.args, node.kwargs, node.meta.get("custom"))]
        found.append([node.op, node.name, target, said, inside])
    return found


def _function(target: Any) -> str:
    """The name of a function of PyTorch or Python; raises `_NoKey` if the name now means another function."""
    if is_overload(target) or is_packet(target):
        if str(target).partition(".")[0] not in ("aten", "prims"):
            raise _NoKey
        return str(target)
    module, name = _home(target), str(getattr(target, "__qualname__", ""))
    known = module in ("_operator", "builtins", "math") or module.partition(".")[0] == "torch"
    if known and name.endswith("<locals>.fn"):  # as `max_pool2d`, which is one of two by an argument
        name = next((each for each, meant in vars(sys.modules[module]).items() if meant is target), "")
    meant: Any = sys.modules.get(module) if known and name else None
    for part in name.split("."):
        meant = getattr(meant, part, None)
    if meant is not target and meant != target:
        raise _NoKey
    return f"{module}.{name}"


def _home(target: Any) -> str:
    if isinstance(target, types.BuiltinFunctionType) and str(target.__qualname__).startswith(BUILT_IN_CLASS):
        return BUILT_IN
    return str(getattr(target, "__module__", ""))


def _argument(value: object) -> object:
    if isinstance(value, torch.fx.Node):
        return ["node", value.name]
    if type(value) in _SIMPLE or isinstance(value, _NAMED):
        return [type(value).__name__, repr(value)]
    if isinstance(value, slice):
        given = cast("Any", value)
        return ["slice", [_argument(part) for part in (given.start, given.stop, given.step)]]
    if isinstance(value, (list, tuple)):
        items = cast("list[object]", value)
        return [type(items).__name__, [_argument(part) for part in items]]
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return ["dict", [[_argument(key), _argument(part)] for key, part in pairs]]
    raise _NoKey


def _tensor(tensor: torch.Tensor, given: Sequence[torch.Tensor]) -> list[object]:
    """All properties of a tensor that PyTorch's stand-in for it has, and which of the `given` tensors share its
    memory."""
    if type(tensor) not in _PLAIN or is_lazy(tensor):
        raise _NoKey
    if any(name.startswith(DYNAMO_MARKS) and name != DYNAMO_MARK for name in vars(tensor)):
        raise _NoKey
    base = base_of(tensor)
    memory = memory_of(tensor)
    return [
        *(type(tensor).__name__, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), repr(tensor.dtype)),
        *(str(tensor.device), tensor.requires_grad, tensor.is_leaf, tensor.is_inference()),
        *(tensor.untyped_storage().nbytes(), [memory_of(other) == memory for other in given]),
        None if base is None else [tuple(base.shape), base.stride(), repr(base.dtype)],
    ]


def _first(slot: Slot, slots: Sequence[Slot]) -> int:
    """The number of the first slot with the same tensor; -1 if there is none."""
    return next((number for number, other in enumerate(slots) if other.tensor is slot.tensor), -1)


def _leaf(leaf: Slot, trace: Capturing, slots: Sequence[Slot]) -> list[object]:
    """Describes a result that is an input of the call or a tensor that the callable holds."""
    return [leaf.kind, leaf.path, _first(leaf, trace.user), _first(leaf, slots), _tensor(leaf.tensor, [])]


def _settings() -> list[object]:
    """Lists the settings that change the graph that PyTorch makes of a program."""
    return [
        *(str(torch.__version__), str(cast(Any, torch).version.git_version), sys.version),
        *(torch.is_autocast_enabled("cpu"), repr(torch.get_autocast_dtype("cpu")), torch.is_autocast_cache_enabled()),
        *(repr(torch.get_default_dtype()), torch.is_inference_mode_enabled(), torch.is_grad_enabled()),
        *(torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()),
        *kernel_switches(),
        [[[name, _setting(value)] for name, value in each] for each in changed_settings()],
    ]


def _setting(value: object) -> object:
    return sorted(map(repr, cast("set[object]", value))) if isinstance(value, set) else repr(value)
