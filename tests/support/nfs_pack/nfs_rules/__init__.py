"""Never run: a pack is data."""

raise RuntimeError("a pack is data and is not run")
