"""Function names and what they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_functions import families as compaction_functions
from thpdiag.knowledge.symbols import families, families_of, is_idle, is_unresolved, normalise


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("__alloc_pages_slowpath.constprop.0+0x1a/0x2b", "__alloc_pages_slowpath"),
        ("compact_unlock_should_abort.isra.31", "compact_unlock_should_abort"),
        ("isolate_migratepages_block.cold", "isolate_migratepages_block"),
        ("khugepaged_scan_mm_slot.constprop.0.isra.4", "khugepaged_scan_mm_slot"),
        ("compaction_alloc_noprof", "compaction_alloc"),
        ("__alloc_pages_slowpath.constprop.0.isra.0.cold", "__alloc_pages_slowpath"),
        ("native_queued_spin_lock_slowpath.part.0.cold.12", "native_queued_spin_lock_slowpath"),
        ("isolate_lru_pages.clone.0+0xd7/0x170", "isolate_lru_pages"),
        ("compact_zone.llvm.14089cf7f8eab1de", "compact_zone"),
        ("compact_zone.__uniq.245181933781456475607640333933569312899.llvm.2845697060370838518", "compact_zone"),
        ("_Py_Dealloc.localalias.lto_priv.0", "_Py_Dealloc"),
        ("alloc_pages_noprof.part.3", "alloc_pages"),
        (".compact_zone+0x20", "compact_zone"),
        ("__pi_clear_page", "clear_page"),
        (".Lcopy_loop", ".Lcopy_loop"),
        ("main.func1", "main.func1"),
        ("pkg.add", "pkg.add"),
        ("__pi_", "__pi_"),
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
        ("do_huge_zero_wp_pmd", "thp_fault"),
        ("khugepaged_do_scan", "khugepaged"),
        ("khugepaged_alloc_page", "khugepaged"),
        ("flush_tlb_multi", "tlb_flush"),
        ("folio_zero_user", "zeroing"),
        ("clear_subpage", "zeroing"),
        ("__clear_pages_unrolled", "zeroing"),
        ("shrink_mem_cgroup_zone", "reclaim"),
        ("folio_split", "split"),
        ("folio_mc_copy", "migrate"),
        ("folio_alloc_mpol", "page_alloc"),
        ("compact_zone", "compaction_alone"),
        ("fast_isolate_freepages", "compaction"),
        ("split_map_pages", "compaction"),
        ("release_freepages", "compaction"),
        ("suitable_migration_target", "compaction"),
        ("__reset_isolation_pfn", "compaction_alone"),
        ("__pageblock_pfn_to_page", "compaction_helpers"),
        ("get_pfnblock_bit", "compaction_helpers"),
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
        ("isolate_migratepages_block", "compaction_alone"),
        ("isolate_freepages_block", "compaction_alone"),
        ("get_pfnblock_flags_mask", "compaction"),
        ("isolate_lru_page", "compaction"),
        ("migrate_pages", "compaction"),
        ("_raw_spin_unlock_irq", "spin_lock"),
        ("_raw_spin_trylock", "spin_lock"),
        ("__pv_queued_spin_unlock_slowpath", "spin_lock"),
        ("osq_lock", "mmap_lock"),
        ("khugepaged_enter_vma", "khugepaged"),
        ("khugepaged_exit", "khugepaged"),
        ("khugepaged_min_free_kbytes_update", "khugepaged"),
        ("folio_alloc_swap", "page_alloc"),
        ("folio_alloc_buffers", "page_alloc"),
        ("folio_split_memcg_refs", "split"),
        ("clear_vma_resv_huge_pages", "zeroing"),
        ("___migrate_enable", "migrate"),
        ("flush_tlb_all", "tlb_flush"),
    ],
)
def test_neighbours_do_not_belong(name: str, family: str) -> None:
    """Names that only look alike are not taken in."""
    assert not families()[family].matches(name)


@pytest.mark.parametrize(
    "name",
    [
        *("_spin_lock", "_spin_lock_irq", "_spin_lock_irqsave", "_spin_lock_bh", "__ticket_spin_lock"),  # 2.6.32
        *("_raw_spin_lock", "_raw_spin_lock_irq", "_raw_spin_lock_irqsave", "_raw_spin_lock_irqsave_nested"),  # 2.6.33
        *("native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath", "do_raw_spin_lock"),  # 4.2
        *("__pv_queued_spin_lock_slowpath", "pv_wait_head_or_lock", "kvm_wait", "xen_qlock_wait", "hv_qlock_wait"),
        *("kvm_lock_spinning", "xen_lock_spinning", "xen_spin_lock_slow", "__spin_yield", "arch_spin_lock_wait"),
    ],
)
def test_spin_locks_of_all_kernels_are_known(name: str) -> None:
    """From 2.6.32 on, on hardware and in virtual machines, however the compiler cut them."""
    assert families_of(name) == families_of(normalise(f"{name}.part.0")) == ("spin_lock",)


@pytest.mark.parametrize(("name", "nameless"), [("$x", True), ("$d.12", True), ("$x_of_mine", False), ("$", False)])
def test_marks_of_arm_code_are_no_names(name: str, nameless: bool) -> None:
    """They stand where code begins; the function is unknown."""
    assert is_unresolved(name) is nameless


@given(
    st.sampled_from(["compact_zone", "__alloc_pages", "do_fault"]),
    st.lists(st.sampled_from([".isra.0", ".constprop.12", ".part.3", ".cold", ".cold.7", ".clone.1", ".localalias",
                              ".lto_priv.0", ".llvm.1f", "_noprof", "+0x1/0x2"]), max_size=5),
)  # fmt: skip
def test_additions_are_taken_off_in_any_order(name: str, additions: list[str]) -> None:
    """Compilers stack them; the name stays."""
    assert normalise(name + "".join(additions)) == name


def test_every_family_says_what_and_from_where() -> None:
    """Knowledge without a source is not knowledge."""
    assert [
        f.name
        for f in families().values()
        if not (f.means and f.source and (f.symbols.exact or f.symbols.beginnings or f.symbols.endings))
    ] == []


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


SCANNER = """
/* compact_zone(): a comment is no call */
static struct page *compaction_alloc(struct page *page) { return take_block(page); }
static void take_block(struct page *page)
{
    if (get_pageblock_skip(page))
        return;
}
static void isolate_block(struct page *page) { get_flags_of_pageblock(page); }
void isolate_range(struct page *page) { isolate_block(page); }
void compact_zone(struct zone *zone) { isolate_block(0); migrate_pages(compaction_alloc); }
void compact_nodes(void) { compact_zone(0); }
"""
OTHERS = """
unsigned get_flags_of_pageblock(struct page *page) { return 0; }
void alloc_contig_range(void) { isolate_range(0); ops->take_block(0); }
void free_pages(struct page *page) { get_pageblock_skip(page); }
"""


def test_a_program_reads_from_kernel_sources_which_functions_only_compaction_has(tmp_path: Path) -> None:
    """What is handed on as a pointer is called; macros and functions of headers are part of their callers."""
    for name, text in {
        "mm/compaction.c": SCANNER,
        "mm/page_alloc.c": OTHERS,
        "include/linux/flags.h": "#define get_pageblock_skip(page) \\\n\tget_flags_of_pageblock(page)\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert compaction_functions(tmp_path) == {
        "alone": {"compact_zone", "compaction_alloc", "take_block"},
        "contiguous": {"isolate_block", "isolate_range"},
        "helpers": {"get_flags_of_pageblock"},
        "entries": {"compact_nodes"},
    }
