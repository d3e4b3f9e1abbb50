"""Call stacks of tools other than perf: images, tables of counts, files of viewers, dumps of threads.

Each becomes a `Profile` (thpdiag.model.profile). `Profile.measures` is what its weight counts: samples of CPU time,
time off the CPU, calls of a function or threads at one moment are never added up or compared.
"""
