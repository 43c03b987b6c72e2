"""Stage 2, lower: makes kernels from the graph, by routes, formulas and fusion."""
