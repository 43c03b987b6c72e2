"""The registry: exact names, one owner for each key, replacement, scopes; and what it tells."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import workbench as wb
from tests.fresh_process import python
from workbench.ground import errors
from workbench.operators.aten.registry import Registry
from workbench.operators.ops.listing import handlers

SOURCE = """
def build(op):
    return {answer}
"""


def cell(source: str, number: int) -> Callable[..., Any]:
    """A function as a notebook cell defines it: in `__main__`, from a file that is not there."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, f"/tmp/ipykernel_1/{number}.py", "exec"), scope)
    return scope["build"]


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Modules with a file of their own that define `build`."""
    made: list[str] = []

    def make(name: str) -> ModuleType:
        file = tmp_path / f"{name}.py"
        file.write_text(SOURCE.format(answer=1))
        module = ModuleType(name)
        exec(compile(file.read_text(), str(file), "exec"), module.__dict__)
        sys.modules[name] = module
        made.append(name)
        return module

    yield make
    for name in made:
        sys.modules.pop(name, None)


def build(op: object) -> None: ...


def test_an_overload_never_catches_its_siblings(registry: Registry):
    registry.builder("aten.add.Tensor", dialect="math")(build)
    now = registry.now()
    found = now.find("aten.add.Tensor", "builder")
    assert found is not None and found.value is build
    assert now.find("aten.add.Scalar", "builder") is None
    assert now.find("aten.add.Tensor", "template") is None


def test_a_name_without_overload_is_every_overload_over_tensors(registry: Registry):
    registry.builder("aten.add", dialect="math")(build)
    names = {item.overload for item in registry.now()}
    assert names == {"aten.add.Tensor", "aten.add.Scalar", "aten.add.out", "aten.add.Scalar_out"}


@pytest.mark.parametrize("name", ["aten.add.Tensor", "aten::add.Tensor", torch.ops.aten.add.Tensor])
def test_a_name_may_be_written_as_torch_writes_it(registry: Registry, name: object):
    registry.executor(name)(build)
    assert [item.overload for item in registry.now()] == ["aten.add.Tensor"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aten.hypott", "did you mean aten.hypot"),
        ("aten.add.Tensr", "has no overload 'Tensr'; its overloads are aten.add.Tensor"),
        ("hypot", "it names no operator"),
        ("nowhere::op", "no namespace 'nowhere'"),
        (3, "'int' is no operator"),
    ],
)
def test_a_name_that_is_no_overload_says_what_might_be_meant(registry: Registry, name: object, message: str):
    with pytest.raises(errors.UnknownOverload, match=message):
        registry.builder(name, dialect="math")(build)


def test_the_same_name_in_two_namespaces_is_two_ops(registry: Registry):
    with torch.library._scoped_library("registrytest", "DEF") as library:
        library.define("hypot(Tensor x, Tensor y) -> Tensor")
        registry.builder("registrytest::hypot", dialect="math")(build)
        assert [item.overload for item in registry.now()] == ["registrytest.hypot.default"]
        assert registry.now().find("aten.hypot.default", "builder") is None


def test_running_a_cell_again_replaces_what_it_registered(registry: Registry):
    first, again = cell(SOURCE.format(answer=1), 1), cell(SOURCE.format(answer=2), 2)
    for made in (first, again):
        registry.builder("aten.hypot.default", dialect="math")(made)
    (only,) = registry.now()
    assert only.value(None) == 2


def test_a_module_loaded_again_replaces_and_another_one_is_refused(
    registry: Registry, modules: Callable[[str], ModuleType]
):
    decorate = registry.builder("aten.hypot.default", dialect="math")
    decorate(modules("first_owner").build)
    decorate(modules("first_owner").build)
    assert len(registry.now()) == 1
    with pytest.raises(errors.RegistrationClash) as caught:
        decorate(modules("second_owner").build)
    assert "first_owner.py:2" in str(caught.value) and "second_owner.py:2" in str(caught.value)
    assert "wb.ops.drop('aten.hypot.default')" in str(caught.value)
    with pytest.raises(errors.RegistrationClash, match="first_owner"):
        decorate(cell(SOURCE.format(answer=1), 1))


def test_whatever_somebody_registers_goes_before_what_is_shipped():
    shipped = Registry()
    shipped.fill_from(lambda into: into.template("aten.hypot.default")(build))
    assert shipped.now().kernel_maker("aten.hypot.default").route == "template"  # pyright: ignore[reportOptionalMemberAccess]
    shipped.builder("aten.hypot.default", dialect="tosa")(build)
    assert shipped.now().kernel_maker("aten.hypot.default").route == "builder"  # pyright: ignore[reportOptionalMemberAccess]


def test_whoever_reads_the_registry_finds_what_is_shipped():
    code = (
        "from workbench.operators.aten.registry import DEFAULT\nimport sys\n"
        "print('templates' in sys.modules, len(DEFAULT.now()) > 100, 'workbench.journey' in sys.modules)"
    )
    assert python("-c", code) == "False True False\n"


def test_builders_in_two_dialects_live_together_and_one_is_preferred(registry: Registry):
    registry.builder("aten.hypot.default", dialect="math")(build)
    registry.builder("aten.hypot.default", dialect="tosa")(lambda op: None)
    now = registry.now()
    assert now.dialects == ("math", "tosa")
    for prefer, expected in ((None, "math"), ("tosa", "tosa"), ("elsewhere", "math")):
        found = now.find("aten.hypot.default", "builder", prefer)
        assert found is not None and found.dialect == expected


def test_a_scope_undoes_what_was_added_replaced_and_dropped(registry: Registry):
    registry.builder("aten.hypot.default", dialect="math")(build)
    before = registry.now()
    with pytest.raises(ZeroDivisionError), registry.scope():
        registry.drop("aten.hypot.default")
        registry.executor("aten.add.Tensor")(build)
        assert [item.route for item in registry.now()] == ["executor"]
        _ = 1 / 0
    assert dict(registry.now().by_key) == dict(before.by_key)


def test_what_was_taken_down_before_does_not_change(registry: Registry):
    before = registry.now()
    registry.executor("aten.add.Tensor")(build)
    assert len(before) == 0 and len(registry.now()) == 1


def test_what_is_shipped_is_registered_once_before_anything_else(registry: Registry):
    calls: list[int] = []

    def fill(into: Registry) -> None:
        calls.append(1)
        into.builder("aten.hypot.default", dialect="math")(build)

    registry.fill_from(fill)
    registry.executor("aten.add.Tensor")(build)
    assert [item.overload for item in registry.now()] == ["aten.hypot.default", "aten.add.Tensor"]
    assert calls == [1]


def test_registrations_that_mean_nothing_are_refused(registry: Registry):
    with pytest.raises(errors.BadRegistration, match="was given no overload"):
        registry.executor(build)
    with pytest.raises(errors.BadRegistration, match=r"kind='elementwice' .* expected one of elementwise"):
        registry.builder("aten.hypot.default", dialect="math", kind="elementwice")(build)
    with pytest.raises(errors.BadRegistration, match="expected a function or a class"):
        registry.executor("aten.hypot.default")(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(errors.BadRegistration, match="no registration exists"):
        registry.drop("aten.hypot.default")


def test_the_table_has_a_row_for_every_registration_with_its_owner():
    with wb.ops.scope():
        wb.ops.executor("aten.add.Tensor")(build)
        table = wb.ops.table()
    assert list(table.columns) == ["overload", "route", "owner", "file", "line", "dialect", "kind"]
    row = table[(table.overload == "aten.add.Tensor") & (table.route == "executor")].iloc[0]
    assert (row.owner, row.file, row.line) == (f"{__name__}.build", __file__, build.__code__.co_firstlineno)
    shipped = table[table.overload == "aten.hypot.default"].iloc[0]
    assert (shipped.route, shipped.dialect, shipped.kind) == ("builder", "math", "elementwise")


@pytest.mark.parametrize(
    ("overload", "route", "why"),
    [
        ("aten.hypot.default", "builder", "templates.special"),
        ("aten.add.Tensor", "automatic", "torch-mlir imports it"),
        ("aten.softmax.int", "automatic", "workbench/operators/formulas"),
        ("aten.transpose.int", "view", "no kernel"),
        ("aten.lgamma.default", "host", "host link"),
    ],
)
def test_who_makes_an_overload_and_why(overload: str, route: str, why: str):
    found = wb.ops.who(overload)
    assert found.route == route and why in str(found)


def test_who_of_a_packet_answers_for_each_overload():
    assert {each.overload: each.route for each in handlers("aten.hypot")} == {
        "aten.hypot.default": "builder",
        "aten.hypot.out": "host",
    }
