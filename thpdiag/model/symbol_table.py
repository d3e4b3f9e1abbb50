"""The names of a kernel's functions by address: kallsyms, System.map, the symbol table of a vmlinux or module."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from thpdiag.model.citation import Citation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TableKind(StrEnum):
    """What the addresses of a table are."""

    KALLSYMS = "kallsyms"  # of the running kernel, modules included
    SYSTEM_MAP = "System.map"  # as linked: the running kernel lies a slide further
    VMLINUX = "vmlinux"  # as linked
    MODULE = "module"  # offsets in the module's sections


@dataclass(frozen=True, slots=True, eq=False)
class SymbolList:
    """A list as it was read, of which a table is made where a recording needs one.

    `chunks` are its bytes, of which the first `above` are no part of it; only the first of them if it is not `whole`,
    and the rest is still where it came from. `release` and `build_id` are as of a table.
    """

    cite: Citation
    kind: TableKind
    chunks: tuple[bytes, ...]
    above: int = 0
    release: str = ""
    build_id: str = ""
    whole: bool = True

    @property
    def text(self) -> bytes:
        """All of it, in one piece."""
        whole = b"".join(self.chunks)
        return whole[self.above :] if self.above else whole


@dataclass(frozen=True, slots=True, eq=False)
class SymbolTable:
    """Functions sorted by address; of several at one address the last of the file stands last (perf takes that one).

    The name of function `i` is `text[starts[i]:ends[i]]`; its module `modules[module[i]]`, where the first is `""`, the
    kernel itself. `anchors` are the addresses of `_text` and `_stext` as far as listed. `release` and `build_id` (hex)
    are empty where nothing tells them. `zeroed`: the addresses were hidden from whoever read the table (kptr_restrict).
    """

    cite: Citation
    kind: TableKind
    addresses: NDArray[np.uint64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    text: bytes
    module: NDArray[np.int32]
    modules: tuple[str, ...] = ("",)
    anchors: tuple[tuple[str, int], ...] = ()
    release: str = ""
    build_id: str = ""
    zeroed: bool = False

    def name(self, number: int) -> str:
        return self.text[self.starts[number] : self.ends[number]].decode("utf-8", "replace")
