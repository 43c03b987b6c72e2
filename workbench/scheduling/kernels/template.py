"""Templates: kernels written by hand, as MLIR text in the scheduled form or with the bindings.

A template class is instantiated for one node. It defines the kernel's dims, their default tiles and the scratchpad
tiles, and renders the function with all its loops, copies and arithmetic. That text is only checked, never changed:
exactly this text runs and is timed.

    class Double(Template):
        source = '''
    func.func @{{ kernel }}({{ signature }}) {
      ...
    }
    '''

Text is Jinja: `{{ X.memref }}` is the type of the first input, `{{ tile.d0 }}` the tile of dim d0, and so on (see
`Template.options`). A source that ends in `.mlir.j2` is a file beside the class.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from torch_mlir import ir

from simulator.machine.machine import Machine
from workbench.ground.environment.call_sites import cell_name, cell_with
from workbench.ground.environment.owners import Owner
from workbench.ground.errors import TemplateHookUnused, TemplateOutputError, TemplateSyntaxError
from workbench.ir import Hook, Literal, Mapping, Node, TensorType
from workbench.ir.graph import row_major
from workbench.mlir.bindings import memref_text
from workbench.mlir.dialect import SCRATCHPAD, SLOTS
from workbench.scheduling.importing.importer import element_type, layout_strides, memref_type_text
from workbench.scheduling.kernels.hooks import hook_op
from workbench.scheduling.kernels.rendered_text import MARK, Place, Rendering, jinja_line, text_start, unmarked

if TYPE_CHECKING:
    import jinja2


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument of the kernel: a tensor in DRAM."""

    name: str
    type: TensorType

    @property
    def memref(self) -> str:
        """The MLIR type of the argument."""
        return memref_type_text(self.type)

    @property
    def element(self) -> str:
        return element_type(self.type.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    @property
    def part(self) -> str:
        """The type of a subview of the argument whose offsets and sizes are all SSA values."""
        extents = "x".join(["?"] * self.rank + [self.element])
        strides = ", ".join(map(str, layout_strides(self.type)))
        offset = "?" if any(layout_strides(self.type)) else str(self.type.offset)
        return f"memref<{extents}, strided<[{strides}], offset: {offset}>>"


@dataclass(frozen=True, slots=True)
class Tile:
    """A scratchpad tile: its extents, its element type, and the number of slots that iterations use in turn."""

    shape: tuple[int, ...]
    dtype: str
    slots: int = 1

    @property
    def element(self) -> str:
        return element_type(self.dtype)

    @property
    def memref(self) -> str:
        """The type of the whole buffer; with more than one slot, the leading extent is the number of slots."""
        shape = (self.slots, *self.shape) if self.slots > 1 else self.shape
        return f"memref<{'x'.join([*map(str, shape), self.element])}, 1>"

    @property
    def attributes(self) -> str:
        """The attributes of the buffer's `memref.alloc`."""
        return f" {{{SLOTS} = {self.slots} : i64}}" if self.slots > 1 else ""

    @property
    def part(self) -> str:
        """The type of one slot's subview whose sizes are all SSA values."""
        sizes, offset = ["?"] * len(self.shape), "?" if self.slots > 1 else 0
        return memref_text(sizes, self.element, row_major(self.shape), offset, SCRATCHPAD)

    def alloc(self, name: str) -> str:
        """The line that allocates the buffer."""
        return f"{name} = memref.alloc(){self.attributes} : {self.memref}"

    def dealloc(self, name: str) -> str:
        return f"memref.dealloc {name} : {self.memref}"

    def subview(self, result: str, buffer: str, slot: str, sizes: list[str]) -> str:
        """The line that takes a tile of these sizes from a slot; `slot` is not used if there is only one."""
        zeros, ones = ["0"] * len(sizes), ["1"] * len(sizes)
        if self.slots > 1:
            zeros, sizes, ones = [slot, *zeros], ["1", *sizes], ["1", *ones]
        groups = " ".join(f"[{', '.join(group)}]" for group in (zeros, sizes, ones))
        return f"{result} = memref.subview {buffer}{groups} : {self.memref} to {self.part}"


class Template:
    """A kernel written by hand for one node. Subclass it, set `source` or override `render`, and register it."""

    source: ClassVar[str] = ""
    """The function as Jinja text, or the name of a `.mlir.j2` file beside the class."""

    names: ClassVar[tuple[str, ...]] = ()
    """SSA names of the arguments, inputs first; by default X, Y for one input and one output."""

    def __init__(self, node: Node, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> None:
        self.node = node
        names = self.names or _default_names(len(inputs), len(outputs))
        tensors = [Tensor(name, kind) for name, kind in zip(names, (*inputs, *outputs), strict=True)]
        self.inputs, self.outputs = tuple(tensors[: len(inputs)]), tuple(tensors[len(inputs) :])
        self.hooks: dict[str, Hook] = {}
        self.hooks_called: set[str] = set()

    # What a subclass defines

    def dims(self) -> dict[str, int]:
        """The dims that a mapping may tile; by default those of the first output."""
        return {f"d{axis}": extent for axis, extent in enumerate(self.outputs[0].shape)}

    def tile(self, machine: Machine) -> dict[str, int]:
        """The default tile of each dim: the whole dim."""
        return self.dims()

    def filled(self, elements: int) -> dict[str, int]:
        """A tile of at most this many elements that is as long as possible in the innermost dims."""
        tile: dict[str, int] = {}
        for dim, extent in reversed(self.dims().items()):
            tile[dim] = min(extent, max(1, elements // math.prod(tile.values())))
        return {dim: tile[dim] for dim in self.dims()}

    def mapping(self, machine: Machine) -> Mapping:
        """The default mapping."""
        return Mapping(self.tile(machine), tuple(self.dims()), self.buffers(), {}, "the template's own")

    def buffers(self) -> int:
        """The default number of slots of a moved buffer."""
        return 1

    def tiles(self, mapping: Mapping) -> dict[str, Tile]:
        """The scratchpad tiles that the text uses, by their names in it."""
        return {}

    def options(self, mapping: Mapping, machine: Machine) -> dict[str, object]:
        """The variables of the text. Extend with `super().options(...) | {...}`."""
        tensors = {tensor.name: tensor for tensor in (*self.inputs, *self.outputs)}
        return {
            "kernel": self.kernel,
            "signature": ", ".join(f"%{name}: {tensor.memref}" for name, tensor in tensors.items()),
            "dims": self.dims(),
            "tile": mapping.tile,
            "order": mapping.order,
            "buffers": mapping.buffers,
            "lanes": machine.vector.lanes,
            "machine": machine,
            "attributes": self.attributes(),
            "slot": partial(self.slot, mapping),
            "prologue": self.prologue,
            "epilogue": self.epilogue,
            **tensors,
            **self._tiles(mapping),
        }

    def _tiles(self, mapping: Mapping) -> dict[str, Tile]:
        made = cast("object", self.tiles(mapping))
        if isinstance(made, dict) and all(isinstance(each, Tile) for each in cast("dict[str, object]", made).values()):
            return cast("dict[str, Tile]", made)
        wanted = "a Tile for each name in the text, as in {'x': Tile((16, 16), 'f32')}"
        reason = f"tiles() returned {made!r:.80}; expected {wanted}"
        raise TemplateOutputError(type(self).__name__, Owner.of(self.tiles).place, reason)

    def slot(self, mapping: Mapping, loops: Iterable[str]) -> str:
        """The op that computes the slot of an iteration: the iteration's number modulo the slots.

        `loops` are the dims of the surrounding loops, outermost first; their variables have the names of the dims.
        """
        number = "0"
        for place, dim in enumerate(loops):
            trips = math.ceil(self.dims()[dim] / mapping.tile[dim])
            number = f"({number}) * {trips} + i{place} floordiv {mapping.tile[dim]}"
        names = ", ".join(f"i{place}" for place, _ in enumerate(loops))
        variables = ", ".join(f"%{dim}" for dim in loops)
        return f"affine.apply affine_map<({names}) -> (({number}) mod {mapping.buffers})>({variables})"

    def prologue(self, tensor: str, tile: str, kind: str) -> str:
        """The op that applies the pointwise nodes before this one to input `tensor`'s tile; '' if there are none."""
        return self._hook(tensor, tile, kind)

    def epilogue(self, tile: str, kind: str) -> str:
        """The op that applies the pointwise nodes after this one to the output's tile; '' if there are none."""
        return self._hook(self.outputs[0].name, tile, kind)

    def _hook(self, tensor: str, tile: str, kind: str) -> str:
        self.hooks_called.add(tensor)
        hook = self.hooks.get(tensor)
        return hook_op(hook, tile, kind, self._rank(tensor)) if hook is not None else ""

    def _rank(self, name: str) -> int:
        return next(tensor.rank for tensor in (*self.inputs, *self.outputs) if tensor.name == name)

    def attributes(self) -> dict[str, object]:
        """The node's arguments other than tensors: positional ones by place (`arg1`), keyword ones by name."""
        given = {f"arg{place}": arg for place, arg in enumerate(self.node.args)} | self.node.kwargs
        return {name: arg.value for name, arg in given.items() if isinstance(arg, Literal)}

    def environment(self) -> jinja2.Environment:
        """The Jinja environment of the text; an undefined name is an error."""
        import jinja2  # takes 20 ms, and most programs have no template of text

        return jinja2.Environment(
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
        )

    def render(self, mapping: Mapping, machine: Machine) -> str | ir.Module:
        """The kernel for this mapping on this machine: text, or a module made with the bindings."""
        return self.environment().from_string(self.marked_source()).render(self.options(mapping, machine))

    # What the stages use

    kernel: str = "kernel"
    """Name of the function, set before rendering."""

    def rendered(self, mapping: Mapping, machine: Machine) -> Rendering:
        """The rendered kernel, with the template line that each of its lines came from."""
        place = self._place()
        try:
            made = self.render(mapping, machine)
        except TemplateOutputError:
            raise
        except (Exception, SystemExit) as error:  # of the user's text or methods; the error names their line
            import jinja2

            if isinstance(error, jinja2.TemplateSyntaxError):
                told = error.message or "not valid Jinja"
                raise TemplateSyntaxError(place.name, place.at(error.lineno), told) from None
            reason = f"{type(error).__name__}: {error}"
            raise TemplateSyntaxError(place.name, place.at(jinja_line(error)), reason) from error
        unused = sorted(set(self.hooks) - self.hooks_called)
        if unused:
            raise TemplateHookUnused(place.name, place.at(None), unused[0], self.outputs[0].name)
        if isinstance(made, ir.Module):
            return Rendering(str(made), str(made), (), place)
        if not isinstance(made, str):  # pyright: ignore[reportUnnecessaryIsInstance] - written by users
            raise TemplateOutputError(
                place.name, place.at(None), f"render() gave {type(made).__name__}; expected MLIR text or an ir.Module"
            )
        return unmarked(made, place)

    def text(self) -> str:
        """The template's text; if `source` names a file, the file's text."""
        if not self.source:
            reason = "source is empty; expected the text of its MLIR, or the name of a .mlir.j2 file"
            raise TemplateOutputError(type(self).__name__, _file_of(type(self)), reason)
        if not self.source.endswith(".mlir.j2"):
            return self.source
        return (Path(_file_of(self._class_that_sets("source"))).parent / self.source).read_text("utf-8")

    def _class_that_sets(self, attribute: str) -> type:
        """The class whose body sets the attribute: this class or a base class."""
        return next((cls for cls in type(self).__mro__ if attribute in vars(cls)), type(self))

    def marked_source(self) -> str:
        """The text with the template's line number as a comment at the end of each line."""
        out: list[str] = []
        line = 1
        for _, kind, value in self.environment().lex(self.text()):
            if kind == "data":
                pieces = value.split("\n")
                for piece in pieces[:-1]:
                    out += [piece, f"{MARK}{line}", "\n"] if piece.strip() or out[-1:] != ["\n"] else [piece, "\n"]
                    line += 1
                out.append(pieces[-1])
            else:
                out.append(value)
                line += value.count("\n")
        return "".join(out)

    def _place(self) -> Place:
        name = type(self).__name__
        if not isinstance(self.source, str):  # pyright: ignore[reportUnnecessaryIsInstance] - written by users
            reason = f"source is {type(self.source).__name__}; expected text, or the name of a .mlir.j2 file"
            raise TemplateOutputError(name, _file_of(type(self)), reason)
        owner = self._class_that_sets("source") if self.source else type(self)
        if owner.__module__ == "__main__" and not self.source.endswith(".mlir.j2"):
            if (cell := cell_with(self.source)) is not None:
                return Place(name, cell_name(cell[0]), cell[1])
            if (cell := cell_with(f"class {owner.__name__}")) is not None:
                return Place(name, cell_name(cell[0]), None)
        file = _file_of(owner)
        if self.source.endswith(".mlir.j2"):
            return Place(name, str(Path(file).parent / self.source), 0)
        return Place(name, file, text_start(file, self.source))


def _file_of(cls: type) -> str:
    """The file of a class, or its module's name in a notebook: files beside it are then in the working folder."""
    try:
        return inspect.getsourcefile(cls) or inspect.getfile(cls)
    except (OSError, TypeError):
        module = sys.modules.get(cls.__module__)
        return str(getattr(module, "__file__", None) or cls.__module__)


def _default_names(inputs: int, outputs: int) -> tuple[str, ...]:
    if (inputs, outputs) == (1, 1):
        return ("X", "Y")
    return (*(f"in{place}" for place in range(inputs)), *(f"out{place}" for place in range(outputs)))


def instantiate(
    registered: Callable[..., object],
    node: Node,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    kernel: str,
    hooks: tuple[Hook, ...] = (),
) -> Template:
    """The template of a node, from its registered class; `kernel` is the name of its function.

    `hooks` are the pointwise neighbours in its kernel.
    """
    made = registered(node, inputs, outputs)
    if not isinstance(made, Template):
        name = getattr(registered, "__qualname__", repr(registered))
        raise TemplateOutputError(
            name, node.origin.place, f"it is registered as a template of {node.op}, but it computes {made!r}"
        )
    made.kernel = kernel
    for hook in hooks:
        made.hooks[(made.outputs[0] if hook.place < 0 else made.inputs[hook.place]).name] = hook
    return made
