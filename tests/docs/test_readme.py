"""The front page tells the truth: its example runs as printed, and its links lead somewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.fresh_process import python
from workbench.commands import cli

Capture = pytest.CaptureFixture[str]

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert len(found) == 4, f"the README has {len(found)} {language} blocks"
    return "".join(found)


@pytest.mark.test_all
def test_the_examples_print_what_the_readme_says(tmp_path: Path):
    example = tmp_path / "example.py"
    example.write_text(blocks("python"), encoding="utf-8")
    assert python(example, cwd=tmp_path, MPLBACKEND="agg") == blocks("text")
    assert (tmp_path / "timeline.png").stat().st_size > 10_000
    assert {path.name for path in tmp_path.glob("ffn.*")} == {"ffn.journey", "ffn.html", "ffn.json"}


@pytest.mark.parametrize("line", re.findall(r"^    workbench ([^#\n]*)", README, re.MULTILINE))
def test_commands_run_as_printed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture):
    if line.startswith("doctor"):
        pytest.skip("run by the doctor's own tests")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.webbrowser, "open", lambda _: True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shutil.copy(ROOT / "notebooks" / "recorded" / "softmax.journey", "FILE.journey")
    Path("FILE.py").write_text("import torch\n\nmodel, inputs = torch.relu, (torch.randn(3),)\n", encoding="utf-8")
    assert cli.main(line.split()) == cli.OK
    assert capsys.readouterr().out


def test_links_lead_to_files():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) > 4
    assert [target for target in targets if not target.startswith("http") and not (ROOT / target).exists()] == []


def test_the_commands_it_names_are_targets():
    assert set(re.findall(r"make ([a-z-]+)", README)) <= targets()


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_make_help_lists_every_target():
    done = subprocess.run(["make", "help"], capture_output=True, text=True, cwd=ROOT, check=True)
    assert set(re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE)) == targets()


def test_clean_cache_removes_what_is_ours_and_nothing_else(tmp_path: Path):
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workbench").rglob("*.py"))
    kept = re.findall(r'user_(?:folder|store)\("(\w+)"', sources)
    assert {"kernels", "native"} <= set(kept)
    for name in (*sorted(set(kept)), "numba-0123", "photos"):
        (tmp_path / name).mkdir()
    python("scripts/clean_cache.py", ATEN_WORKBENCH_CACHE=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
