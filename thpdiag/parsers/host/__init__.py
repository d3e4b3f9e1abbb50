"""What the host is and how it is set: CPUs, names, zone, releases, settings of the kernel, tuned."""
