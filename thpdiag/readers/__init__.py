"""All readers: every module of this folder that has a `READER`, found, not registered."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from thpdiag.reader import Reader


@cache
def all_readers() -> tuple[Reader, ...]:
    """The readers shipped with thpdiag, by name."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    found = [module.READER for module in modules if hasattr(module, "READER")]
    return tuple(sorted(found, key=lambda reader: reader.name))
