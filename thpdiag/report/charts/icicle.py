"""The tree of calls as an icicle: the root on top, each function below its caller, as wide as its share of the samples.

Below each frame stands what it called, the hottest first. Places are whole steps, so that frames side by side touch and
those below a frame never stand out from under it. Frames stand in percent of the width and pixels of the height, each
with its own tooltip (`<title>`); the script of the page reads names, shares and places from there. Frames of one look
and row are one group, so that a page of thousands stays small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from markupsafe import Markup, escape

from thpdiag.model.result import Profile
from thpdiag.report.charts.panels import drawable
from thpdiag.report.escaping import visible
from thpdiag.report.quantity import percent

STEPS = 10_000  # of the whole width
LEAST = 0.0005  # of the non-idle samples: a smaller frame could hardly be seen
MAX_FRAMES = 1800  # of a page
DEEPEST = 256  # rows; `perf record` keeps 127 frames unless it is told otherwise
ROW = 17  # pixels, with 1 between rows
_WIDTH = 960  # pixels of the page's column, for what text fits
_LETTER = 6.2  # pixels
_LEAST_LABEL = 34  # pixels
_ROUNDING = 1 - 1e-6  # shares are sums of decimals
_OWN = 5e-5  # a share that is shown
ALL = 0.995  # of the samples: less is said to be a part
ROOT, TASK, KERNEL, OTHER, MARKED = "root", "task", "kernel", "other", "marked"
Looks = Mapping[str, tuple[str, str, str, str, str]]
LOOKS: Looks = {  # class, fill, stroke, width of the stroke, what it is
    ROOT: ("fr", "#e5e8eb", "#ffffff", "0.6", ""),
    TASK: ("ft", "#c9d1d9", "#ffffff", "0.6", "task"),
    KERNEL: ("fk", "#bcd7f0", "#ffffff", "0.6", "kernel"),
    OTHER: ("fo", "#cfe6d0", "#ffffff", "0.6", "program"),
    MARKED: ("fm", "#f7b267", "#7a2e00", "1.5", "cited by a finding (outlined)"),
}
STEPS_OF_CHANGE = (0.002, 0.02, 0.1)  # of the samples: from where on a change has a colour, and stronger ones
CHANGES: Looks = {
    "same": ("d0", "#e5e8eb", "#ffffff", "0.6", "about as much"),
    "more1": ("u1", "#fde0cf", "#ffffff", "0.6", "more after"),
    "more2": ("u2", "#f9a98a", "#ffffff", "0.6", ""),
    "more3": ("u3", "#e8704a", "#ffffff", "0.6", "much more"),
    "less1": ("n1", "#d9e7f5", "#ffffff", "0.6", "less after"),
    "less2": ("n2", "#a4c8ea", "#ffffff", "0.6", ""),
    "less3": ("n3", "#6aa5dc", "#ffffff", "0.6", "much less"),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """A function below its callers: `depth` 0 is the root, 1 a task. `share` and `own` are of the non-idle samples,
    `left` and `right` steps. `marked`: a finding speaks of it."""

    name: str
    kind: str
    depth: int
    left: int
    right: int
    share: float
    own: float
    marked: bool

    @property
    def look(self) -> str:
        return MARKED if self.marked else self.kind

    @property
    def label(self) -> str:
        return self.name if self.name not in ("", "?") else "task not known" if self.kind == TASK else "?"

    def place(self, y: str = "") -> str:
        """The attributes of its place; x is left out where it is 0, as for a quarter of all frames."""
        x = f' x="{self.left / 100:g}%"' if self.left else ""
        return f'{x}{y} width="{(self.right - self.left) / 100:g}%"'

    @property
    def shares(self) -> str:
        """The share, and how much of it is the function's own: what ran in none that it called."""
        told, own = percent(self.share), percent(self.own)
        return told if self.own < _OWN else f"{told}, all own" if own == told else f"{told}, own {own}"


@dataclass(frozen=True, slots=True)
class ChangedFrame(Frame):
    """A function with its shares in two recordings."""

    before: float = 0.0
    after: float = 0.0

    @property
    def look(self) -> str:
        moved = self.after - self.before
        level = sum(abs(moved) >= step for step in STEPS_OF_CHANGE)
        return f"{'more' if moved > 0 else 'less'}{level}" if level else "same"

    @property
    def shares(self) -> str:
        return f"before {percent(self.before)}, after {percent(self.after)}"


@dataclass(frozen=True, slots=True)
class CallTree:
    """Frames, callers first. `share` is that of all samples shown, `least` what a frame has at least, `folded` the
    share of samples whose innermost functions are not shown; `deep`: stacks were cut at `DEEPEST`."""

    frames: tuple[Frame, ...]
    share: float
    least: float
    folded: float
    deep: bool


@dataclass(slots=True)
class _Nodes:
    """All nodes by number, callers first; number 0 is the root."""

    parent: list[int] = field(default_factory=lambda: [-1])
    name: list[str] = field(default_factory=lambda: [""])
    depth: list[int] = field(default_factory=lambda: [0])
    share: list[float] = field(default_factory=lambda: [0.0])
    marked: list[bool] = field(default_factory=lambda: [False])
    below: list[dict[str, int]] = field(default_factory=lambda: [{}])

    def reach(self, path: Iterable[str]) -> int:
        """The node of a path, made if there is none."""
        at, below = 0, self.below
        for name in path:
            inner = below[at].get(name)
            if inner is None:
                inner = below[at][name] = len(below)
                self.parent.append(at)
                self.name.append(name)
                self.depth.append(self.depth[at] + 1)
                self.share.append(0.0)
                self.marked.append(False)
                below.append({})
            at = inner
        return at


def call_tree(profile: Profile, most: int = MAX_FRAMES) -> CallTree:
    """The frames of a recording, at most so many; a caller weighs at least what it calls, so the largest are a tree."""
    nodes, deep = _nodes(profile)
    whole, shares = nodes.share[0], nodes.share
    if whole < LEAST:
        return CallTree((), 0.0, LEAST, 0.0, deep=False)
    kept, least = [False] * len(shares), LEAST
    order = sorted(range(len(shares)), key=lambda at: (-shares[at], at))[:most]
    for at in order:
        kept[at] = shares[at] >= LEAST * _ROUNDING
    if len(shares) > most:
        least = max(LEAST, shares[order[-1]])
    folded = (profile.folded_into_callers or 0.0) + sum(
        share for share, parent, shown in zip(shares, nodes.parent, kept, strict=True) if not shown and kept[parent]
    )
    frames = tuple(_place_frames(nodes, kept, profile))
    return CallTree(frames, whole, max(least, profile.folded_least or 0.0), folded, deep)


def _nodes(profile: Profile) -> tuple[_Nodes, bool]:
    """Every path with the sum of what is at and below it; whether one was too deep."""
    nodes, deep, marked = _Nodes(), False, set(profile.matched_stacks)
    for number, (stack, share) in enumerate(profile.folded):
        if not drawable(share) or share <= 0:
            continue
        path = stack.split(";")
        deep = deep or len(path) > DEEPEST
        at = nodes.reach(path[:DEEPEST])
        nodes.share[at] += share
        nodes.marked[at] = nodes.marked[at] or number in marked
    for at in range(len(nodes.parent) - 1, 0, -1):
        parent = nodes.parent[at]
        nodes.share[parent] += nodes.share[at]
        nodes.marked[parent] = nodes.marked[parent] or nodes.marked[at]
    return nodes, deep


def _place_frames(nodes: _Nodes, kept: Sequence[bool], profile: Profile) -> Iterator[Frame]:
    """The nodes in their places, depth first."""
    marked, entries = set(profile.matched), set(profile.kernel_entries)
    wide = STEPS / nodes.share[0]
    waiting = [(0, 0.0, False)]
    while waiting:
        at, start, inside = waiting.pop()
        name, depth, share = nodes.name[at], nodes.depth[at], nodes.share[at]
        inside = inside or (depth > 1 and name in entries)
        inner = sorted((i for i in nodes.below[at].values() if kept[i]), key=lambda i: (-nodes.share[i], nodes.name[i]))
        own = share - sum(nodes.share[i] for i in inner)
        kind = (ROOT, TASK)[depth] if depth < 2 else KERNEL if inside else OTHER
        left, right = round(start * wide), round((start + share) * wide)
        yield Frame(name, kind, depth, left, right, share, own, depth > 1 and nodes.marked[at] and name in marked)
        starts = accumulate((nodes.share[i] for i in inner), initial=start)
        waiting += reversed([(i, begin, inside) for i, begin in zip(inner, starts, strict=False)])


def icicle(profile: Profile, name: str, most: int) -> Markup:
    """The figure of a recording; `name` is an id. Empty without samples."""
    tree = call_tree(profile, most)
    if not tree.frames:
        return Markup()
    listed = "" if tree.share >= ALL else f"{percent(tree.share)} of the samples that the source lists"
    frames = (replace(tree.frames[0], name=f"the {listed}" if listed else "all non-idle samples"), *tree.frames[1:])
    caption = "Every function is drawn."
    if tree.folded >= _OWN:
        caption = (
            f"Functions of less than {percent(tree.least)} are not drawn but counted to their callers "
            f"({percent(tree.folded)} of the samples)."
        )
    if tree.deep:
        caption += f" Stacks of more than {DEEPEST} functions are cut at that depth."
    return Markup(
        '<figure class="icicle" tabindex="0" aria-labelledby="{name}" data-share="{share}">'
        '<figcaption><span id="{name}">Call graph</span>{part}: {keys}</figcaption>\n'
        '<svg width="100%" height="{height}" role="img" aria-labelledby="{name}" font-size="11">\n{frames}{labels}'
        '</svg>\n<p class="small">{caption}</p></figure>\n'
    ).format(
        name=name, part=f" of the {listed}" if listed else "", share=f"{tree.share:.6g}", keys=_keys(frames),
        height=ROW * (1 + max(frame.depth for frame in frames)), frames=_frames(frames), labels=_labels(frames),
        caption=caption,
    )  # fmt: skip


def differential(stacks: Iterable[tuple[str, float, float]], name: str, most: int = MAX_FRAMES) -> Markup:
    """The figure of two recordings: (stack, share before, share after). A frame is as wide as the mean of both, so that
    what came and what is gone can both be seen; its colour is the change. Empty without samples."""
    shares: dict[str, tuple[float, float]] = {}
    means = []
    for stack, before, after in stacks:
        path = stack.split(";")[:DEEPEST]
        means.append((";".join(path), (before + after) / 2))
        for depth in range(len(path) + 1):
            at = ";".join(path[:depth])
            old, new = shares.get(at, (0.0, 0.0))
            shares[at] = old + before, new + after
    tree = call_tree(Profile.model_construct(folded=means), most)
    if not tree.frames:
        return Markup()
    frames, walked = [], [""] * (DEEPEST + 1)
    for frame in tree.frames:
        walked[frame.depth] = frame.name
        before, after = shares[";".join(walked[1 : frame.depth + 1])]
        told = {key: getattr(frame, key) for key in Frame.__slots__}
        told["name"] = frame.name if frame.depth else "all non-idle samples"
        frames.append(ChangedFrame(**told, before=before, after=after))
    return Markup(
        '<figure class="icicle" aria-labelledby="{name}"><figcaption><span id="{name}">Call graph of both</span>, as '
        'wide as the mean: {keys}</figcaption>\n'
        '<svg width="100%" height="{height}" role="img" aria-labelledby="{name}" font-size="11">\n'
        "{frames}{labels}</svg></figure>\n"
    ).format(
        name=name, keys=_keys(frames, CHANGES), height=ROW * (1 + max(frame.depth for frame in frames)),
        frames=_frames(frames, CHANGES), labels=_labels(frames),
    )  # fmt: skip


def _frames(frames: Iterable[Frame], looks: Looks = LOOKS) -> Markup:
    """Groups by look, in them rows; what is marked is drawn last, so that its outline is whole."""
    groups: dict[str, dict[int, list[str]]] = {look: {} for look in looks}
    names: dict[str, str] = {}
    for frame in frames:
        label = frame.label
        if label not in names:
            names[label] = str(escape(visible(label)))
        groups[frame.look].setdefault(frame.depth, []).append(
            f'<rect{frame.place()} height="16"><title>{names[label]}: {frame.shares}</title></rect>'
        )
    drawn = ""
    for look, rows in groups.items():
        style, fill, stroke, wide, _ = looks[look]
        inner = "".join(f'<svg y="{ROW * depth}">{"".join(shapes)}</svg>\n' for depth, shapes in sorted(rows.items()))
        if rows:
            drawn += f'<g class="f {style}" fill="{fill}" stroke="{stroke}" stroke-width="{wide}">{inner}</g>\n'
    return Markup(drawn)


def _labels(frames: Iterable[Frame]) -> Markup:
    """Names where they fit; a frame of its own cuts them off where the page is narrow."""
    shapes = []
    for frame in frames:
        pixels = (frame.right - frame.left) * _WIDTH / STEPS
        if pixels >= _LEAST_LABEL:
            text, room = visible(frame.label), int((pixels - 6) / _LETTER)
            text = text if len(text) <= room else f"{text[: room - 1]}…"
            place = frame.place(f' y="{ROW * frame.depth}"')
            shapes.append(f'<svg{place}><text x="3" y="12">{escape(text)}</text></svg>')
    return Markup('<g class="labels" fill="#1b1f24" pointer-events="none">{}</g>').format(Markup("".join(shapes)))


def _keys(frames: Sequence[Frame], looks: Looks = LOOKS) -> Markup:
    """What the looks mean, of those that there are."""
    seen = {frame.look for frame in frames}
    return Markup().join(
        Markup(
            '<span class="key"><svg width="16" height="12" aria-hidden="true"><g class="f {}" fill="{}" stroke="{}" '
            'stroke-width="{}"><rect x="1" y="1" width="14" height="10"/></g></svg> {}</span> '
        ).format(*looks[look])
        for look in (looks if looks is not LOOKS else (TASK, OTHER, KERNEL, MARKED))
        if look in seen and looks[look][4]
    )
