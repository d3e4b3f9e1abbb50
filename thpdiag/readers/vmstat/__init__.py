"""vmstat: its table at intervals, and the counters of vmstat -s."""
