"""Lists of processes, once and again and again: ps, top, and the recorders that keep their output."""
