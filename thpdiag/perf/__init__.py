"""Reads perf.data without perf. `records` is the interface between reading a file and interpreting it.

`container` yields the records of a file or pipe as columns; `profile` joins them with `machine` (tasks, maps) and
`chains` (call stacks). `kallsyms` and `elf` provide the names of kernel functions.
"""
