"""The benchmark against a real TPU: its workloads, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.benchmarks.conftest import OnTable


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
        ("add_7", (7,)),
        ("div_2x3x4", (2, 3, 4)),
        ("sigmoid_2x3", (2, 3)),
        ("rmsnorm_4x6", (4, 6)),
        ("batchnorm_2x3x4x5", (2, 3, 4, 5)),
        ("maxpool_2x9x8x4x3x2x1", (2, 4, 5, 4)),
        ("avgpool_2x9x8x4x3x2x1", (2, 4, 5, 4)),
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


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_tensors_have_the_type_that_is_asked_for(dtype: str) -> None:
    from workloads import DTYPES, workload

    for name in ("add_4", "layernorm_4x6", "batchnorm_2x3x4x5", "copy_2x3"):
        assert workload(name, dtype).inputs[0].dtype == DTYPES[dtype]
    scaled, given = workload("batchnorm_2x3x4x5", dtype), workload("gemm_2x3x4", dtype)
    assert scaled.function(*scaled.inputs).dtype == torch.float32, "the folded norm's result is f32"
    assert given.function(*given.inputs).dtype == DTYPES[dtype]
    assert given.resulting_in(torch.float32).function(*given.inputs).dtype == torch.float32
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("name", ["gemm_5x6", "gemm_5x6xy", "resnet19", "", "add", "add_", "add_5x", "relu_\u0663"])
def test_other_names_are_refused(name: str) -> None:
    from workloads import UnknownWorkload, workload

    with pytest.raises(UnknownWorkload, match=r"known are resnet18, .*gemm_MxKxN"):
        workload(name)


@pytest.mark.test_all
def test_json_is_all_there_is_on_stdout(on_table: OnTable) -> None:
    table = "workload,tpu_v3_cycles,other\ngemm_8x8x8,1000,5\nsoftmax_4x8,,\n"
    status, out, _ = on_table("accuracy", table, "--json")
    printed = json.loads(out)
    gemm, softmax = printed["rows"]
    assert status == 0
    assert gemm["workload"] == "gemm_8x8x8" and gemm["measured"] == 1000 and gemm["simulated"] > 0
    assert softmax["measured"] is None and softmax["simulated"] > 0
    assert printed["mean_abs_error"] == pytest.approx(abs(gemm["simulated"] - 1000) / 1000)


def test_without_measurements_there_is_no_error(on_table: OnTable) -> None:
    status, out, _ = on_table("accuracy", "workload\ngemm_8x8x8\n", "--json")
    printed = json.loads(out)
    assert status == 0 and printed["mean_abs_error"] is None and printed["rows"][0]["measured"] is None
    assert printed["mean_abs_error_theirs"] is None and printed["by_regime"] == {}


OF_MICROSECONDS = "workload,regime,input_dtype,output_dtype,measured_us,samples"


@pytest.mark.test_all
def test_microseconds_of_the_two_core_chip(on_table: OnTable) -> None:
    rows = ["add_64x8,overhead,f16,f16,1.0,20", "add_64x8,overhead,f32,f32,1.5,20", "copy_64x128,bandwidth,f16,f16,,"]
    table = "\n".join([OF_MICROSECONDS, *rows])
    status, out, _ = on_table("accuracy", table, "--json")
    printed = json.loads(out)
    assert status == 0
    narrow, wide, copied = printed["rows"]
    assert narrow["regime"] == "overhead" and narrow["measured_us"] == 1.0 and copied["measured_us"] is None
    assert 0 < narrow["simulated_us"] < 20 and 0 < narrow["simulated_theirs_us"] < 20
    assert (narrow["ours"]["asked_bytes"], wide["ours"]["asked_bytes"]) == (3 * 64 * 8 * 2, 3 * 64 * 8 * 4)
    assert copied["ours"]["asked_bytes"] == 64 * 128 * 2, "what is written stays in the common memory"
    errors = [abs(each["simulated_us"] / each["measured_us"] - 1) for each in (narrow, wide)]
    assert printed["mean_abs_error"] == pytest.approx(sum(errors) / 2)
    assert printed["by_regime"]["overhead"]["rows"] == 2 and printed["by_family"]["copy"]["mean_abs_error"] is None
    status, out, _ = on_table("accuracy", table)
    assert status == 0 and "| copy_64x128 |" in out


@pytest.mark.test_all
def test_another_machine(on_table: OnTable) -> None:
    took = list[int]()
    for machine in ("tpu-v3", "tpu-v4-chip"):
        for dtype in ("f32", "bf16"):
            status, out, _ = on_table(
                "accuracy", "workload\nadd_256x512\n", "--machine", machine, "--dtype", dtype, "--json"
            )
            assert status == 0
            took.append(json.loads(out)["rows"][0]["simulated"])
    assert len(set(took)) == 4
    status, _, told = on_table("accuracy", "workload\nadd_256x512\n", "--machine", "tpu-v9")
    assert status == 2 and "tpu-v9" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no column `workload`"),
        ("name\nx\n", "no column `workload`; its columns are name"),
        ("workload,tpu_v3_cycles,measured_us\nadd_4,1,1\n", "`measured_us` and `tpu_v3_cycles` do not belong together"),
        ("workload,measured_us,mnpusim\nadd_4,1,1\n", "`measured_us` and `mnpusim` do not belong together"),
        ("workload,measured_us,input_dtype\nadd_4,1,f16\n", "there is `input_dtype` and no `output_dtype`"),
        ("workload,other,other\nadd_4,1,1\n", "the column `other` stands there twice"),
        ("workload,tpuv3_cycles,\nadd_4,1,\n", "column 3 has no name; expected one, or no comma at the end"),
        ('workload\n"add_4\n', "expected comma-separated values"),
        ("workload\nadd_\xe9\n", "expected comma-separated values in UTF-8"),
    ],
)
def test_a_table_without_sense_is_one_error(on_table: OnTable, tmp_path: Path, text: str, told: str) -> None:
    status, out, error = on_table("accuracy", text)
    assert status == 2 and not out
    assert told in error and str(tmp_path / "table.csv") in error and error.count("\n") == 1


@pytest.mark.test_all(but=4)
@pytest.mark.parametrize(
    ("header", "row", "told"),
    [
        ("workload,tpu_v3_cycles", "gemm_8x8,10", "no workload is called 'gemm_8x8'; known are "),
        ("workload,tpu_v3_cycles", "gemm_8x8x8,1.5", "tpu_v3_cycles is '1.5'; expected a whole number from "),
        ("workload,tpu_v3_cycles", "gemm_8x8x8,-5", "tpu_v3_cycles is '-5'; expected a whole number from "),
        ("workload,tpu_v3_cycles,other", "gemm_8x8x8,5,many", "other is 'many'; expected a whole number from "),
        ("workload,tpu_v3_cycles", f"gemm_8x8x8,1{'0' * 400}", "expected a whole number from 1e-06 to 1e+15"),
        (OF_MICROSECONDS, "add_8,overhead,f16,f16,5.4e-309,1", "measured_us is '5.4e-309'; expected a number from "),
        ("workload,tpu_v3_cycles", "add_0,10", "its tensors have no elements"),
        ("workload,tpu_v3_cycles", "gemm_8x8x8", "fewer cells than there are columns"),
        ("workload,tpu_v3_cycles", "gemm_8x8x8,5,6", "more cells than there are columns"),
        ("workload,tpu_v3_cycles", "copy_8x8,10", "'tpu-v3' has no common memory to copy to"),
        (OF_MICROSECONDS, "add_8,overhead,f8,f16,1,1", "input_dtype is 'f8'; expected one of f32, f16, bf16"),
        (OF_MICROSECONDS, "add_8,overhead,f16,int,1,1", "output_dtype is 'int'; expected one of f32, f16, bf16"),
        (OF_MICROSECONDS, "add_8,overhead,f16,f16,nan,1", "measured_us is 'nan'; expected a number from "),
        (OF_MICROSECONDS, "add_8,overhead,f16,f16,1,x", "samples is 'x'; expected a whole number from "),
        (OF_MICROSECONDS, "copy_9000x9000,bandwidth,f16,f16,1,1", "common memory"),
    ],
)
def test_a_row_without_sense_is_one_error(on_table: OnTable, tmp_path: Path, header: str, row: str, told: str) -> None:
    good = "relu_8" + "," * header.count(",")
    status, out, error = on_table("accuracy", "\n".join([header, good, row, good]), "--json")
    assert status == 1 and [each["workload"] for each in json.loads(out)["rows"]] == ["relu_8", "relu_8"]
    (line,) = (line for line in error.splitlines() if not line.startswith("relu_8: "))
    assert told in line and f"{tmp_path}/table.csv, line 3: " in line


def test_what_a_machine_cannot_do_is_named(on_table: OnTable, tmp_path: Path) -> None:
    table = "workload,tpu_v3_cycles\ngemm_8x8x0,10\ngemm_8x8x8,10\n"
    status, _, error = on_table("accuracy", table, "--set", "scratchpad_bytes_per_lane=32")
    assert status == 1 and f"{tmp_path}/table.csv, line 3: gemm_8x8x8: " in error
