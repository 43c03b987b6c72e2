"""Odd programs and seeded samples of two sweeps. The whole sweeps are commands: see `tests/breadth/__main__.py` and
`tests/breadth/overloads.py`."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import workbench as wb
from tests.breadth import overloads, schemas
from tests.breadth.__main__ import SECONDS, WORKER
from tests.breadth.judge import Call, difference, jobs, judged, operators
from tests.breadth.odd_programs import PROGRAMS, x, z
from tests.fuzz.__main__ import answers
from workbench.capturing.functional_graph import substitute
from workbench.ground.errors import HostResult, HostRoute
from workbench.ir import TensorType
from workbench.operators.tensors.element_types import dtype_name

EVERY_DTYPE = sorted({each for each in vars(torch).values() if isinstance(each, torch.dtype)}, key=str)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("kind", PROGRAMS)
def test_odd_programs_are_right_when_compiled(kind: str):
    verdicts = {name: judged(Call(function, make(), {})) for name, (function, make) in PROGRAMS[kind].items()}
    assert len(verdicts) >= 3
    assert {name: verdict for name, verdict in verdicts.items() if verdict.kind not in ("right", "host")} == {}


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
def test_views_of_another_type_share_memory_with_what_they_are_of():
    def parts(z: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return z.real, torch.view_as_real(z), x[1:].view(torch.int32)

    for run in (torch.compile(parts, backend="npu"), wb.trace(parts, z(), x()).run):
        a, b = z(), x()
        real, both, bits = run(a, b)
        a.mul_(2)
        b.zero_()
        assert torch.equal(real, a.real) and torch.equal(both, torch.view_as_real(a)) and not bits.any()


@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
def test_a_step_on_the_host_for_a_strange_type_is_costed_and_said():
    with pytest.warns(HostRoute, match=r"_to_copy"):
        journey = wb.trace(lambda x: x.to(torch.float8_e4m3fn).float() + 1, x())
    steps = [each for each in journey.lowered.record.kernels if each.kind == "host"]
    assert len(steps) == 2 and journey.simulated.trace.invariants() is None
    assert torch.equal(journey.run(x()), x().to(torch.float8_e4m3fn).float() + 1)


def test_a_result_that_is_not_what_was_captured_is_told():
    with pytest.warns(HostRoute):
        journey = wb.trace(lambda i, h: torch.ldexp(i, h), torch.tensor(3), torch.tensor(2.0).half())
    with pytest.raises(HostResult, match=r"ldexp.* made float16 \[\] on the host, and was captured as float32 \[\]"):
        journey.run(torch.tensor(3), torch.tensor(2.0).half())


def test_the_bytes_of_every_element_type():
    assert len(EVERY_DTYPE) > 40
    sizes = {dtype: TensorType.dense((), dtype_name(dtype)).element_bytes for dtype in EVERY_DTYPE}
    assert sizes == {dtype: dtype.itemsize for dtype in EVERY_DTYPE}


@pytest.mark.test_all
def test_pytorch_knows_the_types_of_all_other_mixed_calls():
    """Compares the types of fake results with those of real ones; calls with wrong fake types go another way."""
    mode, wrong = FakeTensorMode(), set[str]()
    packets = {each.split("::")[1].split(".")[0] for each in torch._C._dispatch_get_all_op_names() if "aten::" in each}
    for overload in _pointwise(sorted(packets)):
        for kinds in itertools.product((torch.float32, torch.float64, torch.int64), repeat=2):
            args = _mixed(overload, kinds)
            try:
                made = overload(*args)
                with mode:
                    said = overload(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
            except (RuntimeError, NotImplementedError, TypeError, IndexError):
                continue
            if isinstance(made, torch.Tensor) and said.dtype != made.dtype:
                wrong.add(str(overload))
                assert substitute(overload) is not overload
    assert "aten.threshold_backward.default" in wrong


def _pointwise(packets: list[str]):  # type: ignore[no-untyped-def]
    for packet in packets:
        found = getattr(torch.ops.aten, packet, None)
        for name in found.overloads() if isinstance(found, torch._ops.OpOverloadPacket) else ():
            overload = getattr(found, name)
            arguments = overload._schema.arguments
            writes = any(each.alias_info is not None and each.alias_info.is_write for each in arguments)
            tensors = [each for each in arguments if "Tensor" in str(each.type)]
            if torch.Tag.pointwise in overload.tags and not writes and len(tensors) == 2:
                yield overload


def _mixed(overload, kinds):  # type: ignore[no-untyped-def]
    rest, values = iter(kinds), {"number": 1, "float": 0.5, "int": 1, "bool": True}
    required = [each for each in overload._schema.arguments if not each.has_default_value()]
    return [
        torch.ones(2, 2, dtype=next(rest)) if "Tensor" in str(each.type) else values.get(str(each.type))
        for each in required
    ]


@pytest.mark.test_all
def test_other_names_of_an_operator_are_not_left_to_the_host():
    """By PyTorch's own list of them."""
    left: list[str] = []
    known = {
        op.name.replace(".", "_"): [alias.name.replace(".", "_") for alias in op.aliases] for op in operators().values()
    }
    for name, others in known.items():
        for other in others:
            ours, theirs = (getattr(torch.ops.aten, each, None) for each in (name, other))
            if ours is None or theirs is None:
                continue
            for overload in set(ours.overloads()) & set(theirs.overloads()) - {"names", "Dimname"}:
                routes = [wb.ops.who(f"aten.{each}.{overload}").route for each in (name, other)]  # type: ignore[union-attr]
                left += [f"{other}.{overload}"] if routes[1] == "host" != routes[0] else []
    assert sum(map(len, known.values())) > 60 and left == []


@pytest.mark.test_all
@pytest.mark.sweep
def test_some_of_pytorchs_own_sample_calls(whole_sweep: bool):
    """In a worker: one that ends the process is a verdict too."""
    drawn = random.Random(0).sample(jobs(("float32", "int64", "bool", "complex64", "float16"), 1), 25)
    drawn = drawn if whole_sweep else drawn[:12]
    found = answers(WORKER, [list(each) for each in drawn], SECONDS)
    assert [each for each in found if each[1][0] in ("wrong", "raw", "dead", "told")] == []


@pytest.mark.test_all
@pytest.mark.sweep
def test_some_overloads_in_every_combination_of_tensors_and_numbers(whole_sweep: bool):
    drawn = ["aten.greater.Scalar", *random.Random(0).sample(schemas.overloads(), 3)]
    drawn = drawn if whole_sweep else drawn[:2]
    for name in drawn:
        found = overloads.verdicts(name)
        assert found and [each for each in found if each[1] not in ("right", "left", "host")] == []
    given = schemas.calls("aten.pow.Scalar")
    assert len(given) >= 20 and overloads.judged(given[::5]).kind == "right"


def test_a_difference_is_seen():
    assert difference([x()], [x() + 1]) and difference(x(), x().double()) and not difference(x(), x())
    assert difference(x().to(torch.float8_e5m2), x().to(torch.float8_e5m2)) == ""
    assert difference(x().to(torch.float8_e5m2), (x() * 2).to(torch.float8_e5m2))


@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
def test_a_graph_with_complex_numbers_is_saved_and_read(tmp_path: Path):
    journey = wb.trace(lambda z: z * (1 + 2j), z())
    journey.save(tmp_path / "complex.atenwb")
    assert wb.load(tmp_path / "complex.atenwb").captured.record == journey.captured.record
