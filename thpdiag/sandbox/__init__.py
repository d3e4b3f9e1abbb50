"""One disposable child process per bundle, so that a hostile or unlucky one costs itself only.

`supervise.run_in_child` forks, confines the child, watches it and names how it ended; the child is given what it may
read, and hands back bytes of known length. `preload` has processes that do the same for parents with threads, in a pool
whose dead are replaced (`WorkerPool`). `programs` runs sadf and pmrep. Nothing here knows what a bundle is.
"""
