"""Results made wrong on purpose: each must fail the check. `make wrong-results` tries all, the tests a sample.

Every operator of the table (`tests.operators`), in every type that PyTorch takes it in, for every case: each result is
zeroed, made five percent larger, has two rows swapped, and is rounded to the next smaller type. A wrong result counts
when some element of it differs from the right one by more than four times PyTorch's own largest error against 64 bits,
and by more than one unit of the type there; others cannot be told from rounding, and are listed by why.
"""
