"""Many bundles at once: what was found in each of them is kept, and nothing that was kept is lost."""

preloaded_modules: tuple[str, ...] = ("thpdiag.fleet.preloaded",)  # what the fork server imports
