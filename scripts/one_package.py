"""Makes the wheel: one package, `workbench`, with all that the repository has beside it.

`simulator` and `templates` go into it, and imports of them become those of `workbench.simulator`: another's package may
have such a name (docs/design/wheel.md). So does the course: the notebooks, the recorded journeys and the pages of docs
become `workbench/course`. In the repository they stay at the top. pyproject.toml names these classes, so that
`pip wheel .` uses them.
"""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("simulator", "templates")
COURSE = ("notebooks/*.ipynb", "notebooks/recorded/*.journey", "notebooks/recorded/*.py", "docs/*.md")

_FROM = re.compile(rf"^([ \t]*from )({'|'.join(PARTS)})(?=[. ])", re.M)
_DOTTED = re.compile(rf"^([ \t]*import )({'|'.join(PARTS)})(?=\.[\w.]+ as )", re.M)
_WHOLE = re.compile(rf"^([ \t]*)import ({'|'.join(PARTS)})(?= as |$)", re.M)


def inside(name: str) -> str:
    """The name in the wheel of a package of the repository."""
    return f"workbench.{name}" if name.partition(".")[0] in PARTS else name


def with_imports_inside(source: str) -> str:
    """The source of a module with its imports of what goes into `workbench`; each line stays where it is."""
    source = _DOTTED.sub(r"\1workbench.\2", _FROM.sub(r"\1workbench.\2", source))
    return _WHOLE.sub(r"\1from workbench import \2", source)


def imports_outside(source: str) -> list[str]:
    """The imports of what goes into `workbench` by the name that it has beside it."""
    found = list[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append(node.module or "")
    return [name for name in found if inside(name) != name]


class BuildOnePackage(build_py):
    """Copies the packages and the course into `workbench`; an editable installation reads them in the repository."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if not self.editable_mode:
            self.packages = [inside(name) for name in self.packages or ()]
            self.package_dir = {**self.package_dir, **{inside(name): name for name in PARTS}}

    def run(self) -> None:
        if not self.editable_mode:
            for name in PARTS:  # left by a build from before they went inside; all of the folder goes into the wheel
                shutil.rmtree(Path(self.build_lib) / name, ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        for source, target in self.course():
            self.mkpath(str(Path(target).parent))
            self.copy_file(source, target, preserve_mode=False)

    def build_module(self, module: str, module_file: str, package: str) -> tuple[str, bool]:
        target, copied = super().build_module(module, module_file, package)
        if not self.editable_mode:
            source = with_imports_inside(Path(module_file).read_text(encoding="utf-8"))
            if left := imports_outside(source):
                raise ValueError(f"{module_file} imports {', '.join(left)} in a form that the wheel cannot have")
            Path(target).write_text(source, encoding="utf-8")
        return target, copied

    def course(self) -> list[tuple[str, str]]:
        """Each file of the course, and where it goes."""
        files = [path for part in COURSE for path in sorted(ROOT.glob(part))]
        folder = Path(self.build_lib) / "workbench" / "course"
        return [(str(path.relative_to(ROOT)), str(folder / path.relative_to(ROOT))) for path in files]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *(target for _, target in self.course())]


class OneName(egg_info):
    """Says that the distribution has one name, by which Python finds what to uninstall or to install for an import."""

    def run(self) -> None:
        super().run()
        Path(self.egg_info, "top_level.txt").write_text("workbench\n", encoding="utf-8")
