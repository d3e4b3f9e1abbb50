"""nmon: its recordings."""
