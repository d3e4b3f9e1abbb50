"""Names of kernel functions by address: lists as text, symbol tables of ELF files."""
