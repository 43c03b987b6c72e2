"""Invariants of every trace, and programs that are broken on purpose."""
