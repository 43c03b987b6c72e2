"""Names of values: new ones that no other value has, arguments under other names, and arguments as text."""

from __future__ import annotations

from collections.abc import Container, Mapping

from workbench.ir.graph import Arg, AtenGraph, Ref, Sequence


def counted_name(wish: str, taken: Container[str]) -> str:
    """Returns a wish such as `add`, or the first of `add_1`, `add_2`, ... that is not taken."""
    name, count = wish, 0
    while name in taken:
        count += 1
        name = f"{wish}_{count}"
    return name


def marked_name(wish: str, taken: Container[str]) -> str:
    """Returns a wish such as `add.clone`, with underscores appended until the name is not taken."""
    while wish in taken:
        wish += "_"
    return wish


def with_names(arg: Arg, names: Mapping[str, str]) -> Arg:
    """Returns the argument with each value under its name in `names`."""
    if isinstance(arg, Ref):
        return Ref(names[arg.value])
    if isinstance(arg, Sequence):
        return Sequence(tuple(with_names(item, names) for item in arg.items))
    return arg


def written(arg: Arg) -> str:
    """Returns an argument as it would be written in a call."""
    if isinstance(arg, Ref):
        return arg.value
    if isinstance(arg, Sequence):
        return f"[{', '.join(written(item) for item in arg.items)}]"
    if isinstance(arg, AtenGraph):
        return f"{arg.name}({', '.join(given.value for given in arg.inputs)})"
    return repr(arg.value) if arg.kind == "str" else str(arg.value)
