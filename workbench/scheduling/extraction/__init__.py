"""From the scheduled form to the tile program: reading off the instructions of each iteration."""
