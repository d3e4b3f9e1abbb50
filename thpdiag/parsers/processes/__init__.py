"""Lists of processes: ps, top, and OSWatcher, which records both."""
