"""The common memory, which all cores share beside DRAM, and its residents."""
