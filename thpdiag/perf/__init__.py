"""Reads perf.data without perf. Two parts that know nothing of each other meet in `records`.

`container` gives the records of a file or pipe as columns; `profile` joins those with `machine` (tasks, maps) and
`chains` (what a sample's stack is). `kallsyms` and `elf` hold the names of kernel functions.
"""
