"""The store of triage results in the output folder: append-only, crash-safe, readable while a run writes to it."""
