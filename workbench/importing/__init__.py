"""From a kernel of the record to MLIR, by way of fx and torch-mlir."""
