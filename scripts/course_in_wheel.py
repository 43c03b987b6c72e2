"""Puts the course into the wheel: the notebooks, the recorded journeys and the pages of docs become `workbench/course`.

In the repository they stay at the top. pyproject.toml names this class, so that `pip wheel .` uses it.
"""

from __future__ import annotations

from pathlib import Path

from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("notebooks/*.ipynb", "notebooks/recorded/*.journey", "notebooks/recorded/*.py", "docs/*.md")


class BuildWithCourse(build_py):
    """Copies the packages, and the course beside them; an editable installation reads it in the repository."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source, target in self.course():
            self.mkpath(str(Path(target).parent))
            self.copy_file(source, target, preserve_mode=False)

    def course(self) -> list[tuple[str, str]]:
        """Each file of the course, and where it goes."""
        files = [path for part in PARTS for path in sorted(ROOT.glob(part))]
        folder = Path(self.build_lib) / "workbench" / "course"
        return [(str(path.relative_to(ROOT)), str(folder / path.relative_to(ROOT))) for path in files]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *(target for _, target in self.course())]
