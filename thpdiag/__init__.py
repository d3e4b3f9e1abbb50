"""thpdiag: diagnoses whether transparent huge pages slow down a Linux host, with evidence and remedies."""

__version__ = "0.1.0"
