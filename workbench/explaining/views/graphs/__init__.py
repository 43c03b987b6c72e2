"""The captured and the lowered graph."""
