"""The example models: what they are made of, and that a trace of each is right."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any
from unittest import mock

import pytest
import torch

import workbench as wb
from tests.fresh_process import python
from workbench.commands import cli
from workbench.ground.errors import BadOption, HostRoute, MissingExtra
from workbench.models.seeded import seeded
from workbench.running.run_program import NativeProgram

_RUN = NativeProgram.run

OF_TRANSFORMERS = (
    "bert", "gpt2", "gpt2_decode", "llama", "llama_decode", "mixtral", "vit", "whisper_encoder",
)  # fmt: skip
PLAIN = tuple(name for name in wb.models.names() if name not in OF_TRANSFORMERS)
QUICK = ("mlp", "lenet", "lstm", "transformer_block")
"""Those that are compiled here; `benchmarks/models.py` does it with all."""


@pytest.mark.parametrize("name", PLAIN)
def test_a_model_computes_the_same_each_time_and_leaves_random_numbers_alone(name: str):
    before = torch.get_rng_state()
    one, other = wb.models.get(name), wb.models.get(name)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.no_grad():
        ours: Any = one.module(*one.inputs, **one.kwargs)
        theirs: Any = other.module(*other.inputs, **other.kwargs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.test_all
@pytest.mark.parametrize("name", QUICK)
def test_a_trace_of_a_model_is_right_and_without_the_host(name: str):
    example = getattr(wb.models, name)()
    with warnings.catch_warnings():
        warnings.simplefilter("error", HostRoute)
        journey = wb.trace(example.module, *example.inputs, kwargs=example.kwargs)
    assert journey.check().ok and journey.simulated.cycles > 0


@pytest.mark.test_all
def test_a_model_is_printed_in_a_line():
    assert repr(wb.models.lenet()) == "Example(Sequential, called with float32 (1, 1, 28, 28))"
    told = r"Example\(\w+, called with int64 \(1, 1\), cache=DynamicCache\)"
    assert re.fullmatch(told, repr(wb.models.gpt2_decode())), repr(wb.models.gpt2_decode())


def test_full_models_have_their_published_parameters():
    with torch.device("meta"):
        counts = {
            name: sum(each.numel() for each in wb.models.get(name, size="full").module.parameters())  # type: ignore[attr-defined]
            for name in ("resnet50", "vgg16", "mobilenet_v3")
        }
    assert counts == {"resnet50": 25_557_032, "vgg16": 138_357_544, "mobilenet_v3": 2_542_856}


def test_unknown_names_and_sizes_are_told(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(BadOption, match=r"no model is called 'resnt18'; did you mean 'resnet18'\? There are bert, "):
        wb.models.get("resnt18")
    with pytest.raises(BadOption, match=r"no model is called 3\. There are bert, "):
        wb.models.get(3)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="did you mean 'unet'"):
        _ = wb.models.unett
    with pytest.raises(BadOption, match="size='large' of the model mlp is unknown; expected 'small' or 'full'"):
        wb.models.mlp(size="large")
    assert cli.main(["trace"]) == cli.main(["trace", "f.py", "--model", "mlp"]) == cli.USER_ERROR
    assert capsys.readouterr().err.count("takes a FILE or --model NAME, one of the two") == 2
    assert cli.main(["models"]) == cli.OK
    assert capsys.readouterr().out.split() == list(wb.models.names())


def test_a_model_of_transformers_names_the_extra_where_it_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"The model gpt2 is one of transformers, .*aten-workbench\[models\]"):
        wb.models.gpt2()


def test_the_list_of_models_loads_neither_pytorch_nor_transformers():
    told = "import sys, workbench as wb; wb.models.names(); print({'torch', 'transformers'} & {*sys.modules})"
    assert python("-c", told).strip() == "set()"


@pytest.mark.test_all
@pytest.mark.sweep
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_tokens_that_a_compiled_model_generates_are_pytorchs(name: str, whole_sweep: bool):
    count = 8 if whole_sweep else 4
    shipped: Any = wb.models.get(name).module
    config = shipped.config
    config.num_hidden_layers, config.tie_word_embeddings, config.initializer_range = 1, False, 0.3
    with seeded():
        model = type(shipped)(config).eval()
    ids = torch.arange(5)[None]
    theirs = model.generate(ids, max_new_tokens=count, do_sample=False)
    model.forward = torch.compile(model.forward, backend="npu")
    with warnings.catch_warnings(), mock.patch.object(NativeProgram, "run", autospec=True, side_effect=_RUN) as run:
        warnings.simplefilter("error", HostRoute)
        ours = model.generate(ids, max_new_tokens=count, do_sample=False)
    assert run.call_count == count, "each token is computed by one graph"
    assert ours.shape == (1, 5 + count) and len(set(ours[0, 5:].tolist())) > 2
    assert torch.equal(ours, theirs)


@pytest.mark.test_all
@pytest.mark.parametrize("name", ["gpt2_decode", "llama_decode"])
def test_a_step_of_decoding_leaves_the_cache_as_pytorch_does(name: str):
    example = wb.models.get(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HostRoute)
        journey = wb.trace(example.module, *example.inputs, kwargs=example.kwargs)
    ours, theirs = wb.models.get(name), example
    got: Any = journey.run(*ours.inputs, kwargs=ours.kwargs)
    with torch.no_grad():
        expected: Any = theirs.module(*theirs.inputs, **theirs.kwargs)
    torch.testing.assert_close(got.logits, expected.logits)
    assert got.cache is ours.kwargs["cache"] and type(got) is type(expected)
    for mine, other in zip(got.cache.layers, expected.cache.layers, strict=True):
        assert mine.keys.shape[-2] == 17
        torch.testing.assert_close((mine.keys, mine.values), (other.keys, other.values))


@pytest.mark.test_all
def test_a_step_whose_loss_a_model_of_transformers_computes_runs_again_and_again():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=32, n_positions=8, bos_token_id=0, eos_token_id=0)
    config.attn_pdrop = config.embd_pdrop = config.resid_pdrop = 0.0
    ids, losses = torch.arange(8).view(1, 8), list[list[float]]()
    for compiled in (True, False):
        torch.manual_seed(0)
        model = GPT2LMHeadModel(config)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(ids: torch.Tensor, model: Any = model, optimizer: Any = optimizer) -> torch.Tensor:
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        run: Any = wb.trace(step, ids, train=True).run if compiled else step
        losses.append([float(run(ids)) for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5) and losses[1][2] < losses[1][0]
