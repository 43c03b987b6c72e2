"""A pass over a kernel with its options: a frozen record that prints as a step of a pipeline and is read from one.

    promote = Promote(buffers=2)
    str(promote) == "npu-promote{buffers=2}"
    Promote.parse("buffers=2") == promote

Options are the record's fields: whole numbers, numbers, true or false, texts without spaces, lists (`a,b`), and numbers
by name (`m:32,n:64`). Options with their default are not printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast, get_args, get_origin, get_type_hints

from simulator.did_you_mean import did_you_mean

if TYPE_CHECKING:
    from torch_mlir import ir

_WORD: Final = re.compile(r"[^\s{},:=]+")


class OptionMistake(ValueError):
    """A text that is no options of this pass."""


@dataclass(frozen=True)
class KernelPass:
    """A pass; what derives from it is a frozen dataclass of its options, with a `run` of its own."""

    name: ClassVar[str] = ""
    """In pipelines. `@wb.mlir_pass` gives one to a user's."""

    def run(self, module: ir.Module) -> None:
        """Changes the module in place; MLIR verifies it afterwards."""
        raise NotImplementedError

    def options(self) -> str:
        """The text between the braces of the pipeline."""
        told = ((each.name, getattr(self, each.name)) for each in fields(self))
        kept = [(name, value) for name, value in told if value != _default_of(type(self), name)]
        return " ".join(f"{name}={_printed(f'{self.name}: {name}', value)}" for name, value in kept)

    def __str__(self) -> str:
        if not self.name:
            raise OptionMistake(f"{type(self).__name__} has no name: register it with @wb.mlir_pass('its-name')")
        options = self.options()
        return f"{self.name}{{{options}}}" if options else self.name

    @classmethod
    def parse(cls, options: str) -> Self:
        """The pass that prints so; `OptionMistake` if none does."""
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
        return cls(**given)


def _has_no_default(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _default_of(cls: type[KernelPass], name: str) -> object:
    field = next(each for each in fields(cls) if each.name == name)
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
    try:
        return wanted(text)
    except ValueError:
        expected = {int: "a whole number", float: "a number"}.get(wanted, wanted.__name__)
        raise OptionMistake(f"{name}={text}: expected {expected}") from None


def plain_options(text: str) -> dict[str, str]:
    """Options as texts, for a pass that is a function."""
    pairs = [item.partition("=") for item in text.split()]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise OptionMistake(f"{wrong[0]!r} is no option: expected key=value")
    return {name: value for name, _, value in pairs}
