"""perf script as bytes: millions of samples without a Python statement for each; its modules import numpy."""
