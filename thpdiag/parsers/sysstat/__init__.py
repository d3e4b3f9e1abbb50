"""sysstat: sar, its archives and exports, mpstat, iostat, pidstat."""
