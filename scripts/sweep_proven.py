"""Tests which overloads are safe between which element types, and writes workbench/operators/aten/proven.json.

    python scripts/sweep_proven.py [--jobs N] [--samples N] [--only TEXT] [--listed] [--dry]

PyTorch's own list of operators has sample calls for each element type. Each is run once in eager mode, and every ATen
call below it that the workbench has a route for becomes a graph of one node; so does a plain call of each overload
for each pair of element types. Each graph goes to a worker process, which lowers, imports,
schedules for two machines, compiles for each level of processor that this one has, and runs on watched memory. What a
worker survives counts for all nodes that the
lowering made of it; where one dies, each of these nodes is tried alone, and those that die are left out, whatever other
samples say of them. What is not on the list still works: it costs a trial, once.

`--only` keeps the entries of overloads whose names do not hold the text as they are. `--listed` tries what is on the
list, each entry once and on one machine, and takes off what is not found safe again: for other processors, or after a
change of the compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, product
from queue import SimpleQueue
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map

import workbench.journey  # noqa: F401 - which hands the shipped operators to the registry
from workbench.ground.environment.processor import NATIVE, available, processor_named
from workbench.ground.faults.messages import Message
from workbench.ground.faults.trial import OK, TRIALS, Trial, Trials, Verdict
from workbench.ground.faults.worker_process import WorkerProcess
from workbench.ir import AtenGraph, Input, LoweredNode, Node, Origin, Ref, TensorType, Tree, codec
from workbench.lowering.lower import lower
from workbench.operators.aten import proven
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.aten.registry import DEFAULT
from workbench.operators.formulas import FORMULAS
from workbench.operators.formulas.formula_builder import infer
from workbench.operators.tensors.element_types import DTYPES
from workbench.operators.tensors.torch_literals import to_arg, to_overload, to_type

MACHINES = ("tpu-v3", "edge-8x8")
PROCESSORS = (*[name for name in available() if name != "x86-64"], NATIVE)
"""Each level that this processor has, and all it has. NumPy itself wants more than the first level."""

MIXED = {torch.float32, torch.int64, torch.bool}
"""The element types that models put beside others: weights and sums, indices and Python numbers, masks."""

MOST_ELEMENTS = 1 << 16
"""Samples are small; the few large ones show nothing that small ones do not."""


@dataclass
class Found:
    """The results of the trials, by overload and signature."""

    safe: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    harmful: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    told: list[str] = field(default_factory=list[str])

    def news_of_list(self, items: Sequence[LoweredNode], types: Mapping[str, TensorType]) -> bool:
        """Whether these nodes are all on the list as it is, and not all are known to be safe still."""
        made = {(item.node.op, proven.signature(item.node, types)) for item in items}
        on_list = all(signature in proven.known().get(op, ()) for op, signature in made)
        return on_list and any(signature not in self.safe[op] for op, signature in made)

    def listed(self) -> dict[str, list[str]]:
        return {op: kept for op, each in sorted(self.safe.items()) if (kept := sorted(each - self.harmful[op]))}


class Calls(TorchDispatchMode):
    """Collects the calls below an operator that the workbench has a route for, each with its tensors' types."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs: list[AtenGraph] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = f"{func.namespace}.{func._schema.name.split('::')[1]}.{func._overloadname}"
        if has_route(name):
            graph = graph_of(name, args, kwargs or {})
            self.graphs += [graph] if graph else []
        return func(*args, **(kwargs or {}))


@cache
def has_route(name: str) -> bool:
    registered = DEFAULT.now().of(name)
    return class_of(name) not in (None, "view") or name in FORMULAS or any(each.kind for each in registered)


def graph_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AtenGraph | None:
    """The call as a record; None for one that a record cannot hold, or that has nothing to compute."""
    types: dict[str, TensorType] = {}

    def recorded(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        types[f"x{len(types)}"] = to_type(value, base_offset=int(value.storage_offset()))
        return Ref(f"x{len(types) - 1}")

    args, kwargs = tree_map(recorded, (args, kwargs))
    if not types or any(each.dtype not in DTYPES or each.numel > MOST_ELEMENTS for each in types.values()):
        return None
    if any(not each.numel for each in types.values()):
        return None
    inputs = tuple(Input(value, "user", value) for value in types)
    try:
        origin = Origin("y", name)
        node = Node("y", name, tuple(map(to_arg, args)), {k: to_arg(v) for k, v in kwargs.items()}, ("y",), origin)
        found = infer(node, types)
    except Exception:  # it does not take such tensors, whatever it says of it
        return None
    if any(not each.numel for each in found):
        return None
    results = tuple(f"y.{place}" for place, _ in enumerate(found)) if len(found) > 1 else ("y",)
    node = Node(node.name, node.op, node.args, node.kwargs, results, origin)
    types |= dict(zip(results, found, strict=True))
    tree = Tree("tuple", items=tuple(Tree("leaf") for _ in results)) if len(results) > 1 else Tree("leaf")
    return AtenGraph("f", inputs, (node,), results, tree, types)


def graphs(samples: int, only: str) -> Iterator[AtenGraph]:
    """One graph for each call, a few of each overload and signature, no two alike."""
    seen: set[str] = set()
    counts: defaultdict[str, int] = defaultdict(int)
    for graph in chain(plain_calls(), sample_calls(samples)):
        (node,) = graph.nodes
        kind = f"{node.op} {proven.signature(node, graph.types)}"
        text = json.dumps(codec.encode(graph), sort_keys=True)
        if only in node.op and counts[kind] < samples and text not in seen:
            counts[kind] += 1
            seen.add(text)
            yield graph


def plain_calls() -> Iterator[AtenGraph]:
    """Every overload that has a route on matrices of one type, and of two, with a number for what else it must have."""
    names = sorted({str(each.name).replace("::", ".") for each in torch._C._jit_get_all_schemas()})
    for name in names:
        for overload in _overloads(name):
            if has_route(f"{name}.{overload}"):
                yield from plain_calls_of(f"{name}.{overload}")


def plain_calls_of(overload: str) -> Iterator[AtenGraph]:
    """The calls of one overload: for each pair of element types that it takes."""
    schema = to_overload(overload)._schema
    needed = [each for each in schema.arguments if not each.has_default_value() and not each.kwarg_only]
    for first, second in product(DTYPES.values(), DTYPES.values()):
        tensors = iter([torch.ones(6, 6, dtype=first), *[torch.ones(6, 6, dtype=second)] * 2])
        args = [next(tensors, None) if "Tensor" in str(each.type) else 2 for each in needed]
        mixed = {first, second} & MIXED and sum(map(torch.is_tensor, args)) > 1
        if first is second or mixed:
            graph = graph_of(overload, tuple(args), {})
            if graph is not None:
                yield graph
                yield from _masked(overload, args, first)


def _masked(overload: str, args: list[Any], dtype: torch.dtype) -> Iterator[AtenGraph]:
    """The same call with a mask, of bools and of numbers, for what takes one after what it must have."""
    schema = to_overload(overload)._schema
    if [each.name for each in schema.arguments[len(args) : len(args) + 1]] == ["attn_mask"]:
        for kind in (torch.bool, dtype):
            graph = graph_of(overload, (*args, torch.ones(6, 6, dtype=kind)), {})
            if graph is not None:
                yield graph


def _overloads(name: str) -> list[str]:
    namespace, op = name.split(".", 1)
    return list(getattr(getattr(torch.ops, namespace), op).overloads()) if namespace == "aten" else []


def sample_calls(samples: int) -> Iterator[AtenGraph]:
    """The calls below PyTorch's own samples of its operators."""
    from torch.testing._internal.common_methods_invocations import op_db  # takes seconds, and plain calls need none

    for number, info in enumerate(op_db, 1):
        sys.stderr.write(f"{number} of {len(op_db)}: {info.name}\n" if number % 100 == 0 else "")
        for dtype in DTYPES.values():
            if dtype in info.supported_dtypes("cpu"):
                yield from _calls(info, dtype, samples)


def _calls(info: Any, dtype: torch.dtype, samples: int) -> list[AtenGraph]:
    calls = Calls()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            for _, sample in zip(range(2 * samples), info.sample_inputs("cpu", dtype), strict=False):
                small = all(each.numel() <= MOST_ELEMENTS for each in tree_iter(sample.input) if torch.is_tensor(each))
                if small:
                    with calls:
                        info.op(sample.input, *sample.args, **sample.kwargs)
        except Exception:  # a sample that eager PyTorch refuses says nothing of us
            pass
    return calls.graphs


def nodes_of(graph: AtenGraph) -> tuple[list[LoweredNode], dict[str, TensorType]]:
    """The nodes that become kernels, on whatever route but the host's."""
    lowered = lower(graph)
    return [item for item in lowered.nodes if item.route in ("automatic", "builder", "template")], lowered.types


def tried(graph: AtenGraph, trials: Trials, machines: Sequence[str] = MACHINES) -> Verdict:
    body = {"graph": codec.encode(graph), "machines": machines, "processors": PROCESSORS}
    key = json.dumps([body, processor_named(NATIVE).target], sort_keys=True)
    return trials.verdict(Trial("node", key, lambda: Message(body), graph.nodes[0].op, ()))


def sweep_one(graph: AtenGraph, trials: Trials, found: Found, listed: bool) -> None:
    """Tries a call; with `listed` only one that makes what is on the list, and something not yet found safe."""
    try:
        items, types = nodes_of(graph)
    except Exception:  # a formula may meet what eager PyTorch refuses; the user would see it in capture
        return
    if not items or (listed and not found.news_of_list(items, types)):
        return
    machines = MACHINES[:1] if listed else MACHINES
    verdict = tried(graph, trials, machines)
    (node,) = graph.nodes
    what = f"{node.op} {proven.signature(node, graph.types)}"
    if verdict.outcome == OK:
        for item in items:
            found.safe[item.node.op].add(proven.signature(item.node, types))
        return
    found.told.append(f"{what}: {verdict.outcome} at {verdict.stage}: {verdict.reason.splitlines()[0]}")
    if verdict.harmless:
        return
    alone = [
        item for item in items if len(items) == 1 or not tried(alone_graph(item, types), trials, machines).harmless
    ]
    for item in alone or items:
        found.harmful[item.node.op].add(proven.signature(item.node, types))


def alone_graph(item: LoweredNode, types: dict[str, TensorType]) -> AtenGraph:
    node = item.node
    given = tuple(Input(value, "user", value) for value in node.operands)
    tree = Tree("tuple", items=tuple(Tree("leaf") for _ in node.results)) if len(node.results) > 1 else Tree("leaf")
    known = {value: types[value] for value in (*node.operands, *node.results)}
    return AtenGraph("f", given, (node,), node.results, tree, known)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--jobs", type=int, default=2, help="workers at a time (default: 2)")
    parser.add_argument("--samples", type=int, default=3, help="calls for each overload and signature (default: 3)")
    parser.add_argument("--only", default="", metavar="TEXT", help="sweep only overloads with this in their names")
    parser.add_argument("--listed", action="store_true", help="try what is on the list once, for these processors")
    parser.add_argument("--dry", action="store_true", help="tell what would be written, and write nothing")
    options = parser.parse_args()
    TRIALS.inside = True  # here graphs are only lowered; the workers do what may fault
    found = Found()
    idle: SimpleQueue[Trials] = SimpleQueue()
    for _ in range(options.jobs):
        idle.put(Trials(WorkerProcess()))

    def one(graph: AtenGraph) -> None:
        trials = idle.get()
        try:
            sweep_one(graph, trials, found, options.listed)
        finally:
            idle.put(trials)

    with ThreadPoolExecutor(options.jobs) as pool:
        for count, _ in enumerate(pool.map(one, graphs(options.samples, options.only)), 1):
            if count % 50 == 0:
                sys.stderr.write(f"{count} calls, {sum(map(len, found.safe.values()))} signatures\n")
    kept = {op: sorted(each) for op, each in proven.known().items() if options.only not in op}
    listed = dict(sorted({**found.listed(), **kept}.items())) if options.only else found.listed()
    sys.stderr.write("\n".join([*sorted(found.told), f"{sum(map(len, listed.values()))} signatures"]) + "\n")
    if not options.dry:
        write(listed)
    return 0


def write(listed: dict[str, list[str]]) -> None:
    rows = ",\n".join(f"  {json.dumps(op)}: {json.dumps(each)}" for op, each in listed.items())
    levels = json.dumps([name for name in PROCESSORS if name != NATIVE])
    text = f'{{\n "version": {proven.VERSION},\n "processors": {levels},\n "signatures": {{\n{rows}\n }}\n}}\n'
    proven.FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
