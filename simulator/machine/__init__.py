"""Machines: figures, cores, links, memory, and the files of all these."""
