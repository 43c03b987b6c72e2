"""Extracts the tile program from the scheduled form: the instructions of each iteration."""
