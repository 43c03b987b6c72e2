"""`j.check()`: comparing tensors, the reference in 64 bits, the errors that rounding explains."""
