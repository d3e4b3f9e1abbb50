"""numpy on demand, which costs 0.1 s that a run without rows and call stacks does not pay; arrays by what they hold."""

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
            setattr(self, name, value)  # found without this function from then on
            return value

    np = _Numpy()
    Array = Bools = Floats = Ints = None
