"""Native kernels: the numbers of rendered and scheduled modules, in every layout and element type, without leaks."""
