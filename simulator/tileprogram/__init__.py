"""The tile program: its instructions, boxes and slots, the dependences between instructions, and the verifier."""
