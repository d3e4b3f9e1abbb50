"""From the bytes of perf.data (a file or a pipe, packed or not, of either byte order) to windows of columns."""
