"""Runs the user's function in wider floats: gives its tensors wide numbers, and makes its ops stay wide.

Functions of PyTorch compare the types of their operands before any of their ops can be seen, so the function's
arguments and its own tensors are themselves wide while it runs. Ops that ask for a narrow type (a cast, `zeros`) get
the wide one; ops without a kernel for the wide type run in 32 bits.

A function may look at the type of a tensor, for example for the type's largest number. The function sees the type in
which it is written, so that it computes the same in wide numbers. If its tensors have several narrow types, each
tensor's own type follows from the operands of its op; if it does not, the function is not widened.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, cast

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from workbench.checking.opened_ops import PYTORCHS, call_inside, is_composite, is_own
from workbench.ground.torch_inside.dispatch_modes import TorchDispatchMode, function_modes, functions_unseen
from workbench.ground.torch_inside.operator_objects import by_name, schema_of_op
from workbench.ground.torch_inside.pytrees import tensors_in, tree_leaves, tree_map

_Types: TypeAlias = "MutableMapping[torch.Tensor, torch.dtype]"
"""For each wide tensor the type that it has in the function as written."""
_HALF: Final = (torch.float16, torch.bfloat16)
_COMPLEX: Final = (torch.complex32, torch.complex64)
_DEFAULT: Final = (torch.float32, torch.complex64)
_BITS: Final = frozenset({torch.ops.aten.view.dtype})
_COMPARED: Final = frozenset(getattr(torch.ops.aten, name).Scalar for name in ("eq", "ne", "lt", "le", "gt", "ge"))
NO_KERNEL: Final = (NotImplementedError, RuntimeError)
"""PyTorch's errors for a type for which an op has no kernel."""


class CannotWiden(Exception):
    """The function depends on one type: it reads the bits of a float, or packs eight-bit floats."""


def wider(dtype: torch.dtype, wide: torch.dtype) -> torch.dtype:
    """The type that stands for `dtype` where floats are `wide`."""
    if dtype in _HALF or (dtype == torch.float32 and wide == torch.float64):
        return wide
    if dtype in _COMPLEX:
        return wide.to_complex()
    if dtype.is_floating_point and dtype not in (*_HALF, torch.float32, torch.float64):
        raise CannotWiden(str(dtype))
    return dtype


def all_wide(values: Any, wide: torch.dtype) -> Any:
    """Returns the arguments of an op with every float, and every requested type, wide."""

    def one(value: object) -> object:
        if isinstance(value, torch.Tensor):
            if value.is_quantized:
                raise CannotWiden(str(value.dtype))
            kind = wider(value.dtype, wide)
            return value.to(kind) if kind != value.dtype else value
        return wider(value, wide) if isinstance(value, torch.dtype) else value

    return tree_map(one, values)


@contextmanager
def widened(
    tensors: Sequence[torch.Tensor], wide: torch.dtype, narrow: dict[str, None] | None = None
) -> Generator[None]:
    """Gives the tensors wide numbers within the block, computes every op wide, and puts the old numbers back
    afterwards.

    The tensors must be this thread's own: another thread would read wide numbers meanwhile. The names of ops that had
    to be computed in 32 bits are added to `narrow`.
    """
    kept = [(tensor, tensor.data) for tensor in {id(each): each for each in tensors}.values()]
    try:
        for (tensor, _), numbers in zip(kept, _copies([data for _, data in kept], wide), strict=True):
            if numbers is not None:
                tensor.data = numbers
        own = {numbers.dtype for _, numbers in kept if numbers.is_floating_point() or numbers.is_complex()}
        types: _Types = WeakTensorKeyDictionary({each: old.dtype for each, old in kept})
        with torch.no_grad(), _Told(wide, own, types), Wide(wide, own, types, {} if narrow is None else narrow):
            yield
    finally:
        for tensor, numbers in kept:
            if tensor.dtype != numbers.dtype:
                tensor.data = numbers


def _copies(tensors: Sequence[torch.Tensor], wide: torch.dtype) -> list[torch.Tensor | None]:
    """Wide copies of the narrow tensors, None for others; copies of tensors that share memory share memory, too."""
    whole: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    made: list[torch.Tensor | None] = []
    for tensor in tensors:
        kind = wider(tensor.dtype, wide)
        if kind == tensor.dtype or tensor.layout is not torch.strided:
            made.append(None)
            continue
        storage = tensor.untyped_storage()
        key = storage.data_ptr(), tensor.dtype
        if key not in whole:
            count = storage.nbytes() // tensor.element_size()
            flat = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,))
            whole[key] = flat.to(kind)
        made.append(whole[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()))
    return made


class _Told(TorchFunctionMode):
    """Makes wide tensors report the type and element size that they have in the function as it is written."""

    def __init__(self, wide: torch.dtype, own: Collection[torch.dtype], types: _Types) -> None:
        super().__init__()
        self.wide, self.own, self.types = wide, own, types

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.dtype):
            return self._type_of(made, args[0] if func == _TYPE else None)
        if func in _SIZES and isinstance(args[0], torch.Tensor):
            return made // args[0].dtype.itemsize * self._type_of(args[0].dtype, args[0]).itemsize
        return made

    def _type_of(self, dtype: torch.dtype, tensor: torch.Tensor | None) -> torch.dtype:
        known = self.types.get(tensor) if tensor is not None else None
        if known is not None and wider(known, self.wide) == dtype:
            return known
        stood_for = [kind for kind in self.own if wider(kind, self.wide) == dtype]
        if len(stood_for) > 1:
            raise CannotWiden("which of " + " and ".join(map(str, stood_for)))
        return stood_for[0] if stood_for else dtype


_TENSOR: Final = cast("Any", torch.Tensor)
_TYPE: Final = _TENSOR.dtype.__get__
_SIZES: Final = (_TENSOR.element_size, _TENSOR.itemsize.__get__, _TENSOR.nbytes.__get__)
"""Attributes and methods of a tensor that return the bytes of an element, or of all elements."""


class Wide(TorchDispatchMode):
    """Computes every op on wide floats, except ops that write into a narrow tensor."""

    def __init__(self, wide: torch.dtype, own: Collection[torch.dtype], types: _Types, narrow: dict[str, None]) -> None:
        """`own` are the types of the function's arguments and held tensors, as it is written; `types` has the type of
        each tensor there, as far as known, and `narrow` the names of the ops computed in 32 bits."""
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.wide, self.own, self.types, self.narrow, self.around = wide, own, types, narrow, function_modes()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with functions_unseen():  # here a wide tensor's type is the wide one
            return self._computed(func, (tuple(args), dict(kwargs or {})))

    def _computed(self, func: Any, given: tuple[tuple[object, ...], dict[str, object]]) -> object:
        if func in _BITS or func.namespace == "quantized":
            raise CannotWiden(str(func))
        if is_composite(func) or is_own(func):
            return self._opened(func, *given)
        if schema_of_op(func).is_mutable:
            return func(*given[0], **given[1])
        if _draws_lots(func, *given):  # as many random numbers as in the given types, and the same ones
            return all_wide(func(*self._narrow(given[0]), **self._narrow(given[1])), self.wide)
        if func in _COMPARED:
            given = tuple(self._as_compared(each) for each in given[0]), given[1]
        wide: tuple[tuple[Any, ...], dict[str, Any]] = all_wide(given, self.wide)
        try:
            made = func(*wide[0], **wide[1])
        except NO_KERNEL:
            made = func(*_single(wide[0]), **_single(wide[1]))
            self.narrow[str(func)] = None
        if any(each.dtype in _DEFAULT for each in tensors_in(made)):
            made = self._from_whole_numbers(func, *wide, made)
        made = all_wide(made, self.wide)
        if (kind := self._type_as_written(func, given)) is not None:
            self.types.update(dict.fromkeys(tensors_in(made), kind))
        return made

    def _type_as_written(self, func: Any, given: object) -> torch.dtype | None:
        """The type that floats of a result have in the function as written; None if the type is not known."""
        if asked := [each for each in tree_leaves(given) if isinstance(each, torch.dtype)]:
            return asked[0]
        floats = [each for each in tensors_in(given) if each.is_floating_point()]
        kinds = {self.types.get(each) for each in [each for each in floats if each.dim()] or floats}
        if None in kinds or (len(kinds) > 1 and torch.Tag.pointwise not in func.tags):
            return None
        return functools.reduce(torch.promote_types, cast("set[torch.dtype]", kinds)) if kinds else None

    def _opened(self, func: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Computes an op that is made of other ops, each of them wide."""
        try:
            return all_wide(call_inside(func, self, self.around, args, kwargs), self.wide)
        except NO_KERNEL:
            if schema_of_op(func).is_mutable or func.namespace in PYTORCHS or self.wide != torch.float64:
                raise
        made = func(*_single(args), **_single(kwargs))
        self.narrow[str(func)] = None
        return all_wide(made, self.wide)

    def _as_compared(self, value: object) -> object:
        """Rounds a number to the one type in which the function is written, before the number is compared with tensors
        of that type."""
        kind = next(iter(self.own)) if len(self.own) == 1 else torch.float64
        return torch.tensor(value, dtype=kind).item() if isinstance(value, float) and not kind.is_complex else value

    def _narrow(self, given: Any) -> Any:
        """The arguments of an op that draws numbers, wide tensors in the type in which the function is written."""
        kind = next(iter(self.own)) if len(self.own) == 1 else None

        def one(value: object) -> object:
            stands_for = isinstance(value, torch.Tensor) and kind is not None and value.dtype == wider(kind, self.wide)
            return value.to(kind) if stands_for else value  # type: ignore[union-attr]

        return tree_map(one, given)

    def _from_whole_numbers(
        self, func: Any, args: Sequence[object], kwargs: Mapping[str, object], made: object
    ) -> object:
        """Computes the results of ops on whole numbers, or without operands, wide from the start, and not rounded to
        the default type."""
        if self.wide != torch.float64 or any(
            each.is_floating_point() or each.is_complex() for each in tensors_in((args, kwargs))
        ):
            return made
        try:
            if any(argument.name == "dtype" for argument in schema_of_op(func).arguments):
                return func(*args, **{**kwargs, "dtype": torch.float64})
            return func(*tree_map(_floats, args), **tree_map(_floats, kwargs))
        except NO_KERNEL:
            return made


def _draws_lots(func: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """True if a call of an op draws random numbers; attention without dropout draws none."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    names = [argument.name for argument in schema_of_op(func).arguments]
    return "dropout_p" not in names or bool(by_name(func, args, kwargs).get("dropout_p", 0.0))


def _floats(value: object) -> object:
    return value.to(torch.float64) if isinstance(value, torch.Tensor) and value.dtype != torch.bool else value


def _single(values: Any) -> Any:
    """The arguments, with 64-bit floats as 32-bit floats."""

    def one(value: object) -> object:
        if isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128):
            return value.to(torch.float32 if value.dtype == torch.float64 else torch.complex64)
        return torch.float32 if value == torch.float64 else value

    return tree_map(one, values)
