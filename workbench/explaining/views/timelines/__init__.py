"""The run over time: lanes, gaps, roofs, arrays, pipelines."""
