"""The numbers that operators are tried on: corners, powers of two, places near poles and zeros, any pattern of bits."""

from __future__ import annotations

import math
from itertools import chain

import torch

WORDS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
COLUMNS = 257


def single(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Points of one dimension: all that a 16-bit type has, unless fewer are asked for; `count` at least of others."""
    random = torch.Generator().manual_seed(seed)
    if dtype.itemsize == 2:
        every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
        return every if count >= len(every) else every[torch.randperm(len(every), generator=random)[:count]]
    share = count // 8
    wide = [_uniform(share, bound, random) for bound in (1.0, 10.0, 120.0)]
    near_one = 1 + _uniform(share, 1.0, random) * 2.0 ** -(
        torch.rand(share, generator=random, dtype=torch.float64) * 60
    )
    parts = [*wide, near_one, -near_one]
    kept = torch.cat([part.to(dtype) for part in parts])
    return torch.cat(
        [corners(dtype), powers(dtype), kept, any_bits(dtype, 3 * share, random), denormals(dtype, share, random)]
    )


def several(dtype: torch.dtype, tensors: int, count: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Every corner with every corner, any bits with any bits, moderate numbers, and numbers close to each other."""
    random = torch.Generator().manual_seed(seed)
    few = corners(dtype, few=tensors > 2)
    crossed = torch.cartesian_prod(*[few] * tensors).unbind(1)
    share, parts = count // 4, list[tuple[torch.Tensor, ...]]()
    parts.append(tuple(any_bits(dtype, share, random) for _ in range(tensors)))
    for bound in (2.0, 30.0):
        parts.append(tuple(_uniform(share, bound, random).to(dtype) for _ in range(tensors)))
    base = any_bits(dtype, share, random).double()
    apart = 1 + _uniform(share, 1.0, random) * 2.0 ** -(torch.rand(share, generator=random, dtype=torch.float64) * 30)
    parts.append((base.to(dtype), *[(base * apart).to(dtype)] * (tensors - 1)))
    if count < 20_000:
        taken = torch.randperm(len(crossed[0]), generator=random)[:count]
        crossed = tuple(each[taken] for each in crossed)
    return tuple(torch.cat(list(each)) for each in zip(crossed, *parts, strict=True))


def corners(dtype: torch.dtype, *, few: bool = False) -> torch.Tensor:
    """Poles, zeros and borders of functions, and the numbers on both sides of each."""
    limits = torch.finfo(dtype)
    ends = [0.0, -0.0, math.inf, -math.inf, math.nan, limits.max, limits.tiny, limits.smallest_normal * limits.eps]
    plain = [0.5, 1.0, 2.0, 3.0, limits.eps, 7.5, 1e-3, 1e4]
    borders = [*range(4, 12), 19.0, 20.0, 25.0, math.log(limits.max), math.log2(limits.max), math.sqrt(limits.max)]
    borders += [-math.log(limits.tiny), math.sqrt(limits.tiny), limits.max / 2, 1 / 3, 6.0, 26.0, 27.0, 106.0, 149.0]
    turns = [turn * math.pi / 4 for turn in range(1, 24)]
    halves = [turn + 0.5 for turn in range(12)]
    values = ends + plain if few else [*ends, *plain, *borders, *turns, *halves]
    made = torch.tensor(values, dtype=torch.float64).to(dtype)
    made = torch.cat([made, -made])
    return made if few else torch.cat([made, *_beside(made)])


def powers(dtype: torch.dtype) -> torch.Tensor:
    """Every power of two, and the numbers beside it."""
    limits = torch.finfo(dtype)
    low, high = math.frexp(limits.smallest_normal * limits.eps)[1] - 1, math.frexp(limits.max)[1]
    made = torch.tensor([math.ldexp(1.0, power) for power in range(low, high)], dtype=torch.float64).to(dtype)
    made = torch.cat([made, -made])
    return torch.cat([made, *_beside(made)])


def any_bits(dtype: torch.dtype, count: int, random: torch.Generator) -> torch.Tensor:
    """Any pattern of bits: numbers of every size, NaNs among them."""
    half = 2 ** (dtype.itemsize * 8 - 1)
    return torch.randint(-half, half - 1, (count,), generator=random).to(WORDS[dtype]).view(dtype)


def denormals(dtype: torch.dtype, count: int, random: torch.Generator) -> torch.Tensor:
    smallest = torch.finfo(dtype).smallest_normal
    return (_uniform(count, 1.0, random) * smallest).to(dtype)


def _uniform(count: int, bound: float, random: torch.Generator) -> torch.Tensor:
    return (torch.rand(count, generator=random, dtype=torch.float64) * 2 - 1) * bound


def _beside(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The next number towards each end."""
    up, down = (torch.full_like(values, end) for end in (math.inf, -math.inf))
    return torch.nextafter(values, up), torch.nextafter(values, down)


def rows(dtype: torch.dtype, seed: int, columns: int = COLUMNS) -> torch.Tensor:
    """Rows of data of different kinds, for reductions along them."""
    random = torch.Generator().manual_seed(seed)
    normal = [torch.randn(columns, generator=random, dtype=torch.float64) for _ in range(12)]
    limits = torch.finfo(dtype)
    large = 1e6 if dtype.itemsize > 2 else 1e3
    sign = torch.tensor([1.0, -1.0]).repeat(columns)[:columns]
    kinds = [
        normal[0],
        torch.rand(columns, generator=random, dtype=torch.float64),
        normal[1] + large,
        normal[2] * large / 100 + large,
        sign * large + normal[3],
        normal[4] * limits.smallest_normal,
        normal[5].abs() * math.sqrt(limits.smallest_normal) / 8,
        normal[6] * math.sqrt(limits.max),
        normal[7] * limits.max / 4,
        torch.full((columns,), 0.1, dtype=torch.float64),
        torch.zeros(columns, dtype=torch.float64),
        1 + normal[8] * 2.0**-9,
        normal[9] * 100,
    ]
    special = [
        (math.inf,),
        (-math.inf,),
        (math.inf, -math.inf),
        (math.nan,),
        (math.nan, math.inf),
        (-math.inf,) * columns,
    ]
    for numbers in special:
        row = normal[10].clone()
        row[: len(numbers)] = torch.tensor(numbers, dtype=torch.float64)
        kinds.append(row)
    return torch.stack(kinds).to(dtype)


def names_of(values: torch.Tensor) -> str:
    """The numbers as a page shows them."""
    return ", ".join(f"{value:.6g}" for value in chain(values.double().tolist()))
