"""Small programs for `torch.compile`, and what `backend="npu"` makes of them beside `backend="eager"`.

    python -m tests.compiled_programs            # all of them, as a table
    python -m tests.compiled_programs NAME...    # some

Each is called several times, with other values, numbers or shapes each time. Whatever eager runs, npu has to run: the
same results of the same types, the same changes of what it was given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import sys
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import workbench as wb
from workbench.ground.errors import HostRoute

Call = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """A function or module, made anew for each backend, and the arguments of its calls."""

    build: Callable[[], Callable[..., Any]]
    calls: Callable[[], list[Call]]
    options: dict[str, Any]
    around: Callable[[], contextlib.AbstractContextManager[Any]]


PROGRAMS: dict[str, Program] = {}


def rows(*sizes: int, columns: int = 6) -> Callable[[], list[Call]]:
    """Calls with one matrix each, of so many rows."""
    return lambda: [(torch.randn(n, columns),) for n in sizes]


SAME = rows(4, 4)


def ones_and(*values: complex) -> Callable[[], list[Call]]:
    """Calls with three ones and one of these values each."""
    return lambda: [(torch.ones(3), value) for value in values]


def ones() -> list[Call]:
    return [(torch.ones(3),) for _ in range(2)]


def program(
    calls: Callable[[], list[Call]] = SAME,
    around: Callable[[], contextlib.AbstractContextManager[Any]] = torch.no_grad,
    build: bool = False,
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function to the table; with `build` it makes what is compiled."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        made = function if build else lambda: function
        PROGRAMS[function.__name__] = Program(made, calls, options, around)
        return function

    return add


def by_name(name: str, function: Callable[..., Any], calls: Callable[[], list[Call]] = SAME, **options: Any) -> None:
    """Adds a program of one expression to the table."""
    function.__name__ = name
    program(calls, **options)(function)


@dataclasses.dataclass
class Judged:
    """The verdict on a program."""

    verdict: str
    detail: str
    hosts: int


def judge(name: str) -> Judged:
    """Runs a program under both backends and compares all that can be seen of it."""
    one = PROGRAMS[name]
    expected, _ = _seen(one, "eager")
    got, told = _seen(one, "npu")
    hosts = sum("as a whole" in each for each in told)
    for number, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        if isinstance(theirs, Exception):
            same = isinstance(mine, Exception)
        else:
            same = not isinstance(mine, Exception) and _same(mine, theirs)
        if not same:
            return Judged("differs", f"call {number}: {_shown(mine)} for {_shown(theirs)}", hosts)
    return Judged("right", "; ".join(sorted(set(told)))[:160], hosts)


def _seen(one: Program, backend: str) -> tuple[list[Any], list[str]]:
    """The results and changed arguments of every call, and the warnings."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    function = one.build()
    calls = one.calls()
    compiled = torch.compile(function, backend=backend, **one.options)
    seen: list[Any] = []
    with warnings.catch_warnings(record=True) as told, one.around():
        warnings.simplefilter("always")
        for arguments in calls:
            torch.manual_seed(1)
            try:
                result = compiled(*arguments)
            except Exception as error:
                seen.append(error)
                continue
            state = function.state_dict() if isinstance(function, nn.Module) else {}
            seen.append(pytree.tree_map(_kept, (result, arguments, dict(state))))
    return seen, [str(each.message) for each in told if each.category is HostRoute]


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _same(mine: Any, theirs: Any) -> bool:
    ours, spec = pytree.tree_flatten(mine)
    others, other_spec = pytree.tree_flatten(theirs)
    return spec == other_spec and all(map(_equal, ours, others))


def _equal(mine: Any, theirs: Any) -> bool:
    if type(mine) is not type(theirs):
        return False
    if isinstance(theirs, torch.Tensor):
        if theirs.is_nested:
            return all(map(_equal, mine.unbind(), theirs.unbind()))
        if (mine.shape, mine.dtype, mine.layout) != (theirs.shape, theirs.dtype, theirs.layout):
            return False
        mine, theirs = (each.to_dense() if each.layout is not torch.strided else each for each in (mine, theirs))
        return torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(theirs, float):
        return (math.isnan(mine) and math.isnan(theirs)) or math.isclose(mine, theirs, rel_tol=1e-4, abs_tol=1e-6)
    return dataclasses.is_dataclass(theirs) or bool(mine == theirs)


def _shown(value: Any) -> str:
    return f"{type(value).__name__}: {str(value)[:400]}" if isinstance(value, Exception) else f"{value!r:.300}"


# Numbers


by_name("float_argument", lambda x, s: x * s, ones_and(1.5, 2.5, -0.5, 2.5))
by_name("float_returned", lambda x, s: (x + s, s * 2, s), ones_and(1.5, 2.5, math.inf, math.nan))
by_name(
    "many_values_of_a_float",
    lambda x, s: torch.clamp(x, min=s).sum(),
    lambda: [(torch.rand(3), v / 8) for v in range(12)],
)


SCALE = 1.0


@program(rows(4, 4, 4), build=True)
def changing_global():
    global SCALE
    SCALE = 1.0

    def function(x):
        global SCALE
        SCALE += 0.5
        return x * SCALE

    return function


class Decaying(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 1.0

    def forward(self, x):
        self.rate *= 0.5
        return x * self.rate


by_name("changing_attribute", Decaying, rows(4, 4, 4), build=True)
by_name("int_argument", lambda x, n: x * n + n, ones_and(2, 3, 5, 3))
by_name("bool_argument", lambda x, flag: x * 2 if flag else x - 1, ones_and(True, False))
by_name("arithmetic_of_floats", lambda x, s: x * (math.sqrt(s) + s**2) + math.floor(s), ones_and(1.5, 2.5, 3.5))
by_name("branch_on_a_float", lambda x, s: x * s if s > 1 else x - s, ones_and(1.5, 2.5, 0.25))
by_name("power_of_a_float", lambda x, s: ((x + 1) ** s, s**x), lambda: [(torch.ones(5), v) for v in (2.0, 3.0, 4.5)])
by_name(
    "string_argument",
    lambda x, how: x + 1 if how == "add" else x - 1,
    lambda: [(torch.ones(3), "add"), (torch.ones(3), "sub")],
)
by_name(
    "optional_argument",
    lambda x, y=None: x * 2 if y is None else x + y,
    lambda: [(torch.ones(3), None), (torch.ones(3), torch.ones(3))],
)
by_name("complex_argument", lambda x, c: x * c, lambda: [(torch.ones(2), c) for c in (1 + 2j, 3 - 1j)])


# Shapes


by_name("changing_rows", lambda x: torch.softmax(x, -1) + x.shape[0], rows(3, 5, 7, 3))
by_name("dynamic_rows", lambda x: (x.sum(0) / x.shape[0], x.shape[0] * 2), rows(3, 5, 7), dynamic=True)
by_name("a_dozen_shapes", lambda x: torch.relu(x).mean(0), rows(*range(2, 14)))
by_name("shape_returned", lambda x: (x.shape, x.size(1), x.numel()), rows(3, 5), dynamic=True)


@program(rows(4, 6), dynamic=True)
def size_arithmetic(x):
    half = x.shape[0] // 2
    return x[:half] + x[half : 2 * half], max(half, 2), half > 2


by_name("marked_dynamic", lambda x: torch.tanh(x) @ torch.ones(x.shape[1], 2), lambda: [(x,) for x in _marked(3, 5, 8)])


def _marked(*sizes):
    for size in sizes:
        x = torch.randn(size, 4)
        torch._dynamo.mark_dynamic(x, 0)
        yield x


by_name("full_graph", lambda x: F.gelu(x) * 2, fullgraph=True)
by_name("empty_rows", lambda x: (torch.relu(x) + 1, x.sum()), rows(4, 0, 1, 3))
by_name("no_dims", lambda x: x * 2 + 1, lambda: [(torch.tensor(2.0),), (torch.tensor(3.0),)])
by_name(
    "changing_strides",
    lambda x: (x.sum(1), torch.exp(x)),
    lambda: [(torch.randn(4, 6).t(),), (torch.randn(6, 4),), (torch.randn(12, 8)[::2, ::2],)],
)
by_name(
    "arange_of_a_size",
    lambda x: (torch.arange(x.shape[0]) * 2, torch.zeros(x.shape[0], 2) + x.shape[1]),
    rows(4, 5),
    dynamic=True,
)


# What the data decides


@program(lambda: [(torch.ones(4) * v,) for v in (3.0, 9.0, 0.1)])
def while_a_norm(x):
    while x.norm() > 1:
        x = x / 2
    return x


@program(lambda: [(torch.full((4,), v),) for v in (3.0, -3.0)])
def branch_on_data(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


@program(lambda: [(torch.tensor([1.0, v, 3.0]),) for v in (2.0, 7.0)])
def item(x):
    top = x.max().item()
    return x / top, top


by_name("to_list", lambda x: [n * 2 for n in (x + 1).tolist()], lambda: [(torch.tensor([1, v, 3]),) for v in (2, 7)])


@program(lambda: [(torch.tensor([1.0, v, -3.0]),) for v in (2.0, -7.0)])
def nonzero(x):
    where = torch.nonzero(x > 0)
    return where, x[x > 0] * 2


@program(lambda: [(torch.tensor([1, v, 3, 3]),) for v in (2, 3)])
def unique(x):
    values, counts = torch.unique(x, return_counts=True)
    return values * 2, counts


by_name(
    "length_from_data",
    lambda x, n: x[: int(n[1])] * 2,
    lambda: [(torch.randn(4, 3), torch.tensor([0, v, 1])) for v in (1, 2)],
)


@program()
def printed(x):
    y = x * 2
    print(end="")
    return y + 1


by_name(
    "numpy_between",
    lambda x: torch.from_numpy((x * 2).numpy() + 1) * 3,
    lambda: [(torch.full((3,), v),) for v in (2.0, 3.0)],
)
by_name(
    "cond",
    lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)),
    lambda: [(torch.full((3,), v),) for v in (2.0, -3.0)],
)


@program(lambda: [(torch.full((3,), v),) for v in (2.0, 30.0)])
def while_loop(x):
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda x: x.sum() > 1, lambda x: (x / 2,), (x,))


@program()
def raises_and_catches(x):
    try:
        return x @ x
    except RuntimeError:
        return x * 2


# What is returned


@program()
def none_returned(x):
    x.add_(1)


by_name("nothing_computed", lambda x: x)
by_name("constants_returned", lambda x: (x * 2, None, 3, "text", (), {"k": True}))


Pair = namedtuple("Pair", "first second")


by_name(
    "named_tuple",
    lambda pair: Pair(pair.first + pair.second, 2),
    lambda: [(Pair(torch.ones(2), torch.ones(2) * v),) for v in (2.0, 3.0)],
)


@dataclasses.dataclass
class Box:
    value: torch.Tensor
    scale: float


pytree.register_dataclass(Box)


by_name(
    "data_class",
    lambda box: Box(box.value * box.scale, box.scale + 1),
    lambda: [(Box(torch.ones(2), v),) for v in (2.0, 3.0, 4.0)],
)
by_name(
    "dictionary",
    lambda given: {"sum": given["a"] + given["b"][0], **given},
    lambda: [({"a": torch.ones(2), "b": [torch.ones(2) * v]},) for v in (2.0, 3.0)],
)
by_name("view_of_the_input", lambda x: (x.view(-1), x[1:], x.t()))


@program()
def view_of_a_result(x):
    y = x * 2
    return y, y.view(-1), y


by_name("integers_and_bools", lambda x: (x.argmax(1), x > 0, (x * 10).int()))


# Changes in place


@program(lambda: [(torch.ones(3), torch.zeros(3)) for _ in range(2)])
def in_place_on_an_input(x, total):
    total.add_(x)
    return total * 2


@program(lambda: [(x, x[1:]) for x in (torch.arange(4.0), torch.arange(5.0))])
def in_place_on_shared_memory(x, part):
    part.mul_(2)
    return x + 1


@program()
def in_place_on_a_view(x):
    x[1].zero_()
    return x.sum()


@program()
def transposed_in_place(x):
    x.t_()
    return x * 2


@program(ones)
def resized_in_place(x):
    x.resize_(5).fill_(2)
    return x * 2


@program(lambda: [(torch.zeros(3, 4), torch.tensor([1, n])) for n in (0, 2)])
def index_put(x, i):
    x[i] = 5.0
    return x


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        self.seen += 1
        self.mean.lerp_(x.mean(0), 0.5)
        return x - self.mean, self.seen


by_name("buffers_that_change", Counting, rows(4, 5, 6), build=True)
by_name(
    "batch_norm_in_training",
    lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU()),
    rows(8, 8),
    build=True,
)


@program(build=True)
def a_list_that_grows():
    seen = []

    def function(x):
        seen.append(x * 2)
        return seen[-1] + len(seen)

    return function


@program(ones, build=True)
def a_closed_over_tensor():
    total = torch.zeros(3)

    def function(x):
        total.add_(x)
        return total * 2

    return function


# Around and inside


by_name("inference_mode", lambda: nn.Linear(6, 3), around=torch.inference_mode, build=True)
by_name("with_gradients_on", lambda: nn.Linear(6, 3), around=contextlib.nullcontext, build=True)
by_name(
    "autocast_around", lambda: nn.Linear(6, 3), around=lambda: torch.autocast("cpu", dtype=torch.bfloat16), build=True
)


@program(build=True)
def autocast_inside():
    inner = nn.Linear(6, 3)

    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return inner(x) * 2

    return function


@program(around=contextlib.nullcontext)
def no_grad_inside(x):
    y = x * 2
    with torch.no_grad():
        z = y + 1
    return y * z


@program(around=contextlib.nullcontext)
def gradients_enabled_inside(x):
    with torch.enable_grad():
        return torch.relu(x) * 3


by_name("default_dtype_inside", lambda x: (x * torch.ones(6, dtype=torch.float64), torch.full((2,), 3)))
by_name("random_numbers", lambda x: (torch.rand(3, 6).shape[0] + x, torch.randn_like(x).shape))
by_name("dropout_in_training", lambda: nn.Sequential(nn.Dropout(0.0), nn.Linear(6, 3)), build=True)


@program()
def python_random(x):
    import random

    return x * (0 * random.random() + 1)


by_name("from_a_generator", lambda x: (sum(row * 2 for row in x.unbind(0)), [r.sum() for r in itertools.islice(x, 2)]))


@program(build=True)
def a_generator_function():
    def pieces(x):
        yield x * 2
        yield x + 1

    return lambda x: list(pieces(x))


@program(build=True)
def nested_compile():
    inner = torch.compile(lambda x: torch.relu(x) + 1, backend="eager")
    return lambda x: inner(x) * 2


@program(build=True)
def hooks():
    model = nn.Sequential(nn.Linear(6, 3), nn.ReLU())
    model[0].register_forward_hook(lambda module, given, result: result * 2)
    model.register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    return model


class Holder:
    def __init__(self):
        self.weight = torch.ones(6)

    def method(self, x):
        return x * self.weight

    @staticmethod
    def static(x):
        return x * 3


by_name("a_method", lambda: Holder().method, build=True)
by_name("a_static_method", lambda: Holder.static, build=True)
by_name("a_lambda", lambda: lambda x: torch.tanh(x) + 1, build=True)
by_name("a_partial", lambda: functools.partial(torch.softmax, dim=-1), build=True)
by_name("disabled_inside", lambda x: torch._dynamo.disable(torch.tanh)(x * 2) + 1)


@program(around=contextlib.nullcontext)
def custom_function(x):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    return Twice.apply(x) + 1


by_name(
    "vmapped", lambda x: torch.vmap(lambda row: row * row.sum())(x), lambda: [(torch.randn(3, 3),) for _ in range(2)]
)
by_name(
    "derivative", lambda x: torch.func.grad(lambda x: (x**2).sum())(x), lambda: [(torch.randn(3),) for _ in range(2)]
)


@program()
def assertion(x):
    assert x.shape[1] == 6
    torch._assert(x.shape[0] > 1, "rows")
    return x + 1


# Tensors of other kinds


def _complex() -> list[Call]:
    return [(torch.randn(4, dtype=torch.complex64),) for _ in range(2)]


by_name("complex_numbers", lambda z: (z * 2, torch.view_as_real(z), z.abs(), z.conj(), z.conj().imag), _complex)
by_name(
    "lazy_inputs",
    lambda x, z: (x * 2, z.real + z.imag, x[1:]),
    lambda: [(z.conj().imag, z.conj()) for (z,) in _complex()],
)


@program(lambda: [(torch._neg_view(torch.arange(4.0)),) for _ in range(2)])
def lazy_input_changed(x):
    x.add_(1)
    return x * 2


by_name("zero_tensor", lambda x: x + 1, lambda: [(torch._efficientzerotensor(4),) for _ in range(2)])
by_name(
    "sparse",
    lambda s, x: torch.sparse.mm(s, x),
    lambda: [(torch.eye(3).to_sparse(), torch.randn(3, 3)) for _ in range(2)],
)
by_name(
    "halves",
    lambda x, y: (x * 2, y + 1, x.float() + y),
    lambda: [(torch.randn(4).half(), torch.randn(4).bfloat16()) for _ in range(2)],
)
by_name(
    "other_types",
    lambda x, n: (x.sin(), n + 1, x * n),
    lambda: [(torch.randn(4).double(), torch.arange(4, dtype=torch.uint8)) for _ in range(2)],
)
by_name("expanded", lambda x, y: x + y, lambda: [(torch.zeros(1).expand(4), torch.ones(4)) for _ in range(2)])


class Own(torch.Tensor):
    pass


by_name("subclass", lambda x: x * 2, lambda: [(torch.ones(4).as_subclass(Own),) for _ in range(2)])
by_name(
    "nested",
    lambda x: x.sin(),
    lambda: [(torch.nested.nested_tensor([torch.ones(2), torch.ones(n)], layout=torch.jagged),) for n in (3, 4)],
)


# Models


by_name(
    "transformer_layer",
    lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval(),
    rows(4, 4, columns=8),
    build=True,
)
by_name(
    "recurrent", lambda: nn.LSTM(6, 4, batch_first=True), lambda: [(torch.randn(2, n, 6),) for n in (3, 5)], build=True
)
by_name(
    "convolution",
    lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    lambda: [(torch.randn(1, 3, n, n),) for n in (8, 10)],
    build=True,
)
by_name(
    "embedding",
    lambda: nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4)),
    lambda: [(torch.tensor([[1, n]]),) for n in (2, 3)],
    build=True,
)
by_name(
    "attention_of_changing_length",
    lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
    lambda: [(torch.randn(1, 2, n, 4),) for n in (3, 5)],
)
by_name(
    "loss",
    lambda x, target: F.cross_entropy(x, target),
    lambda: [(torch.randn(3, 4), torch.tensor([0, n, 1])) for n in (2, 3)],
)


@program(lambda: [(torch.ones(1, 2), n) for n in (3, 4)])
def a_loop_that_grows(x, steps):
    for _ in range(steps):
        x = torch.cat([x, x[-1:] * 2])
    return x


@program(ones, build=True)
def a_step_of_sgd():
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def function(x):
        optimizer.step()
        return weight.detach() * x

    return function


def run(names: list[str]) -> Iterator[tuple[str, Judged]]:
    for name in names or PROGRAMS:
        yield name, judge(name)


def main() -> int:
    wrong = hosts = count = 0
    for name, judged in run(sys.argv[1:]):
        count, hosts, wrong = count + 1, hosts + bool(judged.hosts), wrong + (judged.verdict != "right")
        print(f"{name:32} {judged.verdict:8} {judged.detail}", flush=True)
    print(f"{count} programs: {count - wrong} right, {wrong} differ; {hosts} have a graph on the host as a whole")
    return bool(wrong)


if __name__ == "__main__":
    _ = wb  # the backend is found by its entry point
    sys.exit(main())
