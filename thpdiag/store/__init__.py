"""The results of a batch, in the output folder: append-only, whole after any crash, read while it is written."""
