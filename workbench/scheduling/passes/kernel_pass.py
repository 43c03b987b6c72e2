"""A pass over a kernel with its options: a frozen dataclass that prints as a pipeline step and is parsed from one.

    promote = Promote(buffers=2)
    str(promote) == "npu-promote{buffers=2}"
    Promote.parse("buffers=2") == promote

Options are the dataclass's fields: integers, floats, true or false, texts without spaces, lists (`a,b`), and numbers
by name (`m:32,n:64`). Options with default values are not printed. A pass of ours without options is a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast, get_args, get_origin, get_type_hints

from simulator.did_you_mean import did_you_mean

if TYPE_CHECKING:
    from torch_mlir import ir

_WORD: Final = re.compile(r"[^\s{},:=]+")


class OptionMistake(ValueError):
    """The error for an invalid text of a pass's options."""


@dataclass(frozen=True)
class KernelPass:
    """A pass. A subclass is a frozen dataclass whose fields are its options, with its own `run`."""

    name: ClassVar[str] = ""
    """The pass's name in pipelines. `@wb.mlir_pass` sets it for a user's pass."""

    def run(self, module: ir.Module) -> None:
        """Changes the module in place; MLIR verifies it afterwards."""
        raise NotImplementedError

    def options(self) -> str:
        """The text between the braces of the pipeline."""
        told = ((each, getattr(self, each.name)) for each in fields(self))
        kept = [(each.name, value) for each, value in told if value != _default_of(each)]
        return " ".join(f"{name}={_printed(f'{self.name}: {name}', value)}" for name, value in kept)

    def __str__(self) -> str:
        if not vars(type(self)).get("name"):  # an inherited name belongs to another pass
            raise OptionMistake(f"{type(self).__name__} has no name: register it with @wb.mlir_pass('its-name')")
        options = self.options()
        return f"{self.name}{{{options}}}" if options else self.name

    @classmethod
    def parse(cls, options: str) -> Self:
        """The pass with the options in a text; `OptionMistake` if the text is invalid."""
        types, given = get_type_hints(cls), dict[str, Any]()
        known = [each.name for each in fields(cls)]
        for item in options.split():
            name, equals, text = item.partition("=")
            if not equals or name not in known:
                expected = f"its options are {', '.join(known)}" if known else "it has none"
                raise OptionMistake(f"there is no option {item!r}{did_you_mean(name, known)}; {expected}")
            if name in given:
                raise OptionMistake(f"{name} is given twice")
            given[name] = _read(name, text, types[name])
        missing = [each.name for each in fields(cls) if each.name not in given and _has_no_default(each)]
        if missing:
            expected = " ".join(f"{name}=..." for name in missing)
            raise OptionMistake(f"{', '.join(missing)} must be given: {cls.name}{{{expected}}}")
        try:
            return cls(**given)
        except (TypeError, ValueError) as error:  # raised by a __post_init__
            raise OptionMistake(f"{cls.__name__}: {error}") from None


@dataclass(frozen=True)
class ModulePass:
    """One of the workbench's own passes without options: a function that changes a module in place."""

    name: str
    run: Callable[[ir.Module], None]

    def __str__(self) -> str:
        return self.name

    def parse(self, options: str) -> Self:
        """The pass itself; `OptionMistake` for any option."""
        if item := next(iter(options.split()), ""):
            raise OptionMistake(f"there is no option {item!r}; it has none")
        return self


def module_pass(name: str) -> Callable[[Callable[[ir.Module], None]], ModulePass]:
    """Makes a function the pass `name`."""
    return lambda run: ModulePass(name, run)


_PLAIN: Final = (int, float, bool, str)
_NUMBERS: Final[Mapping[Any, str]] = {int: "a whole number", float: "a number"}
_EXPECTED: Final = "int, float, bool, str, tuple of one of these and ..., or Mapping from str to one of these"
_OURS: Final = ("name", "options", "parse", "run")


def check_options(cls: type[KernelPass]) -> None:
    """Raises `OptionMistake` for a class whose options could not be parsed from a pipeline."""
    try:
        types = get_type_hints(cls)
    except Exception as error:
        raise OptionMistake(f"the types of its options cannot be resolved in its module: {error}") from None
    for each in fields(cls):
        where = f"its option {each.name}"
        if each.name in _OURS:
            raise OptionMistake(f"{where} has the name of a part of every pass; give it another name")
        if not each.init:
            raise OptionMistake(f"{where} has init=False, and so cannot be given in a pipeline")
        if not _is_readable(types[each.name]):
            raise OptionMistake(f"{where} is a {types[each.name]!r}; expected {_EXPECTED}")


def _is_readable(wanted: Any) -> bool:
    arguments = get_args(wanted)
    if get_origin(wanted) is tuple:
        return len(arguments) == 2 and arguments[0] in _PLAIN and arguments[1] is Ellipsis
    if get_origin(wanted) is Mapping:
        return arguments[0] is str and arguments[1] in _PLAIN
    return wanted in _PLAIN


def text_of(made: KernelPass) -> str:
    """The pipeline string of a pass; `OptionMistake` if parsing it would give another pass."""
    text = str(made)
    back = type(made).parse(made.options())
    if repr(back) != repr(made):
        raise OptionMistake(f"{made!r} would be read back as {back!r}: give its options values of their types")
    return text


def _has_no_default(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _default_of(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _printed(where: str, value: object) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return ",".join(f"{_printed(where, key)}:{_printed(where, each)}" for key, each in pairs)
    if isinstance(value, tuple):
        return ",".join(_printed(where, each) for each in cast("tuple[object, ...]", value))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not _WORD.fullmatch(text):
        raise OptionMistake(f"{where} = {value!r}: a text in a pipeline has no spaces and none of {{}} , : =")
    return text


def _read(name: str, text: str, wanted: Any) -> Any:
    items = text.split(",") if text else []
    if get_origin(wanted) is tuple:
        return tuple(_read(name, item, get_args(wanted)[0]) for item in items)
    if get_origin(wanted) is Mapping:
        pairs = (item.partition(":") for item in items)
        return {key: _read(name, value, get_args(wanted)[1]) for key, _, value in pairs}
    if wanted is bool:
        if text not in ("true", "false"):
            raise OptionMistake(f"{name}={text}: expected true or false")
        return text == "true"
    mistake = OptionMistake(f"{name}={text}: expected {_NUMBERS.get(wanted, wanted.__name__)}")
    if wanted in _NUMBERS and not text.isascii():  # Python reads the digits of every script
        raise mistake
    try:
        return wanted(text)
    except ValueError:
        raise mistake from None


def plain_options(text: str) -> dict[str, str]:
    """The options as texts by name, for a pass that is a function."""
    pairs = [item.partition("=") for item in text.split()]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise OptionMistake(f"{wrong[0]!r} is no option: expected key=value")
    return {name: value for name, _, value in pairs}
