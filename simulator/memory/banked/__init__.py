"""One channel of banked DRAM: its banks, its queues, its controller, and what it does with its time."""
