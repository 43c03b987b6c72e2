"""`workbench new-op`: the files of a new operator."""
