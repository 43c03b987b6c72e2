"""The ops that programs are drawn from, by family: each gives the lines of a step, with `OUT` for its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tests.fuzz.generate import Draw, Value


class Unsuited(Exception):
    """The drawn op does not fit the values at hand: draw again."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Lines that assign to OUT, the values they read, and whether the result is computed without rounding."""

    lines: tuple[str, ...]
    reads: tuple[str, ...]
    exact: bool


def _floating(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point()


def _of(text: str, *values: Value, exact: bool = False) -> Drawn:
    """One line; the result is exact when the op is and what it reads is."""
    return Drawn((f"OUT = {text}",), tuple(value.name for value in values), exact and all(v.exact for v in values))


_ROUNDING = (
    "torch.sigmoid({0})", "torch.tanh({0})", "torch.exp(-{0}.abs())", "torch.sin({0})", "torch.cos({0})",
    "F.gelu({0})", "F.gelu({0}, approximate='tanh')", "F.silu({0})", "F.hardswish({0})",
    "F.softplus({0})", "F.elu({0})",
    "F.leaky_relu({0}, 0.1)", "torch.erf({0})", "torch.sqrt({0}.abs())", "torch.rsqrt({0}.abs() + 1)",
    "torch.log({0}.abs() + 1)", "torch.log1p({0}.abs())", "torch.reciprocal({0}.abs() + 1)", "{0} * 0.5 + 1",
    "F.hardsigmoid({0})", "torch.expm1(-{0}.abs())", "{0} ** 2", "1 - {0}", "{0} / 3", "F.mish({0})",
    "F.logsigmoid({0})", "F.softsign({0})", "torch.atan({0})", "F.selu({0})", "F.celu({0})", "torch.exp2(-{0}.abs())",
)  # fmt: skip
_EXACT = (
    "torch.relu({0})", "-{0}", "torch.abs({0})", "{0}.clamp(-1, 1)", "{0}.clamp(min=0)", "F.relu6({0})",
    "F.hardtanh({0})",
)  # fmt: skip
_JUMPING = (
    "torch.floor({0})", "torch.ceil({0})", "torch.round({0})", "torch.trunc({0})", "torch.sign({0})",
    "{0}.to(torch.int32)", "{0}.to(torch.int64)", "({0} > 0)", "torch.isnan({0})", "torch.isinf({0})",
    "torch.logical_not({0})", "{0}.bool()", "F.hardshrink({0})", "F.threshold({0}, 0.1, 20)", "torch.frac({0})",
)  # fmt: skip


def rounding(draw: Draw) -> Drawn:
    value = draw.pick(_floating)
    return _of(draw.random.choice(_ROUNDING).format(value.name), value)


def exact(draw: Draw) -> Drawn:
    value = draw.pick()
    return _of(draw.random.choice(_EXACT).format(value.name), value, exact=True)


def jumping(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: bool(tensor.isfinite().all()), exact=True)
    return _of(draw.random.choice(_JUMPING).format(value.name), value, exact=True)


def _partner(draw: Draw, value: Value) -> Value:
    """A value that broadcasts with this one: one that is there, or a new input with some extents of one."""
    found = [other for other in draw.values if _broadcasts(other.tensor, value.tensor) and other is not value]
    if found and draw.random.random() < 0.6:
        return draw.random.choice(found)
    shape = [1 if draw.random.random() < 0.25 else extent for extent in value.tensor.shape]
    shape = shape[draw.random.randint(0, len(shape)) if draw.random.random() < 0.2 else 0 :]
    dtype = str(value.tensor.dtype).removeprefix("torch.") if draw.random.random() < 0.7 else draw.dtype()
    return draw.input(tuple(shape), dtype)


def _broadcasts(left: torch.Tensor, right: torch.Tensor) -> bool:
    try:
        torch.broadcast_shapes(left.shape, right.shape)
    except RuntimeError:
        return False
    return True


def binary(draw: Draw) -> Drawn:
    value = draw.pick()
    other = _partner(draw, value)
    forms = (
        "{0} + {1}",
        "{0} - {1}",
        "{0} * {1}",
        "{0} / ({1}.abs() + 1)",
        "torch.add({0}, {1}, alpha=2)",
        "{1} - {0}",
    )
    both = _of(draw.random.choice(forms).format(value.name, other.name), value, other)
    whole = not (value.tensor.is_floating_point() or other.tensor.is_floating_point()) and "/" not in both.lines[0]
    return Drawn(both.lines, both.reads, whole and value.exact and other.exact)


def choosing(draw: Draw) -> Drawn:
    value = draw.pick()
    other = _partner(draw, value)
    form = draw.random.choice(("torch.maximum({0}, {1})", "torch.minimum({0}, {1})"))
    return _of(form.format(value.name, other.name), value, other, exact=True)


def comparing(draw: Draw) -> Drawn:
    value = draw.pick(exact=True)
    other = _partner(draw, value)
    if not other.exact:
        raise Unsuited
    form = draw.random.choice(("{0} < {1}", "{0} >= {1}", "{0} == {1}", "{0} != {1}", "({0} <= {1}) | ({0} > 1)"))
    return _of(form.format(value.name, other.name), value, other, exact=True)


def where(draw: Draw) -> Drawn:
    value = draw.pick()
    mask = draw.pick(lambda tensor: tensor.dtype == torch.bool and _broadcasts(tensor, value.tensor))
    if draw.random.random() < 0.4:
        return _of(f"{value.name}.masked_fill({mask.name}, 1)", value, mask, exact=True)
    other = _partner(draw, value)
    return _of(f"torch.where({mask.name}, {value.name}, {other.name})", mask, value, other, exact=True)


def whole_numbers(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: not tensor.is_floating_point())
    forms = ["{0} & 5", "{0} | 2", "{0} ^ 3", "~{0}", "{0} // 3", "{0} % 4", "{0} + 7", "{0} * 3"]
    if value.tensor.dtype != torch.bool:  # PyTorch shifts booleans only when it does not trace
        forms += ["{0} << 1", "{0} >> 1"]
    return _of(draw.random.choice(forms).format(value.name), value, exact=True)


def reduction(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.dim() > 0)
    dim = draw.random.randrange(-value.tensor.dim(), value.tensor.dim())
    keep = draw.random.random() < 0.4
    forms = ["{0}.sum({1}, keepdim={2})", "{0}.mean({1}, keepdim={2})", "{0}.amax({1}, keepdim={2})",
             "{0}.amin({1}, keepdim={2})", "{0}.sum()", "{0}.mean()", "{0}.max()", "{0}.var({1}, keepdim={2})",
             "{0}.std({1}, keepdim={2})", "{0}.logsumexp({1})", "torch.linalg.vector_norm({0}, dim={1})",
             "torch.max({0}, {1})[0]", "({0}.clamp(-2, 2) / 2).prod({1})"]  # fmt: skip
    text = draw.random.choice(forms).format(value.name, dim, keep)
    return _of(text, value, exact="max" in text or "amin" in text or not value.tensor.is_floating_point())


def deciding(draw: Draw) -> Drawn:
    """Reductions whose result jumps."""
    value = draw.pick(lambda tensor: tensor.dim() > 0, exact=True)
    dim = draw.random.randrange(value.tensor.dim())
    forms = ["{0}.argmax({1})", "{0}.argmin({1})", "({0} > 0).any({1})", "({0} > 0).all({1})", "torch.max({0}, {1})[1]",
             "{0}.argmax()", "({0} > 0).sum({1})"]  # fmt: skip
    return _of(draw.random.choice(forms).format(value.name, dim), value, exact=True)


def ordering(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.dim() > 0 and tensor.dtype != torch.bool, exact=True)
    dim = draw.random.randrange(value.tensor.dim())
    count = draw.random.randint(1, value.tensor.shape[dim])
    stable = "torch.sort({0}, dim={1}, stable=True"  # gradients go by the order of equal numbers
    forms = [f"{stable})[0]", f"{stable})[1]", "torch.topk({0}, {2}, {1})[0]", f"{stable}, descending=True)[0]"]
    return _of(draw.random.choice(forms).format(value.name, dim, count), value, exact=True)


def scan(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.dim() > 0)
    dim = draw.random.randrange(value.tensor.dim())
    return _of(f"{value.name}.cumsum({dim})", value, exact=not value.tensor.is_floating_point())


def normalising(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.is_floating_point() and tensor.dim() > 0)
    dim = draw.random.randrange(value.tensor.dim())
    last = value.tensor.shape[-1]
    forms = ["{0}.softmax({1})", "F.log_softmax({0}, {1})", "F.layer_norm({0}, ({2},))", "F.rms_norm({0}, ({2},))",
             "F.normalize({0}, dim={1})"]  # fmt: skip
    if value.tensor.dim() == 4:
        forms += ["F.group_norm({0}, 1)", "F.instance_norm({0})"]
    return _of(draw.random.choice(forms).format(value.name, dim, last), value)


def view(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.dim() > 0)
    tensor, name = value.tensor, value.name
    dim = draw.random.randrange(tensor.dim())
    other = draw.random.randrange(tensor.dim())
    start = draw.random.randrange(tensor.shape[dim])
    forms = [
        f"{name}.transpose({dim}, {other})", f"{name}.reshape(-1)", f"{name}.unsqueeze({dim})", f"{name}.squeeze()",
        f"{name}.narrow({dim}, {start}, {tensor.shape[dim] - start})", f"{name}.select({dim}, {start})",
        f"{name}[{'..., ' if tensor.dim() > 1 else ''}::2]", f"{name}.flatten()",
        f"{name}.movedim({dim}, {other})", f"{name}.reshape({tensor.shape[dim]}, -1)",
        f"{name}.unsqueeze(0).expand(3, {', '.join(['-1'] * tensor.dim())})", f"{name}.split(2, {dim})[0]",
        f"{name}.unbind({dim})[-1]", f"{name}.chunk(2, {dim})[-1]",
    ]  # fmt: skip
    return _of(draw.random.choice(forms), value, exact=True)


def moving(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.dim() > 0)
    tensor, name = value.tensor, value.name
    dim = draw.random.randrange(tensor.dim())
    forms = [
        f"{name}.flip({dim})", f"{name}.roll({draw.random.randint(-3, 3)}, {dim})", f"{name}.contiguous()",
        f"F.pad({name}, (1, 2))", f"F.pad({name}, (-1, 1), value=3)" if tensor.shape[-1] > 1 else f"{name}.clone()",
        f"torch.cat([{name}, {name}], {dim})", f"torch.stack([{name}, {name}], {dim})",
        f"{name}.repeat_interleave(2, {dim})", f"{name}.repeat({', '.join(['2'] * tensor.dim())})",
        f"{name}.tril()" if tensor.dim() > 1 else f"{name}.clone()",
        f"{name}.triu(1)" if tensor.dim() > 1 else f"{name}.clone()",
    ]  # fmt: skip
    if tensor.dim() == 4 and tensor.is_floating_point():
        forms += [f"F.interpolate({name}, scale_factor=2)"]
    return _of(draw.random.choice(forms), value, exact=True)


def joining(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.dim() > 0)
    dim = draw.random.randrange(value.tensor.dim())
    shape = list(value.tensor.shape)
    shape[dim] = draw.random.randint(1, 5)
    other = draw.input(tuple(shape), str(value.tensor.dtype).removeprefix("torch."))
    return _of(f"torch.cat([{value.name}, {other.name}], {dim})", value, other, exact=True)


def product(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.dim() in (1, 2, 3) and tensor.dtype != torch.bool)
    shape, dtype = value.tensor.shape, str(value.tensor.dtype).removeprefix("torch.")
    n = draw.random.choice((1, 3, 8, 17))
    if value.tensor.is_floating_point() and draw.random.random() < 0.5:
        weight = draw.input((n, shape[-1]), dtype)
        if draw.random.random() < 0.5:
            bias = draw.input((n,), dtype)
            return _of(f"F.linear({value.name}, {weight.name}, {bias.name})", value, weight, bias)
        return _of(f"F.linear({value.name}, {weight.name})", value, weight)
    batch = shape[:1] if len(shape) == 3 and draw.random.random() < 0.5 else ()
    right = draw.input((*batch, shape[-1], n), dtype)
    return _of(f"{value.name} @ {right.name}", value, right, exact=not value.tensor.is_floating_point())


_BEFORE = ("{0}", "torch.relu({0})", "F.gelu({0})", "({0} * 0.5 + 1)", "torch.tanh({0} + 1)")
_ROWS = (
    "torch.softmax({0}, -1)", "{0}.amax(-1)", "{0}.mean(-1, keepdim=True)", "{0}.var(-1)", "F.log_softmax({0}, -1)",
    "F.layer_norm({0}, {0}.shape[-1:])", "F.normalize({0} + 2, dim=-1)", "{0}.sum(-1)", "F.gelu({0} * 0.5)", "{0}.T",
)  # fmt: skip


def around_a_product(draw: Draw) -> Drawn:
    """Pointwise ops on what a product reads, and reductions of its rows."""
    value = draw.pick(lambda tensor: tensor.dim() in (2, 3) and tensor.is_floating_point())
    shape, dtype = value.tensor.shape, str(value.tensor.dtype).removeprefix("torch.")
    n = draw.random.choice((1, 2, 8, 17, 40))
    batch = shape[:1] if len(shape) == 3 and draw.random.random() < 0.5 else ()
    right = draw.input((*batch, shape[-1], n), dtype)
    one, other = (draw.random.choice(_BEFORE).format(each.name) for each in (value, right))
    return _of(draw.random.choice(_ROWS).format(f"({one} @ {other})"), value, right)


_TOGETHER = (
    "F.silu({0}) * {1}", "torch.cat([{0}, {1} + 1], -1)", "torch.stack([{1}, torch.relu({0})])",
    "torch.softmax({0}, -1) + {1}", "{0} + torch.softmax({1}, 0)", "({0} + {1}).amax(-1)",
)  # fmt: skip


def sharing_an_operand(draw: Draw) -> Drawn:
    """Products that read one operand."""
    value = draw.pick(lambda tensor: tensor.dim() in (2, 3) and tensor.is_floating_point())
    shape, dtype = value.tensor.shape, str(value.tensor.dtype).removeprefix("torch.")
    n = draw.random.choice((1, 2, 8, 17, 40))
    linear = draw.random.random() < 0.5
    weights = [draw.input((n, shape[-1]) if linear else (shape[-1], n), dtype) for _ in range(2)]
    read = draw.random.choice(_BEFORE).format(value.name)
    made = [f"F.linear(shared, {each.name})" if linear else f"shared @ {each.name}" for each in weights]
    together = draw.random.choice(_TOGETHER).format(*(f"({each})" for each in made))
    return Drawn((f"shared = {read}", f"OUT = {together}"), tuple(each.name for each in (value, *weights)), False)


_MASKED = (
    "{0}", "({0} + {1})", "{0}.masked_fill({1} > 0, -1e4)", "torch.where({1} > 0, {0}, -torch.inf)",
    "{0}.masked_fill({1} > 0.5, float('-inf'))", "torch.tanh({0} + {1})",
)  # fmt: skip


def written_attention(draw: Draw) -> Drawn:
    """Attention by hand: scaled scores with a mask, their softmax, and the sum of values; in forms that are one kernel,
    and in some that are not."""
    value = draw.pick(lambda tensor: tensor.dim() in (2, 3, 4) and tensor.is_floating_point())
    *lead, queries, width = value.tensor.shape
    dtype = str(value.tensor.dtype).removeprefix("torch.")
    keys, made = draw.random.choice((1, 3, 8, 17)), draw.random.choice((1, 4, 9))
    shared = [extent if draw.random.random() < 0.8 else 1 for extent in lead]
    key, values = draw.input((*shared, keys, width), dtype), draw.input((*shared, keys, made), dtype)
    mask = draw.input((draw.random.choice((1, queries)), keys), dtype)
    scores = f"({value.name} @ {key.name}.transpose(-1, -2) {draw.random.choice(('* 0.25', '/ 3', ''))})"
    weights = f"torch.softmax({draw.random.choice(_MASKED).format(scores, mask.name)}, -1)"
    return _of(f"{weights} @ {values.name}", value, key, values, mask)


def window(draw: Draw) -> Drawn:
    shape = (
        draw.random.choice((1, 2)),
        draw.random.choice((1, 2, 3, 4, 8)),
        *(draw.random.randint(3, 9) for _ in "hw"),
    )
    fitting = [
        v for v in draw.values if v.tensor.dim() == 4 and v.tensor.is_floating_point() and min(v.tensor.shape) > 0
    ]
    value = draw.random.choice(fitting) if fitting and draw.random.random() < 0.7 else draw.input(shape, "float32")
    name, channels = value.name, value.tensor.shape[1]
    kernel, stride = draw.random.choice((1, 2, 3)), draw.random.choice((1, 1, 2))
    padding = draw.random.randint(0, kernel // 2)
    if draw.random.random() < 0.5:
        forms = [f"F.max_pool2d({name}, {kernel}, {stride}, {padding})", 
                 f"F.avg_pool2d({name}, {kernel}, {stride}, {padding})",
                 f"F.adaptive_avg_pool2d({name}, {draw.random.choice((1, 2, 3))})",
                 f"F.adaptive_max_pool2d({name}, {draw.random.choice((1, 2))})"]  # fmt: skip
        return _of(draw.random.choice(forms), value)
    groups = draw.random.choice([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
    dtype = str(value.tensor.dtype).removeprefix("torch.")
    weight = draw.input((groups * draw.random.randint(1, 4), channels // groups, kernel, kernel), dtype)
    extra = f"stride={stride}, padding={padding}, dilation={draw.random.choice((1, 1, 2))}, groups={groups}"
    before = draw.random.choice(_BEFORE).format(name)
    return _of(f"F.conv2d({before}, {weight.name}, None, {extra})", value, weight)


def indexing(draw: Draw) -> Drawn:
    value = draw.pick(lambda tensor: tensor.dim() > 0)
    dim = draw.random.randrange(value.tensor.dim())
    extent = value.tensor.shape[dim]
    if draw.random.random() < 0.5:
        shape = list(value.tensor.shape)
        shape[dim] = draw.random.randint(1, 6)
        index = draw.input(tuple(shape), "int64", f"0:{extent}", "contiguous")
        return _of(f"{value.name}.gather({dim}, {index.name})", value, index, exact=True)
    index = draw.input((draw.random.randint(1, 7),), "int64", f"0:{extent}", "contiguous")
    if dim == 0 and value.tensor.dim() == 2 and draw.random.random() < 0.5:
        return _of(f"F.embedding({index.name}, {value.name})", value, index, exact=True)
    return _of(f"{value.name}.index_select({dim}, {index.name})", value, index, exact=True)


def writing(draw: Draw) -> Drawn:
    """A copy that is then changed in place."""
    value = draw.pick(lambda tensor: tensor.dim() > 0)
    name, extent = value.name, value.tensor.shape[0]
    start = draw.random.randrange(extent)
    forms = ["OUT.add_(1)", f"OUT[{start}:] = 2", f"OUT[{start}] = {name}[0]", "OUT.zero_()", "OUT.mul_(2)",
             f"OUT[:{start + 1}] += 1", "OUT.fill_(3)", f"OUT.copy_({name}.flip(0))"]  # fmt: skip
    return Drawn((f"OUT = {name}.clone()", draw.random.choice(forms)), (name,), False)


def changing(draw: Draw) -> Drawn:
    """An input changed in place, and the changed one returned; nothing drawn before may count as exact any more."""
    value = draw.random.choice([each for each in draw.values if each.name.startswith("x")])
    form = draw.random.choice(("{0}.add_(1)", "{0}.mul_(2)", "{0}.clamp_(-1, 1)", "{0}[0] = 1"))
    if "[0]" in form and not value.tensor.dim():
        raise Unsuited
    keep = value.tensor.clone()
    try:
        exec(form.format("x"), {"x": value.tensor})
    except RuntimeError:
        raise Unsuited from None
    value.tensor.copy_(keep)
    for each in draw.values:
        each.exact = False
    return Drawn((form.format(value.name), f"OUT = {value.name} * 1"), (value.name,), False)


def casting(draw: Draw) -> Drawn:
    value = draw.pick()
    kinds = ["float32", "float16", "bfloat16", "float64"]
    if value.exact and not value.tensor.is_floating_point():
        kinds += ["int64", "int32", "int16", "int8", "uint8", "bool"]
    kind = draw.random.choice(kinds)
    return _of(f"{value.name}.to(torch.{kind})", value, exact=not value.tensor.is_floating_point() and "int" in kind)


def attention(draw: Draw) -> Drawn:
    """Of finite numbers: what becomes of a NaN behind a mask differs between PyTorch's own ways, chosen by strides."""
    value = draw.pick(
        lambda tensor: tensor.is_floating_point() and tensor.dim() in (3, 4) and bool(tensor.isfinite().all())
    )
    if draw.random.random() < 0.4:
        causal = draw.random.random() < 0.5
        return _of(
            f"F.scaled_dot_product_attention({value.name}, {value.name}, {value.name}, is_causal={causal})", value
        )
    *outer, queries, width = value.tensor.shape
    dtype, keys = str(value.tensor.dtype).removeprefix("torch."), draw.random.choice((1, 3, 8, 17, 40))
    key = draw.input((*outer, keys, width), dtype, "normal")
    values = draw.input((*outer, keys, draw.random.choice((width, 1, 9))), dtype, "normal")
    form = draw.random.choice(("none", "added", "chosen", "scale"))
    mask = draw.input((queries, keys), dtype if form == "added" else "bool", "normal")
    extra = {"none": "", "added": f", attn_mask={mask.name}", "scale": ", scale=0.3"}.get(
        form, f", attn_mask={mask.name}"
    )
    read = (value, key, values, *([mask] if "mask" in extra else []))
    return _of(f"F.scaled_dot_product_attention({value.name}, {key.name}, {values.name}{extra})", *read)


def patterned(draw: Draw) -> Drawn:
    """Draws an op that the pattern of `own_pattern` matches, in f32, or one that nearly does."""
    value = draw.pick(_floating)
    form = draw.random.choice(("torch.relu({0} * 0.5)", "torch.relu(2 * {0})", "torch.relu(({0} + 1) * 0.25) * {0}"))
    return _of(form.format(value.name), value)


def residual(draw: Draw) -> Drawn:
    """A product added to what there is, and the norm of its rows: the sum may be a result of the kernel as well."""
    value = draw.pick(lambda tensor: tensor.dim() in (2, 3) and tensor.is_floating_point())
    shape, dtype = value.tensor.shape, str(value.tensor.dtype).removeprefix("torch.")
    left = draw.input((*shape[:-1], draw.random.choice((3, 8, 17))), dtype)
    right = draw.input((left.tensor.shape[-1], shape[-1]), dtype)
    total = f"({left.name} @ {right.name} + {value.name})"
    form = draw.random.choice(("F.layer_norm({0}, {0}.shape[-1:]) + {0}", "torch.softmax({0}, -1) * {0}", "{0}"))
    return _of(form.format(total), value, left, right)


TABLE: tuple[tuple[Callable[[Draw], Drawn], int], ...] = (
    (rounding, 10), (exact, 6), (jumping, 3), (binary, 12), (choosing, 2), (comparing, 4), (where, 3),
    (whole_numbers, 3), (reduction, 8), (deciding, 2), (ordering, 1), (scan, 1), (normalising, 4), (view, 10),
    (moving, 4), (joining, 2), (product, 5), (around_a_product, 4), (window, 4), (indexing, 3), (writing, 3),
    (changing, 1), (casting, 3), (attention, 2), (patterned, 2), (residual, 2), (sharing_an_operand, 2),
    (written_attention, 3),
)  # fmt: skip
DRAWN = [draw for draw, _ in TABLE]
WEIGHTS = [weight for _, weight in TABLE]
