"""Profiles of a recording: windows of columns joined with tasks, maps and call chains."""
