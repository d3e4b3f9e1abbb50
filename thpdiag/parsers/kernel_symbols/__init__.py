"""Names of kernel functions by address: kallsyms, System.map, the symbol tables of vmlinux and modules."""
