"""Files for tests of the work list, and its accepted and refused items."""

from __future__ import annotations

from pathlib import Path

from thpdiag.fleet.sources.items import find_items


def make(*paths: str) -> None:
    """Create files whose size is the length of their path; a path with a trailing slash is a folder."""
    for path in paths:
        place = Path(path)
        if path.endswith("/"):
            place.mkdir(parents=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("x" * len(path))


def told(*names: str, besides: tuple[Path, ...] = ()) -> list[str]:
    """Return the accepted items."""
    return [item.label for item in find_items(names, besides) if not item.refused]


def refused(*names: str) -> dict[str, str]:
    """Return the refused items with reasons."""
    return {item.label: item.refused for item in find_items(names) if item.refused}
