"""thpdiag: does the kernel's huge-page machinery hurt this Linux host, how do we know, and what to do about it."""

__version__ = "0.1.0"
