"""Compiles kernels to native code, and runs a graph with them."""
