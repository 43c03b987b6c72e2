"""The memories behind the units: DRAM with one bus or banked, the interconnect, a second memory."""
