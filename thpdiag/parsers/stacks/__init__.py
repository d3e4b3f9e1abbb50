"""Call stacks as tools other than perf write them: pictures, tables of counts, files of viewers, dumps of threads.

Each becomes a `Profile` (thpdiag.model.profile). What its weight is stands in `Profile.measures`: samples of CPU time,
time off the CPU, calls of a function or threads at one moment are never added up or compared.
"""
