"""What collectl's text does not say aloud: changes instead of sizes, swap under the names of memory, other tables."""

from __future__ import annotations

from table_parsing import GIB, blocks, problems, read, samples
from thpdiag.parsers.collectl._columns import size

RECORD = "### RECORD    1 >>> db1 <<< (1795168443.006) (Fri Nov 20 09:54:03 2026) ###\n\n"
CPU = (
    "# CPU SUMMARY (INTR, CTXSW & PROC /sec)\n"
    "# User  Nice   Sys  Wait   IRQ  Soft Steal Guest NiceG  Idle  CPUs  Intr  Ctxsw  Proc  RunQ   Run   Avg1  Avg5\n"
    "    74    22     3     0     0     0     0     0     0     1     2   633    10K     7   143    11   7.82  7.23\n\n"
)
MEMORY = (
    "# MEMORY SUMMARY\n"
    "#<-------Physical Memory-------->\n"
    "#   Total    Used    Free    Buff  Cached    Slab  Mapped    Anon   AnonH  Commit  Locked Inact\n"
    "   24105M   8079M  16026M 294744K   6130M 504548K  74652K   1041M  69632K   1992M  22924K 2260M\n\n"
)
SWAP = (
    "# MEMORY SUMMARY\n"
    "#<-----------Swap------------><-------Paging------>\n"
    "# Total  Used  Free   In  Out Fault MajFt   In  Out\n"
    "   1024     4  1020    0    0 14638     0    0    0\n\n"
)
DISK = (
    "# DISK SUMMARY (/sec)\n"
    "#KBRead RMerged  Reads SizeKB  KBWrite WMerged Writes SizeKB\n"
    "      0       0      0      0     3340     466     98     33\n\n"
)
BLOCKS = (
    "# MEMORY FRAGMENTATION (4K pages)\n"
    "#Node    Zone      1Pg    2Pgs    4Pgs    8Pgs   16Pgs   32Pgs   64Pgs  128Pgs  256Pgs  512Pgs 1024Pgs\n"
    "    0     DMA        0       0       0       0       0       0       0       0       1       1       3\n"
    "    0  Normal      661    2624     797     280    5596    4344    1914     539     158       0    2835\n\n"
)
NODES = (
    "# MEMORY STATISTICS \n"
    "# Node    Total     Used     Free     Slab   Mapped     Anon    AnonH   Locked    Inact HitPct\n"
    "     0   24105M    7892M   16212M  474896K   66460K    1427M  454656K   22864K    3604M 100.00\n\n"
)
FREE = "node_memory_MemFree_bytes"


def test_tables_of_others_between_ours() -> None:
    """Disks between CPU and memory: nothing is lost, and all have the time of the record."""
    found = blocks(RECORD + CPU + DISK + MEMORY + BLOCKS + NODES)
    assert {name for name, _ in found} == {"collectl_verbose"}
    records = [r for _, r in found]
    assert problems(records) == []
    rows = [s for kind in ("system", "zone", "node") for s in samples(records, kind)]
    assert len(rows) == 5
    assert {s.time.seconds for s in rows if s.time} == {1795168443.006}
    assert all(s.time for s in rows)


def test_free_blocks_of_each_zone() -> None:
    """The exact table, not the signs of the brief form."""
    zones = samples(read("collectl_verbose", BLOCKS), "zone")
    assert [dict(z.entity)["zone"] for z in zones] == ["DMA", "Normal"]
    assert zones[1].values["node_buddyinfo_blocks_order9"] == 0
    assert zones[1].values["node_buddyinfo_blocks_order10"] == 2835


def test_swap_is_not_memory() -> None:
    """--memopts V prints swap as Total, Used and Free."""
    (row,) = samples(read("collectl_verbose", SWAP))
    assert FREE not in row.values
    assert row.values["node_vmstat_pgfault:rate"] == 14638


def test_changes_are_no_sizes() -> None:
    """--memopts R prints what was added since the row before."""
    changed = MEMORY.replace("# MEMORY SUMMARY", "# MEMORY SUMMARY changes/int").replace("16026M", "-1602M")
    records = read("collectl_verbose", RECORD + CPU + changed)
    assert not [s for s in samples(records) if FREE in s.values]
    assert problems(records) == []
    brief = (
        "#<--------CPU--------><--------------Memory-------------->\n"
        "#cpu sys inter  ctxsw  Free  Buff  Cach  Inac  Slab   Map\n"
        "  99   3   633  10086   64M   47K  650K  522K   25K  -50M\n"
    )
    (row,) = samples(read("collectl_text", brief))
    assert not [name for name in row.values if name.startswith("node_memory_")]
    assert row.values["node_context_switches_total:rate"] == 10086


def test_rates_per_interval_are_not_used() -> None:
    """-on: `/int` in the title, or the command that was typed."""
    (row,) = samples(read("collectl_verbose", RECORD + CPU.replace("/sec", "/int")))
    assert not [name for name in row.values if name.endswith(":rate")]
    brief = "#<--------CPU-------->\n#cpu sys inter  ctxsw\n  99   3   633  10086\n"
    (row,) = samples(read("collectl_text", brief, command="collectl -sc -on -i5"))
    assert set(row.values) == {
        "cpu_ratio.busy",
        "cpu_ratio.sys_total_steal",
        "cpu_ratio.user_total",
        "cpu_ratio.sys_share",
    }


def test_nodes_have_their_own_names() -> None:
    """Memory of a NUMA node is not that of the host; its Inact is all of Inactive."""
    records = read("collectl_verbose", NODES)
    assert samples(records) == []
    (row,) = samples(records, "node")
    assert row.values["node_memory_numa_AnonHugePages_bytes"] == 454656 * 1024
    assert row.values["node_memory_numa_Inactive_bytes"] == 3604 * 2**20


def test_fractions_that_say_nothing() -> None:
    """-oG prints 9.93 GiB as `9.1G`: 1000 thousandths and more lose all but their first digit."""
    for text, resolution in (("9.4G", GIB / 10), ("9.1G", GIB), ("9g37", GIB / 100), ("9g10", GIB), ("15g1", GIB)):
        found = size(text)
        assert found is not None
        assert abs(found.resolution - resolution) < 1, text
