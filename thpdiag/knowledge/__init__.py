"""Knowledge about kernels, platforms and names, as YAML with a source per entry, and the code that loads it."""
