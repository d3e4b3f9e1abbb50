"""Preload module of the fork server of triage: it loads and compiles once what every bundle needs.

A fork server does not know the options of a run. With additional rules each worker preloads them itself.
"""

from __future__ import annotations

from thpdiag.fleet.work import preload

preload((), ())
