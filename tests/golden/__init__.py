"""Exact cycles, and how well kernels are tiled: what today's compiler and simulator make of programs everybody knows.

Each program has a file in `programs/`: for each machine its cycles, the bytes that it moves, and of each kernel tile,
order, slots, cores and cycles. A change of the heuristic or of a unit's costs fails here by the program's name, and
says what became of it. Where the change is meant, `pytest tests/golden --rewrite-golden` writes the files anew; their
difference is then read before it is committed.
"""
