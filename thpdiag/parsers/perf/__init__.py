"""perf: recordings, the text of perf script, report, top and stat, and folded stacks."""
