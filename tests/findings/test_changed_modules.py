"""Changes of a person's module: what is folded computes what it did, and what cannot be had is not promised."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from workbench.ground.errors import BadOption


class Made(nn.Module):
    """A convolution, a batch norm, and what a function of both makes of an image."""

    def __init__(self, runs: Callable[[Any, torch.Tensor], torch.Tensor], conv: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm, self.runs = conv, norm, runs
        self.same = conv

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.runs(self, x)


def _learnt(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for each in model.modules():
        if isinstance(each, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(each.weight, 0.5, 2)
            nn.init.normal_(each.bias)
            each.running_mean.normal_()  # type: ignore[union-attr]
            each.running_var.uniform_(0.5, 3)  # type: ignore[union-attr]
    return model.eval()


def _conv(channels: int = 8) -> nn.Conv2d:
    return nn.Conv2d(channels, 8, 3, padding=1)


def _image(channels: int = 8) -> torch.Tensor:
    return torch.randn(4, channels, 16, 16)


def _row(j: wb.Journey, rule: str) -> pd.Series:
    tried = j.findings.tried(same_machine=True).table
    return tried[tried.rule == rule].iloc[0]


def _advised(j: wb.Journey) -> bool:
    return "batch norms to fold" in set(j.findings.rule)


FOLDED: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "under two names": (Made(lambda m, x: m.norm(m.same(x)), _conv(), nn.BatchNorm2d(8)), _image()),
    "groups": (nn.Sequential(nn.Conv2d(8, 8, 3, groups=4), nn.BatchNorm2d(8), nn.ReLU6()), _image()),
    "conv1d": (nn.Sequential(nn.Conv1d(8, 8, 3), nn.BatchNorm1d(8)), torch.randn(4, 8, 64)),
    "linear": (nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU()), torch.randn(16, 32)),
    "folded window": (nn.Sequential(wb.folded_window(_conv(3)), nn.BatchNorm2d(8)), _image(3)),
}


@pytest.mark.test_all
@pytest.mark.parametrize("model, x", FOLDED.values(), ids=FOLDED)
def test_folded_norms_compute_what_the_model_does_and_save_no_more_than_is_at_stake(model: nn.Module, x: torch.Tensor):
    j = wb.trace(_learnt(model), x, machine="tpu-v3")
    row = _row(j, "batch norms to fold")
    assert pd.isna(row.predicted) and 0 < row.gain <= row.cycles
    torch.testing.assert_close(j.changed("folded batch norms").run(x), model(x), rtol=1e-4, atol=1e-4)


def _used_elsewhere(m: Any, x: torch.Tensor) -> torch.Tensor:
    return F.conv2d(m.norm(m.conv(x)), m.conv.weight, padding=1)


KEPT: dict[str, tuple[nn.Module, torch.Tensor]] = {
    "another axis": (nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10)), torch.randn(8, 10, 10)),
    "other widths": (nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(10), nn.ReLU()), torch.randn(8, 10, 32)),
    "weight read twice": (Made(_used_elsewhere, _conv(), nn.BatchNorm2d(8)), _image()),
    "mean read twice": (
        Made(lambda m, x: m.norm(m.conv(x)) + m.norm.running_mean.sum(), _conv(), nn.BatchNorm2d(8)),
        _image(),
    ),
    "norm runs twice": (Made(lambda m, x: m.norm(m.conv(m.norm(x).relu())), _conv(), nn.BatchNorm2d(8)), _image()),
    "over all processes": (nn.Sequential(_conv(), nn.SyncBatchNorm(8)), _image()),
}


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("model, x", KEPT.values(), ids=KEPT)
def test_norms_that_cannot_be_folded_are_not_advised(model: nn.Module, x: torch.Tensor):
    j = wb.trace(_learnt(model), x, machine="tpu-v3")
    assert not _advised(j)
    with pytest.raises(BadOption, match="no batch norm can be folded"):
        j.changed("folded batch norms")


@pytest.mark.test_all
def test_a_copy_that_computes_other_numbers_is_refused_and_the_table_comes_all_the_same():
    def branches(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.norm(m.conv(x))
        return y if isinstance(m.norm, nn.BatchNorm2d) else 2 * y

    def reads_a_part(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.norm(m.conv(x)) * m.norm.num_features

    for runs, why in ((branches, "computes other numbers"), (reads_a_part, "raises an error that the model does not")):
        j = wb.trace(_learnt(Made(runs, _conv(), nn.BatchNorm2d(8))), _image(), machine="tpu-v3")
        row = _row(j, "batch norms to fold")
        assert pd.isna(row.gain) and why in row.untried


@pytest.mark.test_all
def test_a_frozen_norm_of_a_model_in_training_is_folded():
    model = _learnt(nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8))).train()
    model[1].eval()  # type: ignore[index]
    j = wb.trace(model, _image(), machine="tpu-v3")
    assert _row(j, "batch norms to fold").gain > 0


def test_a_module_that_runs_twice_has_one_path():
    j = wb.trace(_learnt(Made(lambda m, x: m.norm(m.conv(m.norm(x))), _conv(), nn.BatchNorm2d(8))), _image())
    assert [node.origin.module for node in j.captured.record.nodes] == ["norm", "conv", "norm"]


@pytest.mark.test_all
def test_windows_and_norms_are_folded_in_either_order():
    model = _learnt(nn.Sequential(_conv(3), nn.BatchNorm2d(8), nn.ReLU(), _conv(), nn.BatchNorm2d(8)))
    j = wb.trace(model, _image(3), machine="tpu-v3")
    either = j.changed("folded window:0").changed("folded batch norms")
    other = j.changed("folded batch norms").changed("folded window:0")
    assert either.simulated.cycles == other.simulated.cycles < j.simulated.cycles


class OwnMode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(64, 64), nn.Dropout()

    def train(self, mode: bool = True) -> OwnMode:
        return super().train(True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.linear(x))


class Always(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.linear(x), 0.5, training=True)


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("target", [OwnMode(), Always(), lambda x: F.dropout(x @ x, 0.5, training=True)])
def test_what_evaluation_may_leave_as_it_is_promises_nothing(target: Any):
    found = wb.trace(target, torch.randn(64, 64), machine="tpu-v3").findings.table
    (row,) = found[found.rule == "training mode"].itertuples()
    assert row.remedy == "" and pd.isna(row.predicted) and "Your own code sets this mode" in row.reason


TRAINING: dict[str, nn.Module] = {
    "dropout2d": nn.Sequential(_conv(), nn.Dropout2d()),
    "alpha": nn.Sequential(_conv(), nn.AlphaDropout()),
    "both": nn.Sequential(_conv(), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout()),
}


@pytest.mark.test_all
@pytest.mark.parametrize("model", TRAINING.values(), ids=TRAINING)
def test_whatever_trains_of_pytorchs_own_is_told(model: nn.Module):
    row = _row(wb.trace(model.train(), _image(), machine="tpu-v3"), "training mode")
    assert pd.isna(row.predicted) and 0 < row.gain <= row.cycles


@pytest.mark.test_all
def test_attention_that_drops_is_at_stake_and_stays():
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True).train()
    row = _row(wb.trace(layer, torch.randn(2, 8, 32), machine="tpu-v3"), "training mode")
    assert pd.isna(row.predicted) and 0 < row.gain <= row.cycles and "4 dropouts" in row.reason


def test_a_module_that_cannot_be_copied_is_told():
    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def __deepcopy__(self, memo: object) -> Any:
            raise RuntimeError("there is one of me")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    j = wb.trace(Alone(), torch.randn(4, 8))
    with pytest.raises(BadOption, match="cannot be tried on a copy of the traced function: RuntimeError: there is one"):
        j.changed("evaluation mode")


def test_weights_of_int8_are_read_by_the_product_and_rounded_by_half_a_step():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)), torch.randn(1, 256)
    j = wb.trace(model, x, machine="edge-8x8")
    made = j.changed("int8 weights")
    assert made.check().ok and len(made.lowered.record.kernels) == 2, "each with its dequantisation"
    assert made.simulated.cycles < j.simulated.cycles
    assert isinstance(model[0], nn.Linear), "the model stays as it is"
    layer = wb.int8_linear(model[0])
    read = layer.weight.float() * layer.scale
    assert layer.weight.dtype == torch.int8
    assert bool(((read - model[0].weight).abs() <= layer.scale * 0.5001).all())
    assert "j.changed('int8 weights') reads a quarter" in repr(j.findings).replace("\n      ", " ")
    with pytest.raises(wb.WorkbenchError, match=r"has no plain nn\.Linear"):
        wb.trace(nn.Sequential(nn.ReLU()), x, machine="edge-8x8").changed("int8 weights")


def test_bfloat16_casts_inputs_and_weights_of_a_copy_and_leaves_whole_numbers():
    model, x, rows = nn.Embedding(20, 32), torch.randn(4, 32), torch.tensor([1, 5, 7, 9])

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = model

        def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
            return x + self.table(rows)

    made = wb.trace(Both(), x, rows).changed("bfloat16")
    graph = made.captured.record
    assert sorted(graph.types[each.value].dtype for each in graph.inputs) == ["bf16", "bf16", "i64"]
    assert made.check().ok and model.weight.dtype == torch.float32


class _OfFloats(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float32
        return torch.relu(x)


def test_what_a_narrower_copy_does_not_do_is_told_and_other_remedies_are_tried() -> None:
    """A module that asserts its type, and weights that the copy does not reach."""
    x, layer = torch.randn(256, 256), nn.Linear(256, 256)
    fast = wb.machine("edge-8x8", systolic_arrays=16)
    for j in (wb.trace(_OfFloats(), x, machine="edge-8x8"), wb.trace(lambda x: layer(x) * 2, x, machine=fast)):
        tried = j.findings.tried().table
        row = next(each for each in tried.itertuples() if "bfloat16" in each.remedy)
        assert pd.isna(row.gain) and "the changed copy raises an error that the model does not" in row.untried
        with pytest.raises(wb.WorkbenchError, match="the changed copy raises"):
            j.findings.measured(row.Index)
    with pytest.raises(wb.WorkbenchError, match="none of the inputs is a tensor of float32"):
        wb.trace(lambda x: x * 2, torch.arange(8), machine="edge-8x8").changed("bfloat16")


def test_tiles_that_were_kept_are_no_mapping_for_the_kernels_of_a_changed_function() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()).eval()
    j = wb.trace(model, torch.randn(1, 3, 16, 16), machine="edge-8x8")
    kept = j.with_(mapping=j.scheduled.mappings)
    assert kept.changed("folded batch norms").check().ok


def _innermost(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("model", "x", "change", "said"),
    [
        (nn.Sequential(_conv(3), nn.ReLU()), _image(3), "folded window", "did you mean 'folded window:0'?"),
        (_conv(3), _image(3), "folded window", "did you mean 'folded window:'?"),
        (nn.Linear(8, 8), torch.randn(4, 8), "folded window", "of which the traced function has none"),
        (nn.Linear(8, 8), torch.randn(4, 8), "bfloat16:0", "a change of the whole model, not of the part '0'"),
        (_conv(3), _image(3), "folded batch norms:", "a change of the whole model"),
        (nn.ReLU(), torch.randn(4, 8).bfloat16(), "bfloat16", "none of the weights and inputs is a tensor of float32"),
        (nn.Linear(8, 8), torch.randn(4, 8), "channels last", "has four dims"),
        (nn.ReLU(), _innermost(_image(3)), "channels last", "has its channels outermost"),
        (nn.Linear(8, 8).eval(), torch.randn(4, 8), "evaluation mode", "in evaluation mode already"),
    ],
)
def test_a_change_answers_about_what_was_asked_and_refuses_to_change_nothing(
    model: nn.Module, x: torch.Tensor, change: str, said: str
) -> None:
    with pytest.raises(BadOption, match=re.escape(said)):
        wb.trace(model, x, machine="edge-8x8").changed(change)


def test_a_change_that_was_made_is_not_made_again() -> None:
    j = wb.trace(nn.Linear(8, 8), torch.randn(4, 8), machine="edge-8x8").changed("bfloat16")
    with pytest.raises(BadOption, match="none of the weights and inputs is a tensor of float32"):
        j.changed("bfloat16")
