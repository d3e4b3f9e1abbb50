"""Where in the nest of archives a stream of bytes is."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Place:
    """`path` is the file itself, `prefix` stands before the paths of what lies in it; `archives` and `codecs` count
    those around it.

    `given` says that the user named the file; `wanted` that somebody asked for it, by its own path or one of `aliases`.
    """

    path: str
    prefix: str = ""
    archives: int = 0
    codecs: int = 0
    chain: int = 0  # decompressors one directly in the other
    wanted: bool = True
    aliases: tuple[str, ...] = ()
    size: int | None = None
    given: bool = False

    def inside(self) -> Place:
        """This file as an archive that is being read."""
        return replace(self, archives=self.archives + 1, chain=0)

    def member(self, path: str, aliases: tuple[str, ...], size: int | None, *, wanted: bool) -> Place:
        """A member of this archive; `path` has the prefix already."""
        return Place(path, f"{path}/", self.archives, self.codecs, 0, wanted, aliases, size)

    def unpacked(self, *, wanted: bool) -> Place:
        """What comes out when this file is decompressed."""
        return replace(self, codecs=self.codecs + 1, chain=self.chain + 1, size=None, wanted=wanted)
