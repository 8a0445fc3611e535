"""Touches free memory before a round, so that a virtual machine has it.

A virtual machine may give free memory back to its host. The first use of such a page then takes several times as long as a copy
into it, in the process that uses it. A broker that appends a gigabyte to the page cache would pay that, or not, by what
the machine did a minute before: on one machine, appends of 200 kB took 0.9 or 3.3 CPU-s per GB.
"""

from __future__ import annotations

import mmap


def touch(size: int) -> None:
    """Use `size` bytes of free memory, and give them back. 4 GB take a second if the machine has them, and eight if not."""
    if size:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, size, flags=flags).close()
