"""The numpy arrays that decoding plans with, by what they hold; what the network computes with are torch's tensors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
