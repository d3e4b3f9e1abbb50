"""The call tree as an icicle graph: the root on top, functions below their callers, as wide as their share of samples.

Callees are sorted by share, the largest first. Places are whole steps, so that adjacent frames touch and no frame is
wider than its caller. Frames are placed in percent of the width and pixels of the height, each with its own tooltip
(`<title>`); the script of the page reads names, shares and places from there. Frames of one look and row are one group,
which keeps a page of thousands small.
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
MIN_SHARE = 0.0005  # of the non-idle samples: a smaller frame is hardly visible
MAX_FRAMES = 1800  # of a page
MAX_DEPTH = 256  # rows; `perf record` keeps 127 frames by default
ROW = 17  # pixels, with 1 between rows
_WIDTH = 960  # pixels of the page's column, to decide which labels fit
_LETTER = 6.2  # pixels
_MIN_LABEL_WIDTH = 34  # pixels
_ROUNDING = 1 - 1e-6  # shares are sums of decimals
_MIN_OWN_SHARE = 5e-5  # smaller shares print as 0
MIN_COMPLETE_SHARE = 0.995  # of the samples; with less the figure is labelled as a part
ROOT, TASK, KERNEL, OTHER, MARKED = "root", "task", "kernel", "other", "marked"
Looks = Mapping[str, tuple[str, str, str, str, str]]
LOOKS: Looks = {  # class, fill, stroke, stroke width, label
    ROOT: ("fr", "#e5e8eb", "#ffffff", "0.6", ""),
    TASK: ("ft", "#c9d1d9", "#ffffff", "0.6", "task"),
    KERNEL: ("fk", "#bcd7f0", "#ffffff", "0.6", "kernel"),
    OTHER: ("fo", "#cfe6d0", "#ffffff", "0.6", "program"),
    MARKED: ("fm", "#f7b267", "#7a2e00", "1.5", "cited by a finding (outlined)"),
}
CHANGE_LEVELS = (0.002, 0.02, 0.1)  # of the samples: smallest changes with a weak, medium and strong colour
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
    """A function below its callers: `depth` 0 is the root, 1 a task.

    `share` and `own` are of the non-idle samples, `left` and `right` steps; a finding cites it if `marked`.
    """

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
        """Return the attributes of its place; x is left out where it is 0, as for a quarter of all frames."""
        x = f' x="{self.left / 100:g}%"' if self.left else ""
        return f'{x}{y} width="{(self.right - self.left) / 100:g}%"'

    @property
    def shares(self) -> str:
        """The share, and how much of it is in the function itself, not in its callees."""
        share, own = percent(self.share), percent(self.own)
        return share if self.own < _MIN_OWN_SHARE else f"{share}, all own" if own == share else f"{share}, own {own}"


@dataclass(frozen=True, slots=True)
class ChangedFrame(Frame):
    """A function with its shares in two recordings."""

    before: float = 0.0
    after: float = 0.0

    @property
    def look(self) -> str:
        change = self.after - self.before
        level = sum(abs(change) >= step for step in CHANGE_LEVELS)
        return f"{'more' if change > 0 else 'less'}{level}" if level else "same"

    @property
    def shares(self) -> str:
        return f"before {percent(self.before)}, after {percent(self.after)}"


@dataclass(frozen=True, slots=True)
class CallTree:
    """Frames, callers first. `share` is that of all samples shown, `least` the smallest share of a frame.

    `folded` is the share of samples whose innermost functions are not shown; `deep`: stacks were cut at `MAX_DEPTH`.
    """

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
        """Return the node of a path, and create it if necessary."""
        node, below = 0, self.below
        for name in path:
            child = below[node].get(name)
            if child is None:
                child = below[node][name] = len(below)
                self.parent.append(node)
                self.name.append(name)
                self.depth.append(self.depth[node] + 1)
                self.share.append(0.0)
                self.marked.append(False)
                below.append({})
            node = child
        return node


def call_tree(profile: Profile, max_frames: int = MAX_FRAMES) -> CallTree:
    """Return at most `max_frames` frames; a caller is never smaller than its callee, so the largest are a tree."""
    nodes, deep = _nodes(profile)
    total, shares = nodes.share[0], nodes.share
    if total < MIN_SHARE:
        return CallTree((), 0.0, MIN_SHARE, 0.0, deep=False)
    kept, least = [False] * len(shares), MIN_SHARE
    order = sorted(range(len(shares)), key=lambda node: (-shares[node], node))[:max_frames]
    for node in order:
        kept[node] = shares[node] >= MIN_SHARE * _ROUNDING
    if len(shares) > max_frames:
        least = max(MIN_SHARE, shares[order[-1]])
    folded = (profile.folded_into_callers or 0.0) + sum(
        share for share, parent, shown in zip(shares, nodes.parent, kept, strict=True) if not shown and kept[parent]
    )
    frames = tuple(_place_frames(nodes, kept, profile))
    return CallTree(frames, total, max(least, profile.folded_least or 0.0), folded, deep)


def _nodes(profile: Profile) -> tuple[_Nodes, bool]:
    """Return every path with the sum of the shares at and below it, and whether one was too deep."""
    nodes, deep, marked = _Nodes(), False, set(profile.matched_stacks)
    for number, (stack, share) in enumerate(profile.folded):
        if not drawable(share) or share <= 0:
            continue
        path = stack.split(";")
        deep = deep or len(path) > MAX_DEPTH
        node = nodes.reach(path[:MAX_DEPTH])
        nodes.share[node] += share
        nodes.marked[node] = nodes.marked[node] or number in marked
    for node in range(len(nodes.parent) - 1, 0, -1):
        parent = nodes.parent[node]
        nodes.share[parent] += nodes.share[node]
        nodes.marked[parent] = nodes.marked[parent] or nodes.marked[node]
    return nodes, deep


def _place_frames(nodes: _Nodes, kept: Sequence[bool], profile: Profile) -> Iterator[Frame]:
    """Yield the nodes with their places, depth first."""
    marked, entries = set(profile.matched), set(profile.kernel_entries)
    scale = STEPS / nodes.share[0]
    pending = [(0, 0.0, False)]
    while pending:
        node, start, in_kernel = pending.pop()
        name, depth, share = nodes.name[node], nodes.depth[node], nodes.share[node]
        in_kernel = in_kernel or (depth > 1 and name in entries)
        shown = (i for i in nodes.below[node].values() if kept[i])
        inner = sorted(shown, key=lambda i: (-nodes.share[i], nodes.name[i]))
        own = share - sum(nodes.share[i] for i in inner)
        kind = (ROOT, TASK)[depth] if depth < 2 else KERNEL if in_kernel else OTHER
        left, right = round(start * scale), round((start + share) * scale)
        yield Frame(name, kind, depth, left, right, share, own, depth > 1 and nodes.marked[node] and name in marked)
        starts = accumulate((nodes.share[i] for i in inner), initial=start)
        pending += reversed([(i, begin, in_kernel) for i, begin in zip(inner, starts, strict=False)])


def icicle(profile: Profile, name: str, max_frames: int) -> Markup:
    """Return the figure of a recording; `name` is an id. Empty without samples."""
    tree = call_tree(profile, max_frames)
    if not tree.frames:
        return Markup()
    listed = "" if tree.share >= MIN_COMPLETE_SHARE else f"{percent(tree.share)} of the samples that the source lists"
    frames = (replace(tree.frames[0], name=f"the {listed}" if listed else "all non-idle samples"), *tree.frames[1:])
    caption = "Every function is drawn."
    if tree.folded >= _MIN_OWN_SHARE:
        caption = (
            f"Functions of less than {percent(tree.least)} are not drawn but counted to their callers "
            f"({percent(tree.folded)} of the samples)."
        )
    if tree.deep:
        caption += f" Stacks of more than {MAX_DEPTH} functions are cut at that depth."
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


def differential(stacks: Iterable[tuple[str, float, float]], name: str, max_frames: int = MAX_FRAMES) -> Markup:
    """Return the figure of two recordings from (stack, share before, share after). Empty without samples.

    A frame is as wide as the mean of both shares, so that new and removed functions are visible; its colour is the
    change.
    """
    shares: dict[str, tuple[float, float]] = {}
    means = []
    for stack, before, after in stacks:
        path = stack.split(";")[:MAX_DEPTH]
        means.append((";".join(path), (before + after) / 2))
        for depth in range(len(path) + 1):
            prefix = ";".join(path[:depth])
            old, new = shares.get(prefix, (0.0, 0.0))
            shares[prefix] = old + before, new + after
    tree = call_tree(Profile.model_construct(folded=means), max_frames)
    if not tree.frames:
        return Markup()
    frames, path_names = [], [""] * (MAX_DEPTH + 1)
    for frame in tree.frames:
        path_names[frame.depth] = frame.name
        before, after = shares[";".join(path_names[1 : frame.depth + 1])]
        fields = {key: getattr(frame, key) for key in Frame.__slots__}
        fields["name"] = frame.name if frame.depth else "all non-idle samples"
        frames.append(ChangedFrame(**fields, before=before, after=after))
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
    """Return groups by look with rows in them; marked frames are drawn last, so that their outlines are complete."""
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
        style, fill, stroke, stroke_width, _ = looks[look]
        inner = "".join(f'<svg y="{ROW * depth}">{"".join(shapes)}</svg>\n' for depth, shapes in sorted(rows.items()))
        if rows:
            drawn += f'<g class="f {style}" fill="{fill}" stroke="{stroke}" stroke-width="{stroke_width}">{inner}</g>\n'
    return Markup(drawn)


def _labels(frames: Iterable[Frame]) -> Markup:
    """Return names where they fit; an SVG element of its own clips each where the page is narrow."""
    shapes = []
    for frame in frames:
        pixels = (frame.right - frame.left) * _WIDTH / STEPS
        if pixels >= _MIN_LABEL_WIDTH:
            text, max_letters = visible(frame.label), int((pixels - 6) / _LETTER)
            text = text if len(text) <= max_letters else f"{text[: max_letters - 1]}…"
            place = frame.place(f' y="{ROW * frame.depth}"')
            shapes.append(f'<svg{place}><text x="3" y="12">{escape(text)}</text></svg>')
    return Markup('<g class="labels" fill="#1b1f24" pointer-events="none">{}</g>').format(Markup("".join(shapes)))


def _keys(frames: Sequence[Frame], looks: Looks = LOOKS) -> Markup:
    """Return the legend of the looks in use."""
    seen = {frame.look for frame in frames}
    return Markup().join(
        Markup(
            '<span class="key"><svg width="16" height="12" aria-hidden="true"><g class="f {}" fill="{}" stroke="{}" '
            'stroke-width="{}"><rect x="1" y="1" width="14" height="10"/></g></svg> {}</span> '
        ).format(*looks[look])
        for look in (looks if looks is not LOOKS else (TASK, OTHER, KERNEL, MARKED))
        if look in seen and looks[look][4]
    )
