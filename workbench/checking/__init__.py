"""`j.check()`: compares tensors with a reference in 64 bits, and allows the errors that rounding explains."""
