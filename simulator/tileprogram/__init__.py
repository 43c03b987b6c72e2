"""The tile program: its instructions, boxes and slots, their dependences, and the verifier."""
