"""What to do about a mechanism on exactly this host: the remedies that a rule names, checked and written out.

A remedy that does not cure the mechanism, that this kernel cannot take, that is in force already or that takes huge
pages from an application that wants them is left out, whatever the rule says. Texts and commands: remedies.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.advice import setting_commands as commands
from thpdiag.advice.host_view import HostView
from thpdiag.knowledge.remedies import Row, cures, remedies, verifications

MOST = 5  # remedies per finding: a reader who needs more has another problem
_PLAIN = re.compile("madvise|defer")  # words that a plain kernel does not take
_OF_HOST = re.compile(r"> /(?:sys|proc/sys)/|> @dir@|sysctl -w|tuned-adm|mount ")
INSTEAD = ("defrag-never", "khugepaged-max-ptes-none", "thp-keep")  # where huge pages must stay


def advice(ids: Sequence[str], mechanism: str, host: HostView) -> list[dict[str, Any]]:
    """The remedies for a finding, least invasive first, each with its commands for this host."""
    rows = _rows(ids, mechanism, host)
    keeper = _keeper(host)
    stays = ""
    if keeper and any(row.get("takes_away") for row in rows.values()):
        rows = {i: row for i, row in _rows((*ids, *INSTEAD), mechanism, host).items() if not row.get("takes_away")}
        stays = f" Huge pages stay on, because {keeper} gains from them."
    if ids and not rows:
        rows = _rows(["collect-more"], mechanism, host)
    ordered = sorted(rows.values(), key=lambda row: _order(row, ids[0], mechanism))
    items = [_item(row, mechanism, host) for row in ordered]
    if items:
        items[0]["reason"] += stays
    return items[:MOST]


def _order(row: Row, first: str, mechanism: str) -> int:
    """Least invasive first, but data first where the rule says that it proves nothing yet."""
    if row["id"] == first == "collect-more":
        return 0
    order: int = row.get("orders", {}).get(mechanism, row["order"])
    return order


def _rows(ids: Sequence[str], mechanism: str, host: HostView) -> dict[str, Row]:
    """What is left of the remedies named. Settings bring their own commands to last and need no `persist-setting`."""
    rows = {name: row for name in dict.fromkeys(ids) if (row := _chosen(name, mechanism, host))}
    if any("values" in row for row in rows.values()):
        rows.pop("persist-setting", None)
    return rows


def _chosen(name: str, mechanism: str, host: HostView) -> Row | None:
    """The remedy with what its variant for this host adds; None if it is not for this mechanism or host."""
    row: dict[str, Any] = {"id": name, "for": mechanism, **remedies()[name]}
    if not cures(row, mechanism) or _refused(row, mechanism, host):
        return None
    if "variants" in row:
        variant = next((v for v in row["variants"] if _fits(v, mechanism, host)), None)
        if variant is None:
            return None
        row |= variant
    if "sets" in row:
        row["values"] = _values(row, host)
        return row if row["values"] else None
    return _kept(row, host) if "keeps" in row else row


def _kept(row: dict[str, Any], host: HostView) -> Row | None:
    """A row with the settings that shall last; None if they do already."""
    limited = {
        n: v for n in row.get("in_force", ()) if (v := host.measured(commands.fact_name(n))) not in (None, "always")
    }
    row["keeps"] = limited or {n: _meant(host) if v == "@boot@" else v for n, v in row["keeps"].items()}
    row["takes_away"] = "enabled" in row["keeps"]
    return row if any(commands.persist(row["keeps"], host)) else None


def _fits(variant: Row, mechanism: str, host: HostView) -> bool:
    """Whether all conditions of a row hold: regular expressions on the whole name; of applications one must fit."""
    has = {
        "platform": (host.platform,), "era": (host.age,), "mechanism": (mechanism,), "app": host.apps,
        "tuned": (host.tuned,), "version": _versions(variant, host),
    }  # fmt: skip
    named = all(any(re.fullmatch(variant[key], n) for n in names) for key, names in has.items() if key in variant)
    return named and all(host.measured(name) in values for name, values in variant.get("measured", {}).items())


def _versions(variant: Row, host: HostView) -> Sequence[str]:
    """Those of the application that the row is about; empty words where they are not known."""
    apps = [app for app in host.apps if re.fullmatch(variant.get("app", ".*"), app)]
    return [host.versions.get(app, "") for app in apps]


def _meant(host: HostView) -> str:
    """The word for `enabled` on the boot line, if this kernel takes it."""
    return host.bootline if host.bootline and host.takes("enabled", host.bootline) else "never"


def _wide(mechanism: str, host: HostView) -> str:
    """The word for `enabled` where nobody chose one: the mildest that takes huge pages from those who did not ask."""
    if host.bootline or mechanism in ("setting-overridden", "fix-without-effect"):
        return _meant(host)
    return "madvise" if host.takes("enabled", "madvise") else "never"


def _refused(row: Row, mechanism: str, host: HostView) -> bool:
    """A setting as it is measured here, or a program that asks for huge pages, can make a remedy pointless."""
    return any(
        re.fullmatch(case["mechanism"], mechanism)
        and (host.measured(case["setting"]) in case["values"] if "setting" in case else _asked(host))
        for case in row.get("refused", ())
    )


def _asked(host: HostView) -> bool:
    """Whether an application of the host asks for huge pages itself (madvise), or its memory shows that."""
    return host.asks or any(app.asks for app, _ in host.stances())


def _values(row: Row, host: HostView) -> dict[str, str]:
    """What to write: per setting the first word that the kernel takes; nothing if it takes none or all is in force."""
    values: dict[str, str] = {}
    for setting, words in row["sets"].items():
        word = next((w for w in words if host.takes(setting, w)), None)
        if word is None:
            return {}
        if host.measured(commands.fact_name(setting)) not in {word, *row.get("leave", {}).get(setting, ())}:
            values[setting] = word
    return values


def _keeper(host: HostView) -> str:
    """An application of this host that wants huge pages, empty if there is none."""
    return next((app.name for app, stance in host.stances() if stance.word == "keep"), "")


def _item(row: Row, mechanism: str, host: HostView) -> dict[str, Any]:
    """One entry of the result document's `remedies`."""
    old, back = list(commands.undo(row.get("values") or row.get("undo_of", ()), host)), [*_written(row, "undo", host)]
    return {
        "id": row["id"],
        "reason": row.get("because", {}).get(mechanism, row["reason"]) + _says_maker(row, host),
        "platform": host.platform or "any Linux",
        "now": [*_on_node(row, host), *_now(row, host)],
        "persist": [*commands.persist(_lasting(row), host), *_written(row, "persist", host)],
        "verify": _verify(row, mechanism, host),
        "undo": [*old, *_lasting_undo(row, host), *back],
        "undo_now": [*old, *back],
        "cost": row["cost"] + _depends(row, host),
        "restart": row["restart"],
    }


def _now(row: Row, host: HostView) -> Iterator[str]:
    yield from commands.notes(row.get("undo_of", ()), host)
    yield from commands.now(row.get("values", {}), host)
    yield from _written(row, "now", host)


def _lasting_undo(row: Row, host: HostView) -> Iterator[str]:
    """Take back what was made to last."""
    yield from commands.persist_undo(_lasting(row), host)
    yield from _written(row, "undo_persist", host)


def _lasting(row: Row) -> Mapping[str, str]:
    """The settings that must hold after a boot, too."""
    found: Mapping[str, str] = row.get("values") or row.get("keeps", {})
    return found


def _written(row: Row, key: str, host: HostView) -> Iterator[str]:
    """Commands of the remedy's own."""
    words = {"boot": _meant(host), "profile": host.tuned or "$(cat ~/tuned.before)", "wide": _wide(row["for"], host)}
    for text in row.get(key, ()):
        yield commands.filled(commands.placed(text, host), words)


def _on_node(row: Row, host: HostView) -> list[str]:
    """The settings are the kernel's, so a container sees them read-only."""
    writes = "values" in row or any(_OF_HOST.search(text) for text in row.get("now", ()))
    return ["# on the node, as root; a container cannot change this"] if host.container and writes else []


def _verify(row: Row, mechanism: str, host: HostView) -> dict[str, str] | None:
    told = row["verify"] if "verify" in row else next(v for v in verifications(mechanism) if _fits(v, mechanism, host))
    if told is None:
        return None
    return {"metric": told["metric"], "expect": told["expect"], "how": commands.placed(told["how"], host)}


def _says_maker(row: Row, host: HostView) -> str:
    """Applications whose makers say the same."""
    names = [app.name for app, stance in host.stances() if stance.word == "disable"]
    return f" The makers of {' and '.join(names)} advise it, too." if names and row["id"] == "thp-never" else ""


def _depends(row: Row, host: HostView) -> str:
    """What an application says for whom it depends, in words that this kernel takes, and who would miss huge pages."""
    told = [(app.name, s.advice) for app, s in host.stances() if s.word == "depends" and row.get("takes_away")]
    said = "".join(f" {name}: {advice}." for name, advice in told if not (host.plain and _PLAIN.search(advice)))
    asking = [app.name for app, s in host.stances() if app.asks and s.word == "madvise" and row["id"] == "thp-never"]
    return said + "".join(f" {name} asks for huge pages itself and loses them." for name in asking)
