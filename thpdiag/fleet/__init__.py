"""Triage: analyse many bundles in one run, store each result durably, and report on the fleet."""

preloaded_modules: tuple[str, ...] = ("thpdiag.fleet.preloaded",)  # modules that the fork server imports
