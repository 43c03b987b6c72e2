"""One channel of banked DRAM: its banks, its queues, its controller, and its time by state."""
