"""Places of tensors: in DRAM, in the common memory, on chiplets."""
