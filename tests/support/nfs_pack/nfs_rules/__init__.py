raise RuntimeError("a pack is data and is not run")
