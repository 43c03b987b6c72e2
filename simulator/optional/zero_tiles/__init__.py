"""Zero tiles, which a machine with `skips_zero_tiles` neither moves nor multiplies."""
