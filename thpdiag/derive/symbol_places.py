"""In which function of a table an address lies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import SymbolTable

Addresses = NDArray[np.uint64]
Ints = NDArray[np.int64]

PAGE = 4096
NOWHERE = -1


def places(table: SymbolTable, addresses: Addresses) -> Ints:
    """The functions in which addresses lie, `NOWHERE` outside of all.

    A function goes on to the next one. The last one of the kernel or of a module goes on to the end of the page behind
    it, as perf has it (tools/perf/util/symbol.c, symbols__fixup_end).
    """
    if not len(table.addresses):
        return np.full(len(addresses), NOWHERE, np.int64)
    place = np.searchsorted(table.addresses, addresses, "right") - 1
    found = np.maximum(place, 0)
    following = np.minimum(found + 1, len(table.addresses) - 1)
    last = (following == found) | (table.module[following] != table.module[found])
    start = table.addresses[found]
    beyond = last & (addresses - start >= _to_page_end(start))
    nameless = table.ends[found] <= table.starts[found]
    return np.where((place < 0) | beyond | nameless, NOWHERE, place)


def _to_page_end(start: Addresses) -> Addresses:
    page = np.uint64(PAGE)
    return page + (page - start % page) % page
