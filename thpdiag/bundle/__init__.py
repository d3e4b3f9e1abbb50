"""Opens what a customer sent: directories, archives, compressed files, streams; nothing is ever unpacked to disk."""

from thpdiag.bundle.limits import Limits
from thpdiag.bundle.member import Member
from thpdiag.bundle.open import members

__all__ = ["Limits", "Member", "members"]
