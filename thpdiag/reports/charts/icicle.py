"""The tree of calls as an icicle: the root on top, each function below its caller, as wide as its share of the samples.

Frames stand in percent of the width and pixels of the height, each with its own tooltip (`<title>`); the script of the
page reads names, shares and places from there. Frames of one look and row are one group, so that a page of thousands
stays small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup, escape

from thpdiag.reports.charts.call_tree import DEEPEST, KERNEL, OTHER, ROOT, TASK, CallTree, Frame, call_tree
from thpdiag.reports.quantity import percent
from thpdiag.reports.visible import visible

ROW = 17  # pixels, with 1 between rows
_WIDTH = 960  # pixels of the page's column, for what text fits
_LETTER = 6.2  # pixels
_LEAST_LABEL = 34  # pixels
MARKED = "marked"
LOOKS = {  # class, fill, stroke, width of the stroke, what it is
    ROOT: ("fr", "#e5e8eb", "#ffffff", "0.6", ""),
    TASK: ("ft", "#c9d1d9", "#ffffff", "0.6", "task"),
    KERNEL: ("fk", "#bcd7f0", "#ffffff", "0.6", "kernel"),
    OTHER: ("fo", "#cfe6d0", "#ffffff", "0.6", "program"),
    MARKED: ("fm", "#f7b267", "#7a2e00", "1.5", "what the findings speak of (outlined)"),
}
ALL = 0.995  # of the samples: less is said to be a part


def icicle(profile: Mapping[str, Any], name: str, most: int) -> Markup:
    """The figure of a completed `profiles[]` entry; `name` is an id. Empty without samples."""
    tree = call_tree(profile, most)
    if not tree.frames:
        return Markup()
    listed = "" if tree.share >= ALL else f"{percent(tree.share)} of the samples that the source lists"
    root = f"the {listed}" if listed else "all that is not idle"
    frames = (replace(tree.frames[0], name=root), *tree.frames[1:])
    height = ROW * (1 + max(frame.depth for frame in frames))
    return Markup(
        '<figure class="icicle" tabindex="0" aria-labelledby="{name}" data-share="{share}">'
        '<figcaption><span id="{name}">Call graph</span>{part}: {keys}</figcaption>\n'
        '<svg width="100%" height="{height}" role="img" aria-labelledby="{name}" font-size="11">\n{frames}{labels}'
        '</svg>\n<p class="small">{said}</p></figure>\n'
    ).format(
        name=name, part=f" of the {listed}" if listed else "", share=f"{tree.share:.6g}", keys=_keys(frames),
        height=height, frames=_frames(frames), labels=_labels(frames), said=" ".join(_said(tree)),
    )  # fmt: skip


def _look(frame: Frame) -> str:
    return MARKED if frame.marked else frame.kind


def _named(frame: Frame) -> str:
    return frame.name if frame.name not in ("", "?") else "task not known" if frame.kind == TASK else "?"


def _frames(frames: Iterable[Frame]) -> Markup:
    """Groups by look, in them rows; what is marked is drawn last, so that its outline is whole."""
    found: dict[str, dict[int, list[str]]] = {look: {} for look in LOOKS}
    names: dict[str, str] = {}
    for frame in frames:
        named = _named(frame)
        if named not in names:
            names[named] = str(escape(visible(named)))
        found[_look(frame)].setdefault(frame.depth, []).append(
            f'<rect{_begin(frame)} width="{_part(frame.right - frame.left)}" height="16">'
            f"<title>{names[named]}: {_shares(frame)}</title></rect>"
        )
    return Markup("".join(_group(look, rows) for look, rows in found.items() if rows))


def _group(look: str, rows: Mapping[int, Sequence[str]]) -> str:
    style, fill, stroke, wide, _ = LOOKS[look]
    inner = "".join(f'<svg y="{ROW * depth}">{"".join(shapes)}</svg>\n' for depth, shapes in sorted(rows.items()))
    return f'<g class="f {style}" fill="{fill}" stroke="{stroke}" stroke-width="{wide}">{inner}</g>\n'


def _begin(frame: Frame) -> str:
    """The attribute x; nothing where it is 0, as for a quarter of all frames."""
    return f' x="{_part(frame.left)}"' if frame.left else ""


def _part(steps: int) -> str:
    """Steps as percent of the width, without needless digits."""
    return f"{steps / 100:g}%"


def _shares(frame: Frame) -> str:
    """The share, and how much of it is the function's own: what ran in none that it called."""
    told = percent(frame.share)
    own = percent(frame.own) if frame.own >= 5e-5 else ""
    return told if not own else f"{told}, all own" if own == told else f"{told}, own {own}"


def _labels(frames: Iterable[Frame]) -> Markup:
    """Names where they fit; a frame of its own cuts them off where the page is narrow."""
    shapes = []
    for frame in frames:
        pixels = (frame.right - frame.left) * _WIDTH / 10_000
        if pixels >= _LEAST_LABEL:
            text = _shortened(visible(_named(frame)), int((pixels - 6) / _LETTER))
            shapes.append(
                f'<svg{_begin(frame)} y="{ROW * frame.depth}" width="{_part(frame.right - frame.left)}">'
                f'<text x="3" y="12">{escape(text)}</text></svg>'
            )
    return Markup('<g class="labels" fill="#1b1f24" pointer-events="none">{}</g>').format(Markup("".join(shapes)))


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _keys(frames: Sequence[Frame]) -> Markup:
    """What the looks mean, of those that there are."""
    seen = {_look(frame) for frame in frames}
    return Markup().join(
        Markup(
            '<span class="key"><svg width="16" height="12" aria-hidden="true"><g class="f {}" fill="{}" stroke="{}" '
            'stroke-width="{}"><rect x="1" y="1" width="14" height="10"/></g></svg> {}</span> '
        ).format(*LOOKS[look])
        for look in (TASK, OTHER, KERNEL, MARKED)
        if look in seen
    )


def _said(tree: CallTree) -> Iterator[str]:
    """What the picture leaves out, in sentences."""
    if tree.folded >= 5e-5:
        yield (
            f"Functions of less than {percent(tree.least)} are not drawn but counted to their callers "
            f"({percent(tree.folded)} of the samples)."
        )
    else:
        yield "Every function is drawn."
    if tree.deep:
        yield f"Stacks of more than {DEEPEST} functions are cut there."
