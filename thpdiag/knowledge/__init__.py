"""What we know about kernels, platforms and names, as YAML with a source per line, and the code that loads it."""
