"""Kernel messages: the log, SysRq output and call traces, as printed by dmesg, syslog, the journal or crash."""
