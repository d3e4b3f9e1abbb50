"""Files of /proc, and tools that print them."""
