"""From the scheduled form to the tile program: reading off what each iteration does."""
