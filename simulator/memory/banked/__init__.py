"""One channel of banked DRAM: its banks, its queues, its controller, and how it spends its time."""
