"""The facts of an operator without a kernel, and the parts of its skeleton that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, cast

import torch

from workbench.ground.errors import BadOption
from workbench.ground.torch_inside.operator_objects import parsed_schema
from workbench.operators.aten.overload_names import overloads
from workbench.operators.aten.overload_schema import schema_of
from workbench.operators.new_op.operator_probe import Sample, is_tensor, sample_of

_TAKEN: Final = frozenset(
    {
        *("self", "kernel", "signature", "dims", "tile", "order", "buffers", "lanes", "machine"),
        *("attributes", "slot", "prologue", "epilogue", "zero", "one"),
    }
)
"""Names that have another meaning in a template's text; `self` is Jinja's."""

_FLOAT: Final = re.compile(r"(?<=[=\[, -])\d+\.\d*(e[+-]?\d+)?")
"""Matches a default in a schema as PyTorch prints it: 0.10000000000000001 for 0.1."""

_LOOP_NAMES = re.compile(r"(d|size_d|tile_d|extent_d)\d+")


@dataclass(frozen=True, slots=True)
class ArgumentFacts:
    """An argument of the schema."""

    name: str
    type: str
    default: str | None
    """The default as Python code; None if the argument is required."""
    keyword: bool
    tensor: bool

    @property
    def optional(self) -> bool:
        """True if the argument may be None."""
        return "Optional" in self.type

    @property
    def is_list(self) -> bool:
        return "List" in self.type

    @property
    def tensors(self) -> int:
        """The number of the kernel's tensors for this argument: two for a list, none if it may be left out."""
        if not self.tensor or self.optional or self.default is not None:
            return 0
        return 2 if self.is_list else 1

    @property
    def parameter(self) -> str:
        """This argument as the parameter of a Python function."""
        return self.name if self.default is None else f"{self.name}={self.default}"


@dataclass(frozen=True)
class OpFacts:
    """An operator: its names, arguments and results, and a call that it accepts."""

    qualified: str
    """`aten::hardswish`."""
    overloads: tuple[str, ...]
    """The overloads with the same tensors; one kernel can compute all of them."""
    others: tuple[str, ...]
    """The overloads with other tensors, which need a kernel of their own."""
    schema: str
    arguments: tuple[ArgumentFacts, ...]
    results: int
    sample: Sample | None
    defined: bool
    """True if PyTorch knows the op; otherwise the skeleton must define it."""
    beside: str = ""
    """The files of the op's other kernel in the same folder; empty if there are none."""
    suffix: str = ""
    clashing: dict[str, str] = field(default_factory=dict[str, str])
    """Overloads that are registered on the same route, and their owners."""

    @property
    def tensors(self) -> tuple[str, ...]:
        """The required tensors, by their names in a template's text."""
        names: list[str] = []
        for each in self.arguments:
            names += [each.name] if each.tensors == 1 else [f"{each.name}{place}" for place in range(each.tensors)]
        return _text_names(names)

    @property
    def optional(self) -> tuple[str, ...]:
        """The tensors that may be left out."""
        return tuple(each.name for each in self.arguments if each.tensor and not each.tensors)

    @property
    def attributes(self) -> tuple[ArgumentFacts, ...]:
        """The arguments that are no tensors."""
        return tuple(each for each in self.arguments if not each.tensor)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of a Python function of the op."""
        return tuple(each.parameter for each in self.arguments)

    @property
    def name(self) -> str:
        """A Python name for the op: `hardswish`."""
        return self.qualified.split("::")[1].strip("_")

    @property
    def stem(self) -> str:
        """The stem of the file names: `aten_hardswish`. With the namespace a file never shadows a module of
        Python's."""
        return f"{self.qualified.split('::')[0]}_{self.name}{self.suffix}"

    @property
    def class_name(self) -> str:
        return "".join(part[:1].upper() + part[1:] for part in self.name.split("_"))

    @property
    def elementwise(self) -> bool:
        """True if the op computes number by number. A new op counts as elementwise, the simplest case."""
        return self.sample.elementwise if self.sample else not self.defined

    @property
    def outputs(self) -> tuple[str, ...]:
        """The results' names in a template's text."""
        return ("out",) if self.results == 1 else tuple(f"out{place}" for place in range(self.results))

    def kind(self, way: str) -> str:
        """The op's kind for the fusion rules."""
        if not self.elementwise or self.results != 1:
            return "opaque"
        return "elementwise" if way == "builder" else "tile"

    @property
    def compute(self) -> str:
        """The type of a builder's computation: floats, unless the op is for integers or returns booleans."""
        kinds = (self.sample.dtype, self.sample.result_dtype) if self.sample else ("float32", "float32")
        return "float" if all("float" in kind for kind in kinds) else "own"

    @property
    def overloads_tuple(self) -> str:
        return _tuple(self.overloads)

    @property
    def names_tuple(self) -> str:
        return _tuple((*self.tensors, *self.outputs))

    @property
    def function(self) -> str:
        """The name of a function that calls the op."""
        return self.name if self.name not in self.tensors else f"{self.name}_"

    @property
    def signature(self) -> str:
        """The schema without the name."""
        return self.schema[self.schema.index("(") :]

    @property
    def fake(self) -> str:
        result = f"torch.empty_like({self.parameters[0].split('=')[0]})"
        if self.results > 1:
            result = ", ".join([result] * self.results)
        return f"{result}  # fill in, if the result has another shape or type: a tensor like the result"

    @property
    def call(self) -> str:
        """A call of the op with the tensors and values for its required attributes."""
        names = iter(self.tensors)
        positional: list[str] = []
        keywords: list[str] = []
        examples = self.sample.attributes if self.sample else {}
        for each in self.arguments:
            if each.tensors:
                items = [next(names) for _ in range(each.tensors)]
                value = f"[{', '.join(items)}]" if each.is_list else items[0]
            elif each.default is None:
                value = "None" if each.optional else repr(examples[each.name]) if each.name in examples else "..."
            else:
                continue
            (keywords if each.keyword else positional).append(f"{each.name}={value}" if each.keyword else value)
        namespace = self.overloads[0].split(".")
        return f"torch.ops.{'.'.join(namespace)}({', '.join([*positional, *keywords])})"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes for a test: for an elementwise op a single number, ragged and round ones; else those that the probe
        found."""
        if self.elementwise:
            return [(1, 1), (47, 10), (128, 128)]
        return [self.sample.shape] if self.sample else [(16, 16)]

    @property
    def make_input(self) -> str:
        """Code that makes an input tensor of the op."""
        dtype = self.sample.dtype if self.sample else "float32"
        return {
            "int64": "torch.randint(1, 9, shape)",
            "bool": "torch.randn(shape) > 0",
        }.get(dtype, "torch.randn(shape)")


def _tuple(items: tuple[str, ...]) -> str:
    return "(" + ", ".join(f'"{item}"' for item in items) + ("," if len(items) == 1 else "") + ")"


def facts_of(name: object, *, probe: bool = True) -> OpFacts:
    """The facts of an op that PyTorch knows; raises `UnknownOverload` for any other. Without `probe` the op is not
    called."""
    known = [each for each in overloads(name) if not _writes(schema_of(each))] or list(overloads(name))
    main = max(known, key=_plainness)
    schema = schema_of(main)
    same = tuple(each for each in known if _needed(schema_of(each)) == _needed(schema))
    namespace, op, _ = main.split(".")
    others = tuple(each for each in known if each not in same)
    return _facts(f"{namespace}::{op}", same, others, schema, sample_of(main, schema) if probe else None, defined=True)


def facts_of_new(qualified: str, signature: str) -> OpFacts:
    """The facts of an op that does not exist yet, from a signature like `(Tensor x, float alpha=1.0) -> Tensor`."""
    try:
        schema = parsed_schema(f"{qualified}{signature}")
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise BadOption(
            f"schema {signature!r} of {qualified} cannot be read: {reason} Expected a signature in PyTorch's notation, "
            f"such as '(Tensor x, Tensor gate, float alpha=1.0) -> Tensor'"
        ) from None
    return _facts(qualified, (f"{qualified.replace('::', '.')}.default",), (), schema, None, defined=False)


def _facts(
    qualified: str,
    same: tuple[str, ...],
    others: tuple[str, ...],
    schema: torch.FunctionSchema,
    sample: Sample | None,
    *,
    defined: bool,
) -> OpFacts:
    return OpFacts(
        qualified=qualified,
        overloads=same,
        others=others,
        schema=_FLOAT.sub(lambda found: repr(float(found.group())), str(schema)),
        arguments=tuple(map(_argument, schema.arguments)),
        results=len(schema.returns),
        sample=sample,
        defined=defined,
    )


def _argument(given: torch.Argument) -> ArgumentFacts:
    default = repr(given.default_value) if given.has_default_value() else None
    return ArgumentFacts(given.name, str(given.type), default, given.kwarg_only, is_tensor(given))


def _may_be_missing(argument: torch.Argument) -> bool:
    return argument.has_default_value() or (is_tensor(argument) and "Optional" in str(argument.type))


def _plainness(overload: str) -> tuple[bool, bool, int]:
    """The sort key for the main overload: its results are tensors, it is the default one, it has most tensors."""
    schema = schema_of(overload)
    plain = all(str(each.type) == "Tensor" for each in schema.returns)
    return plain, overload.endswith(".default"), sum(map(is_tensor, schema.arguments))


def _needed(schema: torch.FunctionSchema) -> list[tuple[str, str]]:
    return [(each.name, str(each.type)) for each in schema.arguments if is_tensor(each) or not _may_be_missing(each)]


def _writes(schema: torch.FunctionSchema) -> bool:
    """True if an overload changes an argument in place. Captured graphs are functional, so they never hold such an
    overload."""
    return any(each.alias_info is not None and each.alias_info.is_write for each in cast("list[Any]", schema.arguments))


def _text_names(names: list[str]) -> tuple[str, ...]:
    """The names, changed where they have another meaning in a template's text."""
    found: list[str] = []
    for name in names:
        name = "x" if name == "self" and "x" not in names else name
        while name in _TAKEN or name in found or name.startswith("out") or _LOOP_NAMES.fullmatch(name):
            name = f"{name}_in"
        found.append(name)
    return tuple(found)
