"""Stage 2, lower: from the graph to kernels, by routes, formulas and fusion."""
