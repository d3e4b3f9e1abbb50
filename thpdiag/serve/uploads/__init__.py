"""Uploads of bundles: a PUT or a form (`whole.py`), and resumable uploads (`tus.py`)."""
