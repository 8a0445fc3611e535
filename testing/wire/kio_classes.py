"""A map from our messages to the classes of kio, an independent library, that declare the same message."""

from __future__ import annotations

import importlib
import re
from typing import Any

from kio.schema.index import schema_name_map


def kio_class(cls: type, version: int) -> Any:
    """Return kio's class of that name, or None."""
    names = schema_name_map.get(re.sub(r"(?<!^)(?=[A-Z])", "_", re.sub(r"(Request|Response)$", "", cls.__name__)).lower(), {})
    for where in names.get(version, {}).values():
        module, name = where.split(":")
        if name == cls.__name__:
            return getattr(importlib.import_module(module), name)
    return None
