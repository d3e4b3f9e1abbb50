"""numpy on demand (its import takes 0.1 s, which runs without rows and call stacks save), and array types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Array", "Bools", "Floats", "Ints", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray as Array

    Floats = Array[np.float64]
    Ints = Array[np.int64]
    Bools = Array[np.bool_]
else:

    class _Numpy:
        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)  # later lookups bypass this function
            return value

    np = _Numpy()
    Array = Bools = Floats = Ints = None
