"""The benchmark against a real TPU: its workloads, and what it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    import accuracy

    monkeypatch.setattr(sys, "argv", ["accuracy.py", *arguments])
    return accuracy.main()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gemm_5x6x7", (5, 7)),
        ("conv_2x9x8x3x4x3x2x1", (2, 4, 5, 4)),
        ("layernorm_4x6", (4, 6)),
        ("softmax_3x5", (3, 5)),
        ("attention_2x8x4", (2, 4, 8)),
        ("bert_base", (512, 768)),
        ("resnet18", (1, 1000)),
        ("resnet50", (1, 1000)),
    ],
)
def test_workloads_are_what_their_names_say(name: str, shape: tuple[int, ...]) -> None:
    from workloads import workload

    given = workload(name)
    with torch.no_grad():
        assert given.function(*given.inputs).shape == shape


def test_networks_have_as_many_weights_as_published() -> None:
    from workloads import workload

    def weights(name: str) -> int:
        module = workload(name).function
        assert isinstance(module, torch.nn.Module)
        return sum(each.numel() for each in module.parameters())

    assert weights("resnet18") == 11_689_512
    assert weights("resnet50") == 25_557_032
    assert weights("bert_base") == 7_087_872


@pytest.mark.parametrize("name", ["gemm_5x6", "gemm_5x6xy", "resnet19", ""])
def test_other_names_are_refused(name: str) -> None:
    from workloads import UnknownWorkload, workload

    with pytest.raises(UnknownWorkload, match=r"known are resnet18, .*gemm_MxKxN"):
        workload(name)


def test_json_is_all_there_is_on_stdout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("workload,tpu_v3_cycles,other\ngemm_8x8x8,1000,5\nsoftmax_4x8,,\n")
    assert run(monkeypatch, "--table", str(table), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    gemm, softmax = printed["rows"]
    assert gemm["workload"] == "gemm_8x8x8" and gemm["measured"] == 1000 and gemm["simulated"] > 0
    assert softmax["measured"] is None and softmax["simulated"] > 0
    assert printed["mean_abs_error"] == pytest.approx(abs(gemm["simulated"] - 1000) / 1000)


def test_without_measurements_there_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("workload\ngemm_8x8x8\n")
    assert run(monkeypatch, "--table", str(table), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["mean_abs_error"] is None and printed["rows"][0]["measured"] is None


def test_what_cannot_be_simulated_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("workload,tpu_v3_cycles\ngemm_8x8,10\n")
    assert run(monkeypatch, "--table", str(table)) == 2
    assert "'gemm_8x8'" in capsys.readouterr().err
    table.write_text("name\nx\n")
    assert run(monkeypatch, "--table", str(table)) == 2
    assert "no column `workload`" in capsys.readouterr().err
    table.write_text("workload,tpu_v3_cycles\ngemm_8x8x0,10\ngemm_8x8x8,10\n")
    assert run(monkeypatch, "--table", str(table), "--set", "scratchpad_bytes_per_lane=32") == 1
    assert "gemm_8x8x8: " in capsys.readouterr().err
