"""Kernels as native code, and a graph run with it."""
