"""The guard: one disposable child process per bundle, so that a hostile or unlucky one costs itself only.

`supervise.guarded` forks, confines the child, watches it and names how it ended; the child is given what it may read,
and hands back bytes of known length. `preloaded.Preloaded` does the same from a process of its own, for parents that
have threads. Nothing here knows what a bundle is.
"""
