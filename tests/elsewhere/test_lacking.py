"""The main path on a system without POSIX: no fcntl, resource, pwd, alarm, fork, /proc, mprotect, passed pipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh_process import python


def walked(way: str, cache: Path) -> None:
    code = f"import tests.elsewhere.lacking; from tests.elsewhere import walk; walk.walk({way!r})"
    assert python("-c", code, ATEN_WORKBENCH_KERNEL_CACHE=str(cache)).splitlines()[-1:] == ["walked"]
    assert not (cache / "native").exists(), "machine code is not kept where it cannot be linked"


def test_the_main_path_needs_nothing_that_only_posix_systems_have(tmp_path: Path) -> None:
    walked("main path", tmp_path / "cache")
    assert list((tmp_path / "cache" / "kernels").glob("*.entry"))


@pytest.mark.test_all
def test_kernels_that_go_wrong_are_found_without_it(tmp_path: Path) -> None:
    walked("faults", tmp_path / "cache")
