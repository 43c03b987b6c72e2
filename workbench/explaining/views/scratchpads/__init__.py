"""The scratchpad and the tiles, over time and cycle by cycle."""
