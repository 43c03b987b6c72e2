"""Finds the part of a result that is rounding: computes the function again with every rounding drawn by lot.

A float has a fixed number of binary digits, and each op rounds to them, up or down. The direction depends on the order
of a sum, on the library and on the processor, so all directions are equally right. If they are drawn by lot (stochastic
rounding, a kind of Monte Carlo arithmetic), the distance between the results is the part that rounding decides. This
needs no knowledge of the program: errors cancel, grow or are damped here as in the program.

Each op is computed in 64 bits, and its result is rounded by lot to the type that it has in the program: to one of the
two neighbours, more often to the nearer one. A number that the type holds stays unchanged. Roundings within an op are
drawn, too:

* **Sums.** Adding n terms one after the other rounds n - 1 partial sums, each by up to half a unit u. For terms in
  random order the partial sum after k of them is k/n of the total S, give or take sqrt(k(n-k)/n) of the terms' spread:
  squared and summed, S^2 n/3 + Q n/6, with Q the sum of the squared terms. So each term is off by u sqrt((n-1)/6) of
  itself, and the total by u sqrt((n-1)/3) of itself. Kernels that add in tiles, lanes or pairs round less. Terms that
  lie in memory in some order (a gradient that a pool has spread over each image) have partial sums that may be far
  larger than the total, and adding a number again and again rounds the same way each time: so half of the draws of a
  `sum` or `mean` take the partial sums as the terms lie, and round equal terms alike.
* **Sums by index** (`index_add`, `scatter_add`, `index_put`) are stored after each addition, in 16 bits if the
  result has 16.
* **Products of many** (`prod`, `cumprod`) are computed in a random order. The product of some of the factors may be
  too small or too large for the type.
* **Functions.** Libraries of vector functions (exp, tanh, erf, the roots of odd norms and so on) promise four units.
* **Norms, softmax, hardswish and the like** are written out in simpler ops, each with its own roundings.
* **Attention** is computed step by step, as in one of PyTorch's own ways.
* **The user's own operators** run their Python, op by op; each result is stored in the type that it has there. An
  operator in which no op of PyTorch computes (compiled code, numpy) cannot be opened, and counts as a function of a
  library.
* **Terms added to a product** (a bias) may be added after the product is stored, in 16 bits if the result has 16.

16-bit types are summed in 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Final, cast

import torch
from torch.overrides import TorchFunctionMode

from workbench.checking.opened_ops import PYTORCHS, call_inside, is_composite, is_own
from workbench.checking.simpler_ops import SIMPLER, STEP_BY_STEP, attention, bias_apart, products, running_products
from workbench.checking.summed_terms import NORMS, STORED_SUMS, TERMS, error_in_order, is_rooted
from workbench.checking.widening import NO_KERNEL, CannotWiden, all_wide
from workbench.ground.environment.turns import turn
from workbench.ground.torch_inside.capture_settings import without_onednn
from workbench.ground.torch_inside.dispatch_modes import TorchDispatchMode, function_modes
from workbench.ground.torch_inside.functorch_layers import in_forward_mode
from workbench.ground.torch_inside.operator_objects import overload_name, schema_of_op, written_by
from workbench.ground.torch_inside.pytrees import tensors_in, tree_flatten, tree_leaves, tree_map
from workbench.operators.tensors.attention_layout import also_going_back, as_fused

aten = torch.ops.aten
WIDE: Final = torch.float64
LIBRARY: Final = 4.0
"""Units in the last place that libraries of vector functions promise."""
_EXPONENT: Final = 0x7FF0000000000000
_NARROW: Final = (torch.float32, torch.float16, torch.bfloat16)

CORRECTLY_ROUNDED: Final = frozenset(
    """
    abs add ceil clamp clamp_max clamp_min clone copy copysign div eq fill floor floor_divide fmax fmin fmod
    frac ge gt hardtanh heaviside le lt masked_fill maximum minimum mul ne neg nextafter positive relu
    remainder round rsub sgn sign signbit sqrt square sub threshold trunc where _to_copy
    leaky_relu reciprocal nan_to_num logical_not isnan isinf ldexp hardshrink softshrink
    """.split()  # noqa: SIM905
)
"""Pointwise ops that round only their result."""


def spacing(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One unit in the last place of `dtype` at each of these 64-bit values."""
    info = torch.finfo(dtype)
    powers = (values.contiguous().view(torch.int64) & _EXPONENT).view(WIDE)
    smallest = max(info.smallest_normal * info.eps, 5e-324)
    return (powers * info.eps).clamp(smallest, torch.finfo(WIDE).max)


def drawn(values: torch.Tensor, dtype: torch.dtype, lot: torch.Generator) -> torch.Tensor:
    """64-bit values as `dtype`, each rounded up or down by lot; values that `dtype` holds stay unchanged."""
    if values.is_complex():
        parts, size = torch.view_as_real(values), values.abs().unsqueeze(-1).expand(*values.shape, 2)
        return torch.view_as_complex(_drawn(parts, size, dtype.to_real(), lot).to(dtype.to_real()).contiguous())
    return _drawn(values, values, dtype, lot)


def _drawn(values: torch.Tensor, size: torch.Tensor, dtype: torch.dtype, lot: torch.Generator) -> torch.Tensor:
    nearest = values.to(dtype)
    units = torch.rand(values.shape, generator=lot, dtype=WIDE) - 0.5
    if dtype == WIDE:  # a result rounded in an unknown direction: a unit each way
        return values + 2 * units * spacing(size, dtype)
    moved = (values + units * spacing(size, dtype)).to(dtype)
    return torch.where((nearest.to(WIDE) == values) | values.isnan(), nearest, moved)


@contextmanager
def roundings_drawn(seed: int) -> Generator[None]:
    """A context in which a function computes in its own types with roundings drawn by lot; layers that oneDNN computes
    whole are taken apart.

    Threads take turns: all share PyTorch's switch of oneDNN, and its engine of gradients.
    """
    with turn(), also_going_back(_Whole()), Rounded(seed):
        yield


class _Whole(TorchFunctionMode):
    """Computes attention step by step, before PyTorch chooses a way: some ways store no step in 16 bits, others all of
    them. Computes recurrent layers without oneDNN."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            return as_fused(attention(*args, **(kwargs or {})), args, kwargs or {})
        with without_onednn() if getattr(func, "__name__", "") == "lstm" else nullcontext():
            return func(*args, **(kwargs or {}))


class Rounded(TorchDispatchMode):
    """Computes a function in its own types: each op's result in 64 bits, then rounded by lot."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.lot, self.around = torch.Generator().manual_seed(seed), function_modes()
        self.computed = 0
        """The number of ops so far that computed numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tuple(args), dict(kwargs or {})
        if in_forward_mode():  # tensors with tangents have no bits to look at
            return func(*given[0], **given[1])
        if func in STEP_BY_STEP and not (len(args) > 3 and args[3]):  # without dropout
            with self:
                return STEP_BY_STEP[func](*given[0], **given[1])
        if is_composite(func):
            return call_inside(func, self, self.around, *given)
        if is_own(func):
            return self._own(func, *given)
        self.computed += not _only_moves(func, *given)
        written = _written(func, *given)
        wide_given = None if _untouched(func, written) else self._wide(given)
        native = func(*given[0], **given[1])
        if wide_given is None:
            return native
        try:
            with _Inside(self.lot, torch.float64 if _has_wide(given, native) else torch.float32, _half_of(native)):
                wide = func(*wide_given[0], **wide_given[1])
        except NO_KERNEL:
            return native
        self._settle(tree_leaves(native), tree_leaves(wide))
        self._settle(written, _written(func, *wide_given))
        return native

    def _own(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Computes a user's operator: its ops one by one, or, if none of them computes, as a library's function."""
        before, generator = self.computed, self.lot.get_state()
        written, wide_given = _written(func, args, kwargs), self._wide((args, kwargs))
        native = call_inside(func, self, self.around, args, kwargs)
        if self.computed > before:
            return native
        self.lot.set_state(generator)
        made = [*tree_leaves(native), *written]
        try:
            wide = tree_leaves(func(*wide_given[0], **wide_given[1])) if wide_given else made
            wide += _written(func, *wide_given) if wide_given else []
        except Exception:  # of the user's code, which may take its own types only
            wide = made
        library = _Inside(self.lot, torch.float64 if _has_wide((args, kwargs), native) else torch.float32, None)
        self._settle(made, [library.off(all_wide(each, WIDE), LIBRARY) for each in wide])
        return native

    def _wide(self, given: tuple[Any, Any]) -> tuple[Any, Any] | None:
        """Copies of an op's arguments in 64 bits; None if an argument cannot be widened."""
        try:
            return tree_map(_own, all_wide(given, WIDE), given)
        except CannotWiden:
            return None

    def _settle(self, native: Sequence[object], wide: Sequence[object]) -> None:
        """Puts drawn results in place of PyTorch's."""
        for mine, theirs in zip(native, wide, strict=False):
            if isinstance(mine, torch.Tensor) and isinstance(theirs, torch.Tensor) and mine.shape == theirs.shape:
                if mine.dtype in (torch.complex64, *_NARROW):
                    mine.copy_(
                        drawn(theirs.to(torch.complex128 if theirs.is_complex() else WIDE), mine.dtype, self.lot)
                    )
                elif mine.dtype in (WIDE, torch.complex128):
                    mine.copy_(theirs)


def _own(wide: object, given: object) -> object:
    """A copy of the tensor, unless widening has made one already."""
    return wide.clone() if isinstance(wide, torch.Tensor) and wide is given else wide


def _untouched(func: Any, written: Sequence[torch.Tensor]) -> bool:
    """True for ops that make no number: views, and random ops, whose numbers are drawn already."""
    views = any(each.alias_info is not None for each in schema_of_op(func).returns) and not written
    return views or torch.Tag.nondeterministic_seeded in func.tags


_MOVES: Final = frozenset("clone copy_ _to_copy contiguous empty_like zeros_like ones_like full_like".split())  # noqa: SIM905


def _only_moves(func: Any, args: Any, kwargs: Any) -> bool:
    """True if an op computes nothing: it makes, views or copies a tensor."""
    name, tensors = _name(func), tensors_in((args, kwargs))
    return not tensors or name in _MOVES or name.startswith("new_") or _untouched(func, _written(func, args, kwargs))


def _written(func: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> list[torch.Tensor]:
    """The arguments that an op writes into."""
    if func is aten.native_batch_norm.default:  # its schema does not say so
        return [each for each in args[3:5] if args[5] and isinstance(each, torch.Tensor)]
    return written_by(func, args, kwargs) if schema_of_op(func).is_mutable else []


def _has_wide(given: Any, native: Any) -> bool:
    """True if the op is computed in 64 bits anyway."""
    leaves = tensors_in((native, given))
    return any(each.dtype in (WIDE, torch.complex128) for each in leaves if each.dim()) or (
        all(each.dtype in (WIDE, torch.complex128) for each in leaves if each.is_floating_point() or each.is_complex())
    )


def _half_of(native: Any) -> torch.dtype | None:
    """The 16-bit type of a result; None if no result has one."""
    kinds = (each.dtype for each in tensors_in(native))
    return next((kind for kind in kinds if kind in (torch.float16, torch.bfloat16)), None)


def _with_addend(
    func: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Callable[[], torch.Tensor], torch.Tensor] | None:
    """A function for the product, and the term that is added, of ops that do both; None for other ops."""
    if name in ("convolution", "_convolution") and args[2] is not None:
        bias = args[2].reshape(-1, *[1] * (args[1].dim() - 2))
        return lambda: func(args[0], args[1], None, *args[3:], **kwargs), bias
    if name in ("addmm", "baddbmm", "addmv"):
        product, beta, alpha = torch.matmul, kwargs.get("beta", 1), kwargs.get("alpha", 1)
        return lambda: product(args[1], args[2]) * alpha, args[0] * beta if beta else torch.zeros(())
    return None


_SCALED: Final[Mapping[str, int]] = MappingProxyType({"add": 1, "sub": 1, "rsub": 0})
"""Ops with a factor `alpha` for the operand in this place. The factor is multiplied first, or in one step with the
sum."""


class _Inside(TorchDispatchMode):
    """One op computed in 64 bits, with its inner roundings of `kind` drawn by lot."""

    def __init__(self, lot: torch.Generator, kind: torch.dtype, stored: torch.dtype | None) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.lot, self.kind, self.half = lot, kind, torch.finfo(kind).eps / 2
        self.stored = stored
        """The 16-bit type of the op's result; None if the result has another type."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tuple(args), dict(kwargs or {})
        simpler = SIMPLER.get(func)
        if simpler is not None:
            with self:
                return simpler(*args, **kwargs)
        if is_composite(func):
            return call_inside(func, self, (), args, kwargs)
        if (to_new_memory := _not_in_place(func)) is not None:
            with self:
                made = to_new_memory(*args, **kwargs)
            return cast("torch.Tensor", args[0]).copy_(made)
        name = _name(func)
        if (scaled := _SCALED.get(name)) is not None and kwargs.get("alpha", 1) != 1:
            operands: list[Any] = [*args]
            with self:
                operands[scaled] = operands[scaled] * kwargs.pop("alpha")
                return func(*operands, **kwargs)
        if self.stored is not None and (parts := _with_addend(func, name, args, kwargs)) is not None:
            with self:
                return drawn(parts[0](), self.stored, self.lot).to(WIDE) + parts[1]
        if (source := STORED_SUMS.get(name.rstrip("_"))) is not None and len(args) > source:
            return self._stored_sum(func, args, kwargs, source)
        if name in ("prod", "cumprod"):
            return self._chain(func, name, args, kwargs)
        if name == "convolution_backward" and cast("Sequence[bool]", args[-1])[2]:
            with self:
                return bias_apart(func, args)
        terms = TERMS.get(name)
        if terms is None:
            return self._made(func, func(*args, **kwargs), LIBRARY if _from_library(func, name) else 0.0)
        place, count = terms(args, kwargs)
        x = args[0]
        if name in ("sum", "mean") and x.dtype == WIDE and torch.rand((), generator=self.lot) < 0.5:
            dims = args[1] if len(args) > 1 else kwargs.get("dim")
            made, error = func(*args, **kwargs), error_in_order(x, dims, self.lot)
            share = self.half / count if name == "mean" and count else self.half
            return self._made(func, made + share * error.reshape(made.shape), 0.0)
        off = math.sqrt(max(count - 1, 0))
        if off:
            args = (*args[:place], self.off(args[place], off / math.sqrt(6)), *args[place + 1 :])
        library = LIBRARY if name in NORMS and is_rooted(args) else 0.0
        return self._made(func, func(*args, **kwargs), max(off / math.sqrt(3), library))

    def _chain(self, func: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Computes a product of many factors in a random order: the product of some factors may be too small or too
        large for the type."""
        made = func(*args, **kwargs)
        if not (made.is_floating_point() or made.is_complex()) or not made.numel():
            return self._made(func, made, 0.0)
        whole = not args[0].dim() or func is aten.prod.default
        factors = (args[0].reshape(-1) if whole else args[0].movedim(args[1], -1)).to(made.dtype)
        count = factors.shape[-1]
        with self:
            if name == "prod":
                found = products(factors[..., torch.randperm(count, generator=self.lot)])
            else:
                found = running_products(factors, int(torch.randint(count, (), generator=self.lot)))
                found = found if whole else found.movedim(-1, args[1])
        return self._made(func, found.reshape(made.shape), math.sqrt(max(count - 1, 0) / 3))

    def _stored_sum(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], source: int) -> Any:
        """Computes a sum by index, in which each partial sum is rounded to the type of the result."""
        counts = tuple(
            torch.ones_like(each) if place == source else torch.zeros_like(each) if place == 0 else each
            for place, each in enumerate(args)
        )
        most = float(func(*counts, **kwargs).max()) if args[0].numel() else 0.0
        ratio = torch.finfo(self.stored or self.kind).eps / torch.finfo(self.kind).eps
        off = math.sqrt(max(most, 0.0)) * ratio
        args = (*args[:source], self.off(args[source], off / math.sqrt(6)), *args[source + 1 :])
        args = (self.off(args[0], off / math.sqrt(6)), *args[1:]) if not schema_of_op(func).is_mutable else args
        return self._made(func, func(*args, **kwargs), off / math.sqrt(3))

    def _made(self, func: Any, made: Any, halves: float) -> Any:
        """Returns the results, moved by up to so many half units, and rounded by lot."""
        if schema_of_op(func).is_mutable or any(each.alias_info is not None for each in schema_of_op(func).returns):
            return made
        rounds = bool(halves) or (torch.Tag.pointwise in func.tags and _name(func) not in _EXACT)
        leaves, tree = tree_flatten(made)
        return tree.unflatten(self._rounded(self.off(each, halves), rounds) for each in leaves)

    def _rounded(self, value: Any, rounds: bool) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype not in (WIDE, torch.complex128):
            return value
        if self.kind == WIDE:
            return drawn(value, value.dtype, self.lot) if rounds and not value.is_complex() else value
        narrow = torch.complex64 if value.is_complex() else self.kind
        return drawn(value, narrow, self.lot).to(value.dtype)

    def off(self, value: Any, halves: float) -> Any:
        """Moves each number by lot, by up to so many half units of itself."""
        if not halves or not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            return value
        units = 2 * torch.rand(value.shape, generator=self.lot, dtype=WIDE) - 1
        return torch.where(value.isfinite(), value * (1 + halves * self.half * units), value)


_EXACT: Final = frozenset(
    """
    abs ceil clamp clamp_max clamp_min clone copy copysign fill floor fmax fmin hardtanh heaviside
    masked_fill maximum minimum neg positive relu round sgn sign trunc where _to_copy threshold nan_to_num
    hardshrink
    """.split()  # noqa: SIM905
)
"""Pointwise ops whose result is always a number of the type: in a type of 64 bits this cannot be seen from the
result."""


def _name(func: Any) -> str:
    return schema_of_op(func).name.split("::")[1]


def _from_library(func: Any, name: str) -> bool:
    if func.namespace not in PYTORCHS:
        return True
    return torch.Tag.pointwise in func.tags and name not in CORRECTLY_ROUNDED


def _not_in_place(func: Any) -> Any:
    """The pointwise op that computes what an op in place writes over its first operand; None if there is none."""
    name = _name(func)
    if func.namespace != "aten" or not schema_of_op(func).is_mutable or name.startswith("_") or not name.endswith("_"):
        return None
    found = getattr(getattr(aten, name[:-1], None), overload_name(func), None)
    return found if found in SIMPLER or (found is not None and torch.Tag.pointwise in found.tags) else None
