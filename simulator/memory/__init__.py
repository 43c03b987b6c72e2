"""The memories behind the units: DRAM with one bus or banked, the interconnect, the memories of chiplets."""
