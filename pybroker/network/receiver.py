"""The receiving half of a connection: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_receiver_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.network import _receiver_python
from pybroker.network._receiver_python import SCRATCH_BYTES, MemoryListener, Receiver, new_scratch
from pybroker.network.sizes import PREFIX

__all__ = ["IS_NATIVE", "PREFIX", "SCRATCH_BYTES", "MemoryListener", "Receiver", "new_scratch"]

IS_NATIVE: Final = choose(_receiver_python, globals())
