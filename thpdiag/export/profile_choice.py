"""Selection of a profile of the input: the one named by event or member, else the one with most information.

Events of one recording are separate profiles and are never added (`thpdiag.model.profile`).
"""

from __future__ import annotations

from collections.abc import Sequence

from thpdiag.errors import UsageError
from thpdiag.model import Profile, Stacks
from thpdiag.report.escaping import visible

_MAX_LISTED = 20
_STACKS = (Stacks.NONE, Stacks.PARTIAL, Stacks.FULL)  # in ascending order of preference


def choose(profiles: Sequence[Profile], event: str = "", member: str = "") -> Profile:
    """Return the profile with the fullest stacks and then the most samples, of those that match `event` and `member`.

    UsageError if none matches, or several distinguishable ones.
    """
    candidates = profiles
    for wanted, fits in ((member, _fits_member), (event, _fits_event)):
        if wanted:
            by_fit = [(fits(p, wanted), p) for p in candidates]
            best = max((fit for fit, _ in by_fit), default=0)
            candidates = [p for fit, p in by_fit if fit and fit == best]
    if not candidates:
        wanted = " of ".join(filter(None, (f"event {event}" if event else "", member)))
        raise UsageError(f"no profile {wanted}; there are {list_titles(profiles)}")
    if (event or member) and len({title(p) for p in candidates}) > 1:
        raise UsageError(f"several profiles fit; name one by --event or --member: {list_titles(candidates)}")

    def information(profile: Profile) -> tuple[int, bool, int]:
        samples = int(profile.rows.samples.sum()) or profile.total_samples or 0
        return _STACKS.index(profile.stacks), not profile.percent_only, samples

    return max(candidates, key=information)  # the first of equal ones


def title(profile: Profile) -> str:
    """Return the title of a profile: the member, the line where it begins, its event."""
    line = f":{profile.cite.line}" if profile.cite.line is not None else ""
    event = f" ({profile.event})" if profile.event else ""
    return visible(f"{profile.cite.member}{line}{event}")


def list_titles(profiles: Sequence[Profile]) -> str:
    """Return the titles of the profiles, of very many the first."""
    titles = [title(p) for p in profiles]
    more = [f"and {len(titles) - _MAX_LISTED} more"] if len(titles) > _MAX_LISTED else []
    return ", ".join([*titles[:_MAX_LISTED], *more])


def _fits_event(profile: Profile, wanted: str) -> int:
    """Return 2 for the same name, 1 for the name without modifiers (`cycles` for `cycles:ppp`), else 0."""
    return 2 if profile.event == wanted else int(profile.event.partition(":")[0] == wanted)


def _fits_member(profile: Profile, wanted: str) -> int:
    """Return 3 for the path with its line, 2 for the path, 1 for the end of the path, else 0."""
    member, line = profile.cite.member, profile.cite.line
    if wanted == f"{member}:{line}":
        return 3
    return 2 if member == wanted else int(member.endswith(f"/{wanted}"))
