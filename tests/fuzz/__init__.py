"""Differential fuzzing: random small programs, compiled and run, against PyTorch itself.

`make fuzz N=2000` runs seeds 0 to 1999 in workers of their own; the first fifty are part of the tests. A failure is
shrunk and printed as a program that can be run by itself.
"""
