"""Files that tests of the work list make, and what it then tells and refuses."""

from __future__ import annotations

from pathlib import Path

from thpdiag.fleet.sources.items import find_items


def make(*paths: str) -> None:
    """Files of as many bytes as their path has characters; a path that ends in a slash is a folder."""
    for path in paths:
        place = Path(path)
        if path.endswith("/"):
            place.mkdir(parents=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("x" * len(path))


def told(*names: str, besides: tuple[Path, ...] = ()) -> list[str]:
    """What is read."""
    return [item.label for item in find_items(names, besides) if not item.refused]


def refused(*names: str) -> dict[str, str]:
    """What is not, and why."""
    return {item.label: item.refused for item in find_items(names) if item.refused}
