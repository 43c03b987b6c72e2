"""Measures what each patch of PyTorch that is there for speed saves: seconds of the processor in a first trace.

    python benchmarks/torch_tricks.py [--repeats 5] [--only NAME ...]

Three programs, each traced in a process of its own whose kernels are kept from a process before, timed after
`import torch`: a function of one op, a layer of BERT, a step of training. Each repeat runs all patches once with one of
them left out, and once whole. A figure is the median of the differences to the whole one of its repeat; a patch whose
figures are small beside the noise, which the row `whole` tells, should go.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from compile import made, printed, processor_seconds

ROOT = Path(__file__).resolve().parent.parent
PATCHES = (
    "get_compiler_fn _lazy_import _throw_if_in_functorch",  # without the search, the last asks for what was not found
    "uninteresting_files",
    "GraphRegionTracker",
    "get_replayed_side_effect_source_refs",
    "should_wrap_in_hop",
    "profile_guard_manager",
    "_materialize_cpp_cia_ops",
    "_collect_all_valid_cia_ops_for_namespace",
    "_override_composite_implicit_decomp",
    "_ok_to_generate_guards_fn",
    "reset",
)
"""The names in PyTorch that are patched for speed; those of one line only work together."""
SETTINGS = ("run_gc_after_compile", "collecting_later")
PROGRAMS = ("softmax", "bert_layer", "training")


def traced(name: str) -> Callable[[], object]:
    """Returns a call that traces a program; it is built before the clock starts."""
    import torch

    def trace(model: Callable[..., object], *inputs: object, train: bool = False) -> object:
        import workbench as wb

        return wb.trace(model, *inputs, train=train).scheduled.kernels

    if name != "training":
        model, inputs = made(name)
        return lambda: trace(model, *inputs)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: trace(step, torch.randn(32, 64), train=True)


def leave_out(patch: str) -> None:
    """Makes this process trace without a patch."""
    from workbench.ground.environment import turns
    from workbench.ground.torch_inside import dynamo_once

    if patch == "run_gc_after_compile":
        dynamo_once._NO_SEARCH.clear()
    elif patch == "collecting_later":
        turns.collecting_later = nullcontext
    else:
        whole: Any = mock.patch.object
        mock.patch.object = lambda owner, name, *to, **how: (
            nullcontext() if name in patch.split() else whole(owner, name, *to, **how)
        )


def measure(name: str, patch: str) -> float:
    """Seconds of the processor for a trace without a patch."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    trace = traced(name)
    began = processor_seconds()
    leave_out(patch)
    trace()
    return processor_seconds() - began


def in_a_process(name: str, patch: str, folder: str) -> float:
    return printed([__file__, "--measure", name, patch], f"{folder}/{name}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=(*PATCHES, *SETTINGS), default=(*PATCHES, *SETTINGS))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        print(measure(*options.measure))
        return 0
    seconds: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            in_a_process(name, "none", folder)
        for repeat in range(options.repeats):
            for name in PROGRAMS:
                for patch in ("none", "whole", *options.only):
                    seconds.setdefault((name, patch), []).append(in_a_process(name, patch, folder))
            print(f"after {repeat + 1} of {options.repeats} repeats")
            _show(seconds, ("whole", *options.only))
    return 0


def _show(seconds: Mapping[tuple[str, str], Sequence[float]], patches: Sequence[str]) -> None:
    """Prints the medians so far, so that a run that is ended early has a result."""
    print(f"{'milliseconds saved by':<56}" + "".join(f"{name:>12}" for name in PROGRAMS))
    for patch in patches:
        pairs = [zip(seconds[name, patch], seconds[name, "none"], strict=True) for name in PROGRAMS]
        saved = [statistics.median(without - whole for without, whole in each) for each in pairs]
        print(f"{patch:<56}" + "".join(f"{1000 * each:>12.0f}" for each in saved), flush=True)


if __name__ == "__main__":
    sys.exit(main())
