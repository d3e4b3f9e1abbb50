"""All readers: every module that has a `READER` (lines) or a `BULK` (bytes), found, not registered.

Formats of one tool or of one place share a room (`collectl/`, `procfs/`); one that stands alone is a file of this
folder. The rooms inside such a room (`collectl/bulk/`) hold parts of its readers and are not searched.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from thpdiag.reader import BulkReader, Reader


@cache
def all_readers() -> tuple[Reader, ...]:
    """The readers shipped with thpdiag, by name."""
    found = [module.READER for module in _modules() if hasattr(module, "READER")]
    return tuple(sorted(found, key=lambda reader: reader.name))


@cache
def bulk_readers() -> tuple[BulkReader, ...]:
    """The readers of whole members as bytes, by name."""
    found = [module.BULK for module in _modules() if hasattr(module, "BULK")]
    return tuple(sorted(found, key=lambda reader: reader.name))


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        yield module
        if found.ispkg:
            inner = pkgutil.iter_modules(module.__path__)
            yield from (importlib.import_module(f"{module.__name__}.{m.name}") for m in inner if not m.ispkg)
