"""Machines: figures, cores, chiplets and links, memory, and the files of all these."""
