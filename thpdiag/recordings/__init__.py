"""Long recordings as columns. It stands on numpy, so it is imported only where such a recording is read."""
