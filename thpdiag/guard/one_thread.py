"""Imported before numpy: its library of linear algebra starts no threads, so that the process may fork.

A thread per core would also take address space, which is limited, for work that nothing here does.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
