"""atop: raw logs, parseable lines, JSON, screens."""
