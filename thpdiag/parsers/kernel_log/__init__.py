"""What the kernel says: its log, SysRq output, call traces, by dmesg, syslog, the journal or crash."""
