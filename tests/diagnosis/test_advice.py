"""Advice fits mechanism and host: paths, words, undo, and nothing that does not cure."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from advice_items import advice
from answers_of_a_run import answer
from thpdiag.diagnosis.remedies import MAX_REMEDIES, HostView, host_view
from thpdiag.knowledge.mechanisms import mechanisms, remedies, verifications
from thpdiag.knowledge.yaml_nodes import load, load_shipped
from thpdiag.model import Case, Citation, Fact, State
from thpdiag.model.result import schema

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = (
    "", "el6", "el6.0", "el6.1", "el6.2", "el6.3", "el6.4", "el6.5", "el7", "el8", "el9", "el10",
    "oracle6", "oracle7", "oracle8", "fedora41", "sles11", "sles12", "sles15",
    "ubuntu14.04", "ubuntu16.04", "ubuntu22.04", "debian7", "debian9", "debian12",
)  # fmt: skip
PLAIN = ("el6", "el6.0", "el6.1", "el6.2", "el6.3", "el6.4")  # no words for single mappings
REDHAT = "/sys/kernel/mm/redhat_transparent_hugepage"
USUAL = "/sys/kernel/mm/transparent_hugepage"
SETTINGS = {"thp.enabled": "always", "thp.defrag": "always"}
EAGER = {"sysctl.vm.compaction_proactiveness": "100", "sysctl.vm.extfrag_threshold": "300"}
KNEE = ("defrag-never", "thp-madvise", "thp-never")


def _pairs() -> list[tuple[str, str]]:
    """Every remedy with a mechanism for each of its variants and one that it cures."""
    found: list[tuple[str, str]] = []
    for name, row in remedies().items():
        if row["cures"] == "listed":
            found += [(name, variant["mechanism"]) for variant in row["variants"]]
        elif row["cures"] == "any":
            found += [
                (name, m) for m in ("fault-compaction", "khugepaged-bloat", "fix-without-effect", "setting-overridden")
            ]
        else:
            found += [(name, mechanism) for mechanism in row["cures"]]
    return found


def _printed(item: dict[str, Any]) -> list[str]:
    """Every text of a remedy."""
    verify = item["verify"] or {}
    return [
        *item["now"],
        *item["persist"],
        *item["undo"],
        *verify.values(),
        item["reason"],
        item["cost"],
        item["restart"],
    ]


def _commands(item: dict[str, Any]) -> list[str]:
    how = [item["verify"]["how"]] if item["verify"] else []
    return [*item["now"], *item["persist"], *item["undo"], *how]


@cache
def _everything(platform: str) -> list[dict[str, Any]]:
    """All that can be printed for a platform, with and without known settings; made once for a run."""
    return answer(f"all advice for {platform}", lambda: _all_advice(platform))


def _all_advice(platform: str) -> list[dict[str, Any]]:
    views = [
        HostView(platform),
        HostView(platform, settings=SETTINGS, apps=("redis", "mongodb", "clickhouse", "sap-hana"), bootline="never"),
        HostView(platform, settings=EAGER),
    ]
    return [item for view in views for name, mechanism in _pairs() for item in advice([name], mechanism, view)]


def _ids(items: list[dict[str, Any]]) -> list[str]:
    return [item["id"] for item in items]


def test_rhel_62_has_its_own_directory_and_two_words() -> None:
    """The host of the first story: the redhat_ path alone, never the word that its kernel refuses."""
    host = HostView("el6.2", "E1", "redhat_transparent_hugepage", SETTINGS)
    items = advice([*KNEE, "tuned-profile", "persist-setting", "kernel-update"], "compaction-lock-convoy", host)
    assert items[0]["now"] == [f"echo never > {REDHAT}/defrag"]
    assert items[0]["undo"][0] == f"echo always > {REDHAT}/defrag"
    assert "rc.local" in items[0]["persist"][0]
    assert _ids(items) == ["defrag-never", "thp-never", "tuned-profile", "kernel-update"]
    never = items[1]
    assert "grubby" in never["persist"][0]
    assert "grub.conf" in never["persist"][0]
    assert not any("madvise" in text or "mm/transparent" in text for item in items for text in _printed(item))


def test_rhel_7_moves_no_pages_any_more() -> None:
    """The third story: defrag by sysfs now and a unit for later; enabled by grubby with a look at tuned."""
    host = HostView("el7", "E4", "transparent_hugepage", {"thp.defrag": "always"})
    items = advice([*KNEE, "persist-setting"], "compaction-tlb-shootdown", host)
    assert items[0]["now"] == [f"echo never > {USUAL}/defrag"]
    assert "/etc/systemd/system/thp-settings.service" in items[0]["persist"][0]
    assert _ids(items) == ["defrag-never", "thp-madvise", "thp-never"]
    assert any("rpm -q tuned" in line for line in items[1]["persist"])
    assert not any("rpm -q tuned" in line for line in items[1]["undo"])
    assert not any("redhat_" in text for item in items for text in _printed(item))


def test_ubuntu_1404_uses_sysfsutils_and_update_grub() -> None:
    """The fourth story: no systemd there."""
    items = advice(
        [*KNEE, "drop-caches-compact", "reduce-fragmentation"], "allocation-knee", HostView("ubuntu14.04", "E5")
    )
    assert _ids(items) == ["defrag-never", "thp-madvise", "thp-never", "reduce-fragmentation", "drop-caches-compact"]
    assert "kernel/mm/transparent_hugepage/defrag = never" in items[0]["persist"][1]
    assert "update-grub" in items[1]["persist"]
    assert not any("systemctl" in text for item in items for text in _printed(item))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_undo_needs_is_noted_once(platform: str) -> None:
    """Commands run a second time do not write the changed state over the note or copy of the old one."""
    views = (HostView(platform), HostView(platform, tuned="balanced", settings=SETTINGS))
    items = [item for view in views for name, mechanism in _pairs() for item in advice([name], mechanism, view)]
    noted = [
        c for i in items for c in (*i["now"], *i["persist"]) if re.search(r"(>|cp .*) ~/\S+[.]before|-i[.]before", c)
    ]
    assert len(noted) > 5
    assert [c for c in noted if not re.search(r"\[ -e \S+[.]before \] \|\|", c)] == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_growth_by_khugepaged_is_never_answered_with_defrag(platform: str) -> None:
    """The second story: max_ptes_none cures it, defrag does not, whatever a rule lists."""
    ids = ["defrag-never", "defrag-defer", "khugepaged-defaults", "khugepaged-max-ptes-none", "restart-application"]
    items = advice(ids, "khugepaged-bloat", HostView(platform))
    assert _ids(items) == ["khugepaged-max-ptes-none", "restart-application"]
    assert "max_ptes_none" in items[0]["now"][-1]
    assert not any("> /sys" in c and "/defrag" in c for item in items for c in _commands(item))


@pytest.mark.parametrize("platform", PLAIN)
def test_a_word_that_the_kernel_refuses_is_never_printed(platform: str) -> None:
    """No remedy for RHEL 6.0 to 6.4 contains the word, in commands or in prose."""
    texts = [text for item in _everything(platform) for text in _printed(item)]
    assert len(texts) > 500
    assert not [text for text in texts if "madvise" in text or "defer" in text]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_is_printed_is_complete_shell(platform: str) -> None:
    """Commands are there, have no placeholder left, one directory only, and sh accepts them."""
    everything = _everything(platform)
    assert all(item["now"] and item["reason"] and item["cost"] and item["restart"] for item in everything)
    texts = [text for item in everything for text in _printed(item)]
    assert not [text for text in texts if re.search(r"@\w*@|(?:echo|=|-w) ?None", text)]
    commands = sorted({command for item in everything for command in _commands(item)})
    if platform:
        wrong = f"{USUAL}/" if platform.startswith("el6") else REDHAT
        assert not [c for c in commands if wrong in c]
    script = "\n".join(f"(\n{command}\n)" for command in commands if not command.startswith("#"))
    checked = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("platform", PLATFORMS)
def test_no_remedy_is_of_another_platform(platform: str) -> None:
    """Each says that of the host."""
    assert {item["platform"] for item in _everything(platform)} == {platform or "any Linux"}


def test_every_remedy_satisfies_the_contract() -> None:
    """The result schema knows every key and its form: one remedy of each name, with the same keys and types."""
    whole = schema()
    shape = Draft202012Validator({"$ref": "#/$defs/Remedy", "$defs": whole["$defs"]})
    forms = {(item["id"], _form(item)): item for platform in PLATFORMS for item in _everything(platform)}
    for item in forms.values():
        shape.validate(item)


def _form(value: Any) -> Any:
    """The keys and types of a value."""
    if isinstance(value, dict):
        return tuple((key, _form(item)) for key, item in sorted(value.items()))
    if isinstance(value, list):
        return "list", *sorted({str(_form(item)) for item in value})
    return type(value).__name__


def test_every_remedy_is_offered_somewhere() -> None:
    """A remedy that no platform can have is dead knowledge."""
    assert {item["id"] for platform in PLATFORMS for item in _everything(platform)} == set(remedies())


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("defrag-never", "huge-page-zeroing"), ("defrag-never", "first-touch-bloat"),
        ("defrag-never", "khugepaged-cpu"), ("thp-never", "high-order-allocation-failure"),
        ("defrag-defer", "khugepaged-bloat"), ("defrag-defer", "background-compaction"),
        ("khugepaged-max-ptes-none", "fault-compaction"), ("khugepaged-max-ptes-none", "huge-page-zeroing"),
        ("khugepaged-defaults", "khugepaged-bloat"), ("khugepaged-defaults", "allocation-knee"),
        ("thp-madvise", "madvise-region-stalls"), ("thp-madvise", "network-softirq"), ("thp-never", "memory-leak"),
        ("kernel-update", "khugepaged-bloat"), ("not-thp", "compaction-lock-convoy"),
    ],
)  # fmt: skip
def test_what_does_not_cure_is_refused(name: str, mechanism: str) -> None:
    """The table of knobs and mechanisms stands above the rule; what is left is to look further."""
    for platform in ("", "el6.2", "el7", "el9", "debian12"):
        assert _ids(advice([name], mechanism, HostView(platform))) == ["collect-more"], platform


def test_words_that_a_kernel_lacks_are_not_offered() -> None:
    """defer came with 4.6; what the kernel itself lists counts more than its age."""
    assert _ids(advice(["defrag-defer"], "fault-compaction", HostView("el8"))) == ["defrag-defer"]
    assert _ids(advice(["defrag-defer"], "fault-compaction", HostView("el7"))) == ["collect-more"]
    backport = HostView("el7", accepts={"thp.defrag": frozenset({"always", "defer", "never"})})
    assert _ids(advice(["defrag-defer"], "fault-compaction", backport)) == ["defrag-defer"]
    six = HostView("el6.5", accepts={"thp.enabled": frozenset({"always", "never"})})
    assert _ids(advice(["thp-madvise", "thp-never"], "huge-page-zeroing", six)) == ["thp-never"]


def test_khugepaged_has_words_on_rhel_6_and_digits_elsewhere() -> None:
    """khugepaged/defrag takes yes and no on RHEL 6."""
    old = advice(["khugepaged-defaults"], "khugepaged-cpu", HostView("el6.5"))[0]["now"]
    new = advice(["khugepaged-defaults"], "khugepaged-cpu", HostView("el7"))[0]["now"]
    assert f"echo no > {REDHAT}/khugepaged/defrag" in old
    assert f"echo 0 > {USUAL}/khugepaged/defrag" in new


def test_undo_knows_the_old_value_or_notes_it() -> None:
    """A measured value is written back; an assumed or unknown one is noted before and read from the note."""
    known = HostView("el8", settings={"thp.defrag": "defer+madvise"})
    assert advice(["defrag-never"], "fault-compaction", known)[0]["undo"][0] == f"echo defer+madvise > {USUAL}/defrag"
    for host in (
        HostView("el8"),
        HostView("el8", settings={"thp.defrag": "madvise"}, assumed=frozenset({"thp.defrag"})),
    ):
        item = advice(["defrag-never"], "fault-compaction", host)[0]
        assert len(item["now"]) == 2
        assert item["undo"][0] == f"cat ~/thp-defrag.before > {USUAL}/defrag"


def test_the_boot_line_gets_its_old_word_back() -> None:
    """A parameter that was there is not removed but set as it was; one that says so already is left alone."""
    item = advice(["thp-never"], "huge-page-zeroing", HostView("el8", bootline="always"))[0]
    assert item["undo"][-1].endswith("--args=transparent_hugepage=always")
    assert advice(["thp-never"], "huge-page-zeroing", HostView("el8", bootline="never"))[0]["persist"] == []


def test_what_is_in_force_is_not_advised() -> None:
    """Neither the setting that is there nor a limit that the other setting makes pointless."""
    done = HostView("el8", settings={"thp.enabled": "never", "thp.defrag": "madvise"})
    assert _ids(advice(["thp-never"], "huge-page-zeroing", done)) == ["collect-more"]
    assert _ids(advice(["thp-madvise", "defrag-never"], "fault-compaction", done)) == ["defrag-never"]
    guessed = HostView("el8", settings={"thp.enabled": "never"}, assumed=frozenset({"thp.enabled"}))
    assert _ids(advice(["thp-never"], "huge-page-zeroing", guessed)) == ["thp-never"]


@pytest.mark.parametrize(
    "host",
    [
        HostView("el8", apps=("kvm",)), HostView("ubuntu22.04", apps=("php-fpm", "yugabytedb")),
        HostView("el7", apps=("vertica",)),
        HostView("el9", apps=("mongodb",), versions={"mongodb": "8.0.4"}),
    ],
    ids=lambda host: host.apps[-1],
)  # fmt: skip
@pytest.mark.parametrize(
    "mechanism",
    ["fault-compaction", "khugepaged-bloat", "huge-page-zeroing", "setting-overridden", "fix-without-effect"],
)
def test_huge_pages_stay_where_they_are_wanted(host: HostView, mechanism: str) -> None:
    """Nothing switches them off for an application that gains from them, and the reason is said."""
    items = advice([*remedies()], mechanism, host)
    assert {"thp-madvise", "thp-never"}.isdisjoint(_ids(items))
    told = [text for item in items for text in _printed(item)]
    assert not [t for t in told if re.search(r"never > \S*/enabled|transparent_hugepages?=never", t)]
    assert f"because {host.apps[-1]} gains" in items[0]["reason"]
    if mechanism == "fault-compaction":
        assert _ids(items)["kvm" not in host.apps] == ("defrag-never" if host.platform == "el7" else "defrag-defer")
    if mechanism == "khugepaged-bloat":
        assert items[0]["id"] == "khugepaged-max-ptes-none"


@pytest.mark.parametrize(
    "host",
    [
        HostView("el8", apps=("vertica",)),
        HostView("el8", apps=("mongodb",), versions={"mongodb": "7.0.2"}),
        HostView("el8", apps=("oracle",)),
    ],
    ids=lambda host: host.apps[0],
)
def test_others_may_do_without(host: HostView) -> None:
    """Wishes that depend on platform or version do not hold elsewhere."""
    assert _ids(advice(["thp-never"], "fault-compaction", host)) == ["thp-never"]


def test_least_invasive_first_and_not_too_many() -> None:
    """Whatever the order in the rule; data come first only where the rule puts them first."""
    ids = [*remedies()][::-1]
    items = advice(ids, "fault-compaction", HostView("el8"))
    assert _ids(items)[:3] == ["defrag-madvise", "defrag-defer", "defrag-never"]
    assert len(items) == MAX_REMEDIES
    assert len(set(_ids(items))) == MAX_REMEDIES
    first = advice(["collect-more", "thp-madvise"], "huge-page-zeroing", HostView("el8"))
    assert _ids(first) == ["collect-more", "thp-madvise"]


def test_a_look_alike_gets_its_own_next_step_first() -> None:
    """What is not about huge pages says so before anything else; the hypervisor's part goes to its host first."""
    failing = advice(["reduce-fragmentation", "not-thp"], "high-order-allocation-failure", HostView("el8"))
    assert _ids(failing) == ["not-thp", "reduce-fragmentation"]
    assert "page allocation failure" in failing[0]["now"][0]
    assert _ids(advice(["not-thp", "hypervisor"], "steal-or-balloon", HostView())) == ["hypervisor", "not-thp"]
    network = advice(["not-thp"], "network-softirq", HostView())[0]
    assert "softirqs" in network["now"][0]
    assert network["verify"] is None


def test_an_overridden_setting_becomes_what_the_boot_line_meant() -> None:
    """tuned overrides madvise on the boot line: advice restores madvise, not never, and tuned comes first."""
    host = HostView("el7", settings={"thp.enabled": "always"}, bootline="madvise", tuned="throughput-performance")
    items = advice(["persist-setting", "apply-correctly", "tuned-profile"], "setting-overridden", host)
    assert _ids(items) == ["tuned-profile", "apply-correctly"]
    assert any("transparent_hugepages=madvise" in line for line in items[0]["persist"])
    assert "tuned-adm profile throughput-performance" in items[0]["undo"]
    assert f"echo madvise > {USUAL}/enabled" in items[1]["now"][0]


def test_a_setting_made_by_hand_is_made_to_last_as_it_is() -> None:
    """persist-setting keeps what the kernel shows."""
    host = HostView("el8", settings={"thp.enabled": "madvise", "thp.defrag": "never"})
    item = advice(["persist-setting"], "fix-without-effect", host)[0]
    assert "transparent_hugepage=madvise" in item["persist"][0]
    assert f"echo never > {USUAL}/defrag" in item["persist"][3]


def test_a_container_is_told_to_go_to_its_node() -> None:
    """sysfs is read-only inside."""
    assert advice(["thp-never"], "fault-compaction", HostView("el8", container="docker"))[0]["now"][0].startswith(
        "# on the node"
    )


def test_a_customer_cannot_put_words_into_root_commands() -> None:
    """Values that are no plain words are noted and not repeated; foreign directory and profile names are dropped."""
    cite = Citation("etc/evil", 1)
    facts = [
        ("thp.defrag", "$(reboot)"),
        ("tuned.profile", "x; reboot"),
        ("boot.transparent_hugepage", "never;reboot"),
        ("thp.directory", "x/../reboot"),
    ]
    case = Case("c", tuple(Fact(name, value, cite) for name, value in facts), ())
    items = [i for name, mechanism in _pairs() for i in advice([name], mechanism, host_view(case, None))]
    assert not [text for item in items for text in _commands(item) if "reboot" in text.replace("the next reboot", "")]


def test_the_view_of_a_host_prefers_what_was_measured() -> None:
    """Measured beats assumed, the state beats the host, and what is offered comes from the kernel's own list."""
    cite = Citation("sys", 1)
    case = Case("c", (
        Fact("platform", "el7", cite), Fact("kernel.era", "E4", cite), Fact("app", "redis", cite),
        Fact("tuned.profile", "balanced", cite),
        Fact("thp.defrag", "always", cite, provenance="assumed"), Fact("thp.enabled", "always", cite),
        Fact("thp.enabled", "madvise", cite, provenance="assumed"), Fact("thp.defrag.accepts", "always never", cite),
    ), ())  # fmt: skip
    view = host_view(case, None)
    assert view.settings == {"thp.defrag": "always", "thp.enabled": "always"}
    assert view.assumed == {"thp.defrag"}
    assert view.accepts == {"thp.defrag": {"always", "never"}}
    assert (view.platform, view.era, view.apps, view.tuned) == ("el7", "E4", ("redis",), "balanced")
    state = host_view(case, State("s", {"thp.defrag": "never"}, 1))
    assert state.settings["thp.defrag"] == "never"
    assert state.assumed == frozenset()


def test_rules_name_remedies_that_exist() -> None:
    """Also their mechanisms, and at least one remedy is left for each rule that names some."""
    rules = [
        load(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "rules").glob("*.yaml"))
        if ".cases." not in path.name
    ]
    for rule in rules:
        assert set(rule.get("remedies", ())) <= set(remedies()), rule["id"]
        if rule.get("remedies"):
            hosts = HostView("el7"), HostView("ubuntu24.04", "E8")  # what only newer kernels do has its cure there
            lists = [set(_ids(advice(rule["remedies"], rule["mechanism"], host))) for host in hosts]
            assert all(lists), rule["id"]
            assert any(left <= set(rule["remedies"]) for left in lists), rule["id"]


def test_the_knowledge_names_mechanisms_that_exist() -> None:
    """In cures, in conditions and among the verifications; regular expressions match at least one."""
    names = set(mechanisms())
    table = load_shipped("remedies.yaml")
    assert set(table["verify"]) <= names | {"any"}
    for name, row in remedies().items():
        assert row["cures"] in ("any", "listed") or set(row["cures"]) <= names, name
        assert set(row.get("because", {})) | set(row.get("orders", {})) <= names, name
        for case in [*row.get("variants", ()), *row.get("refused", ())]:
            for pattern in case.get("mechanism", ".*").split("|"):
                assert any(re.fullmatch(pattern, known) for known in names), (name, pattern)
        assert all(rows for rows in map(verifications, names))


@pytest.mark.parametrize("platform", ["el6.0", "el6.1"])
def test_counters_that_do_not_exist_are_not_measured(platform: str) -> None:
    """RHEL 6.0 and 6.1 have no thp_ counters."""
    hows = {item["verify"]["how"] for item in _everything(platform) if item["verify"]}
    assert not [how for how in hows if re.search(r"thp_|compact_(migrate|free)|numa_pages", how)]
