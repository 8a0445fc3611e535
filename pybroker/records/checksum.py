"""CRC-32C, the checksum of batches, as the package crc32c computes it.

The package imports its command line and the metadata of installed packages, too: 90 modules, a tenth of a start and 3 MB. So its
extension module is loaded without it, where there is one of the name that is known here.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE: Final = "crc32c"
EXTENSION: Final = "_crc32c"


def load() -> Callable[..., int]:
    """Return the function that adds the checksum of bytes to another checksum, which is 0 by default."""
    package = find_spec(PACKAGE)
    spec = None if package is None else PathFinder.find_spec(EXTENSION, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        module = import_module(PACKAGE)
    else:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


crc32c: Final = load()
