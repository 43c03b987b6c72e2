"""Where tensors lie: in DRAM, in the common memory, on chiplets."""
