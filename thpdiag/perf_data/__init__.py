"""Reads perf.data without perf. Two rooms that know nothing of each other meet in `columns`.

`container` gives the records of a file or pipe as columns; `profile` joins those with tasks, maps and call chains.
"""
