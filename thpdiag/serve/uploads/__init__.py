"""Three ways in which a bundle comes in: a PUT (`whole.py`), a form (`form.py`), resumable parts (`tus.py`)."""
