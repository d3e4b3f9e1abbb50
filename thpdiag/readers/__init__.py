"""All readers: every module of this folder that has a `READER` (lines) or a `BULK` (bytes), found, not registered."""

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
    return (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
