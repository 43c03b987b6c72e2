"""Checks of the invariants of every trace."""
