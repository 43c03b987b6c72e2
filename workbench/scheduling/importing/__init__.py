"""From a kernel of the record to MLIR, through fx and torch-mlir."""
