"""Days of vmstat, read as bytes with numpy: the same values as the reader of lines gives."""
