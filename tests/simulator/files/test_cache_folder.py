"""The folder of caches: its bound, what goes first, and what two processes make of it at once."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simulator.errors import BadSetting
from simulator.files.cache_folder import FOLDER, LIMIT, bytes_in, drop_unused, limit_bytes, user_cache

DAY = 24 * 3600


def made(cache: Path, name: str, days_ago: float, size: int = 1 << 19) -> Path:
    """A folder of a compiled simulator that was last used so long ago."""
    folder = cache / f"numba-{name}"
    (folder / "engine").mkdir(parents=True)
    (folder / "engine" / "index.nbi").write_bytes(bytes(size))
    os.utime(folder, (time.time() - days_ago * DAY,) * 2)
    return folder


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def test_what_was_unused_longest_goes_first_and_what_may_be_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(LIMIT, "2")
    ours = made(tmp_path, "ours", 0)
    for name, days in (("c", 3), ("a", 5), ("b", 4), ("d", 2)):
        made(tmp_path, name, days)
    (tmp_path / "kernels").mkdir()
    drop_unused(ours, "numba-*")
    assert left(tmp_path) == ["kernels", "numba-b", "numba-c", "numba-d", "numba-ours"]
    assert bytes_in(tmp_path) == limit_bytes() == 2 << 20
    for name in "efg":
        made(tmp_path, name, 0.1)
    drop_unused(ours, "numba-*")
    assert left(tmp_path) == ["kernels", "numba-e", "numba-f", "numba-g", "numba-ours"]
    for name in "hij":
        made(tmp_path, name, 0.1)
    drop_unused(ours, "numba-*")
    assert len(left(tmp_path)) == 8, "too many, and all of them used today"


def test_one_s_own_folder_stays_however_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LIMIT, "0.25")
    ours, other = made(tmp_path, "ours", 9), made(tmp_path, "other", 2)
    drop_unused(ours, "numba-*")
    assert ours.is_dir() and not other.exists()


def test_several_at_once_are_in_nobody_s_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LIMIT, "1")
    ours = made(tmp_path, "ours", 0)
    for number in range(40):
        made(tmp_path, str(number), 2 + number, 1 << 16)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: drop_unused(ours, "numba-*"), range(8))) == [None] * 8
    assert left(tmp_path) == sorted([*(f"numba-{number}" for number in range(8)), "numba-ours"])


@pytest.mark.parametrize("given", ["lots", "0", "-1", "nan", "inf", "1e30"])
def test_a_bound_is_a_number_of_megabytes(given: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(LIMIT, given)
    with pytest.raises(BadSetting, match=f"{LIMIT}='{given}' is no size; expected megabytes, .* Unset it for 256"):
        limit_bytes()
    monkeypatch.setenv(LIMIT, "")
    assert limit_bytes() == 256 << 20


@pytest.mark.parametrize("given", ["off", "0", "~/kernels", "./cache"])
def test_the_folder_is_a_whole_path(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A relative one would be another folder in each working directory, a repository's root among them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDER, given)
    with pytest.raises(BadSetting, match=f"{FOLDER}='{given}' is no whole path .*Unset it"):
        user_cache()
    assert not left(tmp_path)
    monkeypatch.setenv(FOLDER, str(tmp_path / "mine"))
    assert user_cache() == tmp_path / "mine"
    monkeypatch.setenv(FOLDER, "")
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert user_cache() == Path.home() / ".cache" / "aten-workbench"
