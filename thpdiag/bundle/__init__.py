"""Reads bundles: directories, archives, compressed files and streams, without unpacking anything to disk."""

from thpdiag.bundle.limits import Limits
from thpdiag.bundle.member import Member
from thpdiag.bundle.open import members

__all__ = ["Limits", "Member", "members"]
