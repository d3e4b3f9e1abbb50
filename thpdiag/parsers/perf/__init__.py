"""perf: its recordings, what script, report and top print of them, and folded stacks."""
