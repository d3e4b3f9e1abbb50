"""Reads perf.data without perf: the file's container, its records as columns of numbers, and profiles made of them."""
