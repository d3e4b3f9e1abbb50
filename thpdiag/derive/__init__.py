"""Facts from facts: pure functions, one subject per file."""
