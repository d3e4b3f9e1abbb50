"""Function names and what they stand for."""

from __future__ import annotations

import pytest

from thpdiag.knowledge.symbols import families, families_of, is_idle, normalise


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("__alloc_pages_slowpath.constprop.0+0x1a/0x2b", "__alloc_pages_slowpath"),
        ("compact_unlock_should_abort.isra.31", "compact_unlock_should_abort"),
        ("isolate_migratepages_block.cold", "isolate_migratepages_block"),
        ("khugepaged_scan_mm_slot.constprop.0.isra.4", "khugepaged_scan_mm_slot"),
        ("compaction_alloc_noprof", "compaction_alloc"),
        ("_raw_spin_lock_irqsave_[k]", "_raw_spin_lock_irqsave"),
        ("__pfx_compact_zone", "compact_zone"),
        ("? compact_zone+0x10/0x300", "compact_zone"),
        ("[k] compact_zone", "compact_zone"),
        ("clear_page_erms [kernel.kallsyms]", "clear_page_erms"),
        ("main (inlined)", "main"),
        ("[unknown]", "[unknown]"),
        ("operator new(unsigned long)", "operator new(unsigned long)"),
    ],
)
def test_names_lose_what_the_compiler_added(printed: str, name: str) -> None:
    """Offsets, suffixes, marks of the place and of unreliable frames are no part of a name."""
    assert normalise(printed) == name


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("_spin_lock_irq", "spin_lock"),
        ("__pv_queued_spin_lock_slowpath", "spin_lock"),
        ("compact_zone", "compaction"),
        ("isolate_migratepages_range", "compaction"),
        ("do_huge_pmd_anonymous_page", "thp_fault"),
        ("hpage_collapse_scan_pmd", "khugepaged"),
        ("proactive_compact_node", "kcompactd"),
        ("try_to_migrate_one", "migrate"),
        ("flush_tlb_func_remote", "tlb_flush"),
        ("clear_page_c_e", "zeroing"),
        ("shrink_inactive_list", "reclaim"),
        ("try_charge_memcg", "memcg"),
        ("sysctl_compaction_handler", "operator_compaction"),
        ("page_cache_ra_order", "other_allocators"),
        ("ParallelTaskTerminator::offer_termination(TerminatorTerminator*)", "gc_user"),
        ("rwsem_down_write_slowpath", "mmap_lock"),
        ("arc_get_data_buf", "zfs"),
        ("zone_reclaim", "zone_reclaim"),
    ],
)
def test_functions_belong_to_their_families(name: str, family: str) -> None:
    """The anchors that rules ask for are known, exact names and families with a star."""
    assert family in families_of(name)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("_spin_unlock_irqrestore", "spin_lock"),
        ("clear_page_dirty_for_io", "zeroing"),
        ("compact_zone_stub", "compaction"),
        ("migrate_misplaced_folio", "migrate"),
        ("map_pages", "compaction"),
    ],
)
def test_neighbours_do_not_belong(name: str, family: str) -> None:
    """Names that only look alike are not taken in."""
    assert not families()[family].matches(name)


def test_every_family_says_what_and_from_where() -> None:
    """Knowledge without a source is not knowledge."""
    assert [f.name for f in families().values() if not (f.means and f.source and f.symbols.pattern != "(?!)")] == []


@pytest.mark.parametrize(
    ("name", "comm", "idle"),
    [
        ("mwait_idle_with_hints", "", True),
        ("intel_idle", "swapper", True),
        ("pv_native_safe_halt", "swapper/3", True),
        ("pv_native_safe_halt", "java", False),
        ("native_safe_halt", "", True),
        ("xen_hypercall_sched_op", "kworker/0:1", True),
        ("[unknown]", "swapper", True),
        ("[unknown]", "java", False),
        ("net_rx_action", "swapper", False),
        ("compact_zone", "java", False),
    ],
)
def test_idle_is_a_halt_in_an_idle_task(name: str, comm: str, *, idle: bool) -> None:
    """In a virtual machine tasks that wait for a lock halt as well; that is not idle."""
    assert is_idle(name, comm) is idle
