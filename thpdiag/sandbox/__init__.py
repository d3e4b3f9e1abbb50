"""The sandbox: one disposable child process per bundle, so that a hostile bundle can harm only its own analysis.

`supervise.run_in_child` forks a child, confines and watches it, and returns how it ended with the bytes of its answer.
`preload.WorkerPool` does the same for parents with threads, and replaces workers that die. `programs` runs sadf and
pmrep. Nothing here depends on the format of bundles.
"""
