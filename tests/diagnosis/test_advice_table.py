"""Which knob cures which mechanism, cell for cell; the order of remedies; and what a cure is measured by."""

from __future__ import annotations

import re

import pytest

from advice_items import advice
from thpdiag.diagnosis.remedies import HostView, host_view
from thpdiag.knowledge.applications import applications
from thpdiag.knowledge.mechanisms import cures, mechanisms, remedies, verifications
from thpdiag.model import Case, Citation, Sample, State

KNOBS = (
    "defrag-madvise", "defrag-defer", "defrag-never", "khugepaged-defaults", "khugepaged-max-ptes-none", "thp-madvise",
    "thp-never", "restart-application",
)  # fmt: skip
# y: cures it. n: does not. p: in part, or only sometimes, so a rule may name it or not. Columns as in KNOBS. Read from
# the allocation masks and khugepaged's code of kernels 2.6.32 to 7.2; `defer` passes no flag for direct reclaim at all.
TABLE = {
    "compaction-lock-convoy": "yyynnyyn",
    "compaction-tlb-shootdown": "yyynnyyn",
    "fault-compaction": "yyynnyyn",
    "allocation-knee": "yyynnyyn",
    "madvise-region-stalls": "nyynnnyn",
    "thp-direct-reclaim": "yyypnyyn",
    "khugepaged-bloat": "nnnnyyyy",
    "khugepaged-cpu": "nnnyyyyn",
    "khugepaged-alloc-failure": "nnnyyyyn",
    "huge-page-zeroing": "nnpnnyyn",
    "first-touch-bloat": "nnpnnyyy",
    "fork-cow": "nnpnnyyy",
    "purge-fight": "nnnnpyyy",
    "split-storm": "nnnnpyyy",
    "background-compaction": "nnpnnppn",
    "kswapd-high-order": "nnpnnppn",
}  # fmt: skip
# For these one cure is known, or the next step.
OTHERS = {
    "huge-page-swap": {"not-thp", "khugepaged-max-ptes-swap"},
    "fragmentation": {"reduce-fragmentation", "drop-caches-compact", "hugetlb-for-giants"},
    "numa-huge-pages": {"numa-settings"},
    "zone-reclaim": {"numa-settings", "defrag-madvise", "defrag-never"},
    "shmem-file-thp": {"shmem-huge-never"},
    "mthp": {"mthp-sizes", "defrag-madvise"},  # defrag holds for faults of every size
    "hugetlb-confusion": {"not-thp", "hugetlb-give-back", "hugetlb-for-giants"},
    "hugetlb-reservation": {"not-thp", "hugetlb-give-back"},
    "hypervisor": {"hypervisor"},
    "teardown-cost": {"not-thp"},
    "lazy-free": {"not-thp"},
    "slab-growth": {"not-thp"},
    "ksm-merging": {"not-thp"},
    "plain-syscall-load": {"not-thp"},
    "small-page-faults": {"not-thp"},
    "thp-off-where-needed": {"thp-keep", "process-huge-pages"},
}
# Least invasive first.
ORDER = (
    "not-thp", "defrag-madvise", "defrag-defer", "defrag-never", "khugepaged-max-ptes-none", "khugepaged-defaults",
    "apply-correctly", "application-switch", "process-opt-out", "thp-madvise", "thp-never", "restart-application",
    "persist-setting", "kernel-update", "reduce-fragmentation", "numa-settings", "block-settings-defaults",
    "background-compaction-off", "drop-caches-compact", "thp-keep",
)  # fmt: skip


# By platform: the directory, the words of defrag and of enabled that are offered instead of always, and what makes
# `enabled` and `defrag` last.
BY_PLATFORM = {
    "el6.0": ("redhat_", "never", "never", "grubby", "rc.local"),
    "el6.1": ("redhat_", "never", "never", "grubby", "rc.local"),
    "el6.3": ("redhat_", "never", "never", "grubby", "rc.local"),
    "el6.4": ("redhat_", "never", "never", "grubby", "rc.local"),
    "el6.5": ("redhat_", "madvise never", "madvise never", "grubby", "rc.local"),
    "sles11": ("", "madvise never", "madvise never", "menu.lst", "boot.local"),
    "el7": ("", "madvise never", "madvise never", "grubby", "systemctl"),
    "sles12": ("", "madvise never", "madvise never", "grub2-mkconfig", "systemctl"),
    "ubuntu14.04": ("", "madvise never", "madvise never", "update-grub", "sysfs.conf"),
    "ubuntu16.04": ("", "madvise never", "madvise never", "update-grub", "systemctl"),
    "el8": ("", "madvise defer never", "madvise never", "grubby", "systemctl"),
    "sles15": ("", "madvise defer never", "madvise never", "grub2-mkconfig", "systemctl"),
    "ubuntu18.04": ("", "madvise defer never", "madvise never", "update-grub", "systemctl"),
    "debian10": ("", "madvise defer never", "madvise never", "update-grub", "systemctl"),
    "el10": ("", "madvise defer never", "madvise never", "grubby", "systemctl"),
    "debian13": ("", "madvise defer never", "madvise never", "update-grub", "systemctl"),
}


@pytest.mark.parametrize("platform", BY_PLATFORM)
def test_every_row_of_the_platforms(platform: str) -> None:
    """Path, words, and places that last, as they are on the release; tuned is looked at where it overrides."""
    prefix, defrag, enabled, at_boot, at_start = BY_PLATFORM[platform]
    host = HostView(platform, tuned="throughput-performance" if platform == "el7" else "")
    stalls = advice(["defrag-madvise", "defrag-defer", "defrag-never"], "fault-compaction", host)
    place = f"/sys/kernel/mm/{prefix}transparent_hugepage"
    assert [i["now"][1] for i in stalls] == [f"echo {word} > {place}/defrag" for word in defrag.split()]
    assert all(at_start in " ".join(i["persist"]) for i in stalls)
    off = advice(["thp-madvise", "thp-never"], "huge-page-zeroing", host)
    assert [i["now"][1] for i in off] == [f"echo {word} > {place}/enabled" for word in enabled.split()]
    assert all(at_boot in " ".join(i["persist"]) for i in off)
    assert ("rpm -q tuned" in str(off)) is (platform == "el7")
    assert ("saptune" in str(off)) is (platform in ("sles12", "sles15"))
    assert ("hugepages-*kB" in str(off)) is (platform in ("el10", "debian13"))


@pytest.mark.parametrize("mechanism", TABLE)
def test_every_cell_of_the_table(mechanism: str) -> None:
    """A knob cures what it cures, and nothing offers it for what it does not."""
    for knob, cell in zip(KNOBS, TABLE[mechanism], strict=True):
        if cell != "p":
            assert cures(remedies()[knob], mechanism) is (cell == "y"), (knob, mechanism)


@pytest.mark.parametrize("mechanism", OTHERS)
def test_the_only_cures_of_the_others(mechanism: str) -> None:
    """Besides data and lasting, which are for all."""
    found = {name for name, row in remedies().items() if row["cures"] != "any" and cures(row, mechanism)}
    assert found == OTHERS[mechanism]


def test_no_mechanism_is_left_without_a_step() -> None:
    """Every mechanism has a remedy of its own on some host, if only where to look."""
    for mechanism in mechanisms():
        known = [name for name, row in remedies().items() if row["cures"] != "any" and cures(row, mechanism)]
        hosts = [HostView(p) for p in ("el6.2", "el7", "debian13")]
        assert any(advice(known, mechanism, host)[:1] for host in hosts), mechanism
        assert known, mechanism


def test_the_order_of_remedies() -> None:
    """As numbers and as printed."""
    places = [remedies()[name]["order"] for name in ORDER]
    assert places == sorted(places)
    items = advice([*ORDER[::-1]], "fault-compaction", HostView("el9"))
    printed = [item["id"] for item in items]
    assert printed == sorted(printed, key=ORDER.index)


@pytest.mark.parametrize("mechanism", [*mechanisms()])
def test_no_cure_is_measured_by_kernel_time_alone(mechanism: str) -> None:
    """Programs that allocate all the time keep the kernel busy after the cure too: counters, stacks or work decide."""
    for row in verifications(mechanism):
        text = f"{row['metric']} {row['expect']}"
        if re.search(r"kernel's share|kernel time|\bsys\b|system time", text):
            assert re.search(r"compact_stall|thp_|samples|work|counter", row["metric"]), row


@pytest.mark.parametrize("app", [app.name for app in applications() if app.stance == "keep"])
def test_nobody_who_wants_huge_pages_is_told_to_disable_them(app: str) -> None:
    """Whatever the mechanism and the rule."""
    for mechanism in mechanisms():
        for item in advice([*remedies()], mechanism, HostView("el8", apps=(app,))):
            told = [*item["now"], *item["persist"]]
            assert not [c for c in told if re.search(r"never > \S*/enabled|transparent_hugepages?=never", c)], mechanism


def test_the_price_of_switching_off_is_told() -> None:
    """In the words of the remedy, on every platform."""
    for platform in ("el6.2", "el9", "debian13"):
        (item,) = advice(["thp-never"], "huge-page-zeroing", HostView(platform))
        assert re.search("TLB.*twice as long.*virtual machines", item["cost"])


def test_a_host_whose_programs_ask_is_not_told_to_limit_stalls_to_them() -> None:
    """defrag=madvise leaves just those stalling who ask."""
    asking = HostView("el8", apps=("clickhouse",))
    assert [i["id"] for i in advice(["defrag-madvise"], "fault-compaction", asking)] == ["collect-more"]
    assert [i["id"] for i in advice(["defrag-madvise"], "fault-compaction", HostView("el8"))] == ["defrag-madvise"]


@pytest.mark.parametrize("mechanism", ["allocation-knee", "fault-compaction", "thp-direct-reclaim"])
def test_memory_that_asks_is_not_told_to_limit_stalls_to_itself(mechanism: str) -> None:
    """VmFlags of smaps tell it where no application is known for it: `never` stops its stalls, madvise does not."""
    wanted = ["defrag-madvise", "defrag-never", "thp-madvise"]
    assert [i["id"] for i in advice(wanted, mechanism, HostView("el8", asks=True))] == ["defrag-never"]
    assert [i["id"] for i in advice(wanted, mechanism, HostView("el8"))] == wanted


def test_where_only_who_asks_gets_huge_pages_stalls_are_not_limited_to_who_asks() -> None:
    """With enabled=madvise the stalls are those of programs that ask, whatever their names are."""
    settings = {"thp.enabled": "madvise", "thp.defrag": "always"}
    wanted = ["defrag-madvise", "defrag-never"]
    for mechanism in ("allocation-knee", "compaction-lock-convoy"):
        assert [i["id"] for i in advice(wanted, mechanism, HostView("el8", settings=settings))] == ["defrag-never"]
        everybody = HostView("el8", settings={**settings, "thp.enabled": "always"})
        assert [i["id"] for i in advice(wanted, mechanism, everybody)] == wanted


@pytest.mark.parametrize(("kib", "asks"), [(4 << 20, True), (512, False)])
def test_much_memory_asks_and_a_little_does_not(kib: int, asks: bool) -> None:
    """A process with half a MiB that asked is not what stalls the host."""
    look = Sample("process", {"process_asked_huge_bytes": kib * 1024.0}, Citation("smaps", 1), "smaps")
    state = State("all", {}, 0, samples=(look,))
    assert host_view(Case("demo", (), (state,)), state).asks is asks


def test_who_asks_for_huge_pages_is_named_before_they_are_taken_away() -> None:
    """Where the makers say madvise, `never` takes huge pages from the application itself, and the cost says so."""
    hana = HostView("sles15", apps=("sap-hana",), os="15.5")
    asked, never = advice(["thp-madvise", "thp-never"], "huge-page-zeroing", hana)
    assert "sap-hana" not in asked["cost"]
    assert "sap-hana asks for huge pages itself and loses them" in never["cost"]
    older = HostView("sles15", apps=("sap-hana",), os="15.3")
    (never,) = advice(["thp-never"], "huge-page-zeroing", older)
    assert "The vendor of sap-hana also advises it." in never["reason"]
    assert "loses" not in never["cost"].replace("lose a tenth", "")


@pytest.mark.parametrize(
    ("app", "mechanism", "word"),
    [
        ("redis", "fork-cow", "disable-thp yes"), ("go", "madvise-region-stalls", "1.21.1"),
        ("mariadb", "first-touch-bloat", "MDEV-33279"), ("mimalloc", "madvise-region-stalls", "MIMALLOC_ALLOW_THP=0"),
        ("jemalloc", "purge-fight", "MALLOC_CONF=thp:never"), ("jvm-thp", "first-touch-bloat", "JDK-8312182"),
        ("cassandra", "fault-compaction", "AlwaysPreTouch"), ("jvm", "huge-page-zeroing", "AlwaysPreTouch"),
        ("", "purge-fight", "MALLOC_CONF"),
    ],
)  # fmt: skip
def test_the_own_switches_of_applications(app: str, mechanism: str, word: str) -> None:
    """What to set, how to take it back, and what must be restarted."""
    host = HostView("debian12", apps=(app,) if app else ())
    (item,) = advice(["application-switch"], mechanism, host)
    assert word in " ".join(item["persist"])
    assert item["undo"]
    assert item["restart"] not in ("", "none")


@pytest.mark.parametrize(("platform", "note"), [("sles12", 2205917), ("sles15", 2684254), ("sles16", 3577842)])
def test_saptune_has_the_last_word_on_its_hosts(platform: str, note: int) -> None:
    """By the note of the release, and only where HANA runs."""
    ids = ["apply-correctly", "saptune-note"]
    first, then = advice(ids, "setting-overridden", HostView(platform, apps=("sap-hana",), bootline="madvise"))
    assert (first["id"], then["id"]) == ("saptune-note", "apply-correctly")
    assert f"saptune note apply {note}" in first["persist"][-1]
    assert "THP=madvise" in first["persist"][0]
    assert [i["id"] for i in advice(ids, "setting-overridden", HostView(platform))] == ["apply-correctly"]
