"""The border to PyTorch: this PyTorch has each private part, and one that lacks it is told in one sentence."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from scripts.check_private_torch import Taken, needs
from scripts.torch_inside_page import PAGE, page
from workbench.ground.errors import MissingInPyTorch
from workbench.ground.torch_inside.needs import takes

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {f"{each.file.stem}-{each.names[0].strip('(),')}": each for each in needs(ROOT)}
PARTS = {f"{name}-{path}": (each, path) for name, each in NEEDS.items() for path in each.paths}


def test_the_folder_has_needs_and_no_two_of_one_name() -> None:
    assert len(NEEDS) == len(list(needs(ROOT))) > 90


@pytest.mark.parametrize("name", NEEDS)
def test_this_pytorch_has_what_is_taken(name: str) -> None:
    need = NEEDS[name]
    takes(*need.paths, use=need.use, instead=need.instead).check(name)


@pytest.mark.parametrize("name", NEEDS)
def test_a_need_says_what_for_and_what_public_way_there_is(name: str) -> None:
    need = NEEDS[name]
    assert need.use.endswith(".") and need.instead and not need.instead.endswith(".")


@pytest.mark.parametrize("name", PARTS)
def test_a_pytorch_without_the_part_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need, path = PARTS[name]
    importlib.import_module(f"workbench.ground.torch_inside.{need.file.stem}")  # with all that it imports
    takes(*need.paths, use=need.use, instead=need.instead).check()  # which imports PyTorch's modules
    before = anew(need.file)
    take_away(path, monkeypatch)
    with pytest.raises(MissingInPyTorch) as told:
        use(need, before)
    assert f"has no {path}, which" in str(told.value) and f"Public way: {need.instead}." in str(told.value)
    assert need.use in str(told.value)


def use(need: Taken, before: ModuleType) -> None:
    """Uses the need as in a process of its own; `before` is its file, run when PyTorch had the part."""
    if need.kind == "function":
        getattr(before, need.names[0])()  # the parts are looked up before the arguments
    elif need.kind == "import":
        anew(need.file)
    else:  # a name as a text, which PyTorch itself looks up
        takes(*need.paths, use=need.use, instead=need.instead).check()


def anew(file: Path) -> ModuleType:
    """Runs a file again, as a module that nobody else has."""
    spec = importlib.util.spec_from_file_location("workbench_border_anew", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def take_away(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has PyTorch lack a part."""
    plain, called, _ = path.partition("(")
    owner, _, name = plain.rpartition(".")
    if called:  # what the call makes lacks it
        make = getattr(found(owner), name)
        monkeypatch.setattr(found(owner), name, lambda *given: Without(make(*given), path.rpartition(".")[2]))
        return
    if isinstance(sys.modules.get(path), ModuleType):
        monkeypatch.setitem(sys.modules, path, None)
        if name in vars(found(owner)):
            monkeypatch.delattr(found(owner), name)
        return
    try:
        monkeypatch.delattr(found(owner), name)
        lacks = not hasattr(found(owner), name)
    except (AttributeError, KeyError, TypeError):  # of a class in C, inherited, or a method of settings
        lacks = False
    if not lacks:
        stand_in(owner, Without(found(owner), name), monkeypatch)


class Without:
    """An object that lacks one attribute."""

    def __init__(self, whole: object, lacks: str) -> None:
        self.whole, self.lacks = whole, lacks

    def __getattr__(self, name: str) -> object:
        if name == self.lacks:
            raise AttributeError(name)
        return getattr(self.whole, name)


def stand_in(path: str, other: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts another object in the place of a part."""
    owner, _, name = path.rpartition(".")
    if isinstance(sys.modules.get(path), ModuleType):
        monkeypatch.setitem(sys.modules, path, other)
    monkeypatch.setattr(found(owner), name, other, raising=False)


def found(path: str) -> Any:
    """The object of a dotted name; a module where PyTorch has a function of the same name."""
    value: Any = torch
    for name, prefix in prefixes(path):
        value = sys.modules.get(prefix) or getattr(value, name)
    return value


def prefixes(path: str) -> Iterator[tuple[str, str]]:
    parts = path.split(".")
    return ((parts[count], ".".join(parts[: count + 1])) for count in range(1, len(parts)))


def test_what_a_function_takes_is_looked_up_at_its_first_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    @takes("torch._C._dispatch_dump", instead="none")
    def asked() -> int:
        """Returns one."""
        return 1

    assert asked.__doc__ == "Returns one.\n\nTakes torch._C._dispatch_dump. Public way: none."
    assert asked() == 1
    monkeypatch.delattr(torch._C, "_dispatch_dump")
    assert asked() == 1


def test_without_pytorch_the_lack_of_it_is_told_and_not_that_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match="torch"):
        takes("torch._C", use="", instead="none").check()


def test_an_error_of_the_block_is_passed_on() -> None:
    with pytest.raises(ZeroDivisionError), takes("torch._C", use="", instead="none"):
        _ = 1 // 0


def test_the_page_is_as_the_sources_say() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page(ROOT), "run python scripts/torch_inside_page.py"
