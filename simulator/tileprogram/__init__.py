"""What a machine is asked to do: the program, its boxes and slots, what must keep order, and the verifier."""
