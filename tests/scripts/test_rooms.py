"""The plan of `workbench`: who imports whom between its entries, on how many floors, and what loads late."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.rooms import BOUNDS, between_entries, between_packages, counts, floors, layers, upward, with_getattr

CONTRACT = """
[[tool.importlinter.contracts]]
id = "way"
layers = ["top", "middle | (beside)", "bottom"]
"""


def _tree(root: Path, **files: str) -> Path:
    (root / "pyproject.toml").write_text(CONTRACT)
    for name, text in files.items():
        path = root / "workbench" / name / "inside.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return root


@pytest.mark.test_all
def test_the_plan_keeps_its_bounds() -> None:
    found = counts(between_entries())
    assert found.keys() == BOUNDS.keys()
    assert all(found[what] <= most for what, most in BOUNDS.items()), found
    assert found["entries"] > 10 and found["floors"] > 5


def test_late_imports_and_imports_for_types_count(tmp_path: Path) -> None:
    root = _tree(
        tmp_path,
        top="def late():\n    import workbench.middle.inside\n",
        middle="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import workbench.bottom.inside\n",
        bottom="x = 1\n",
    )
    graph = between_entries(root)
    assert floors(graph) == ["top", "middle", "bottom"] and upward(graph, layers(root)) == []


@pytest.mark.parametrize("of, to", [("bottom", "middle"), ("middle", "beside"), ("beside", "top")])
def test_an_import_to_above_or_beside_is_found(tmp_path: Path, of: str, to: str) -> None:
    files = {"top": "", "middle": "", "beside": "", "bottom": ""} | {of: f"import workbench.{to}.inside\n"}
    root = _tree(tmp_path, **files)
    found = upward(between_entries(root), layers(root))
    assert found == [(f"workbench.{of}.inside", f"workbench.{to}.inside")]


PUT_TOGETHER = "def late(name):\n    import importlib\n    importlib.import_module(f'workbench.top.{name}')\n"


def test_an_import_of_a_name_that_is_put_together_is_found(tmp_path: Path) -> None:
    root = _tree(tmp_path, top="", bottom=PUT_TOGETHER)
    (root / "workbench" / "top" / "__init__.py").touch()
    assert upward(between_entries(root), layers(root)) == [("workbench.bottom.inside", "workbench.top")]


def test_an_import_of_a_package_above_is_found(tmp_path: Path) -> None:
    root = _tree(tmp_path, middle="import templates.sort\n", bottom="import simulator.errors\n")
    for name, text in {"simulator/errors.py": "import workbench.bottom.inside\n", "templates/sort.py": ""}.items():
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    assert between_packages(root) == [
        ("simulator.errors", "workbench.bottom.inside"),
        ("workbench.middle.inside", "templates.sort"),
    ]


@pytest.mark.parametrize("text", ["def __getattr__(name): ...\n", "__getattr__ = print\n"])
def test_a_module_that_loads_its_names_late_is_found(tmp_path: Path, text: str) -> None:
    root = _tree(tmp_path, top=text, middle="class Late:\n    def __getattr__(self, name): ...\n")
    assert with_getattr(root) == ["workbench.top.inside"]
