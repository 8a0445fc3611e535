"""Files of JSON or YAML."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def document_of(path: Path) -> Any:
    """Return the content of a file, by its suffix. Raises OSError, and ValueError, which names the file and its fault."""
    text = path.read_text()
    if path.suffix not in {".yaml", ".yml"}:
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(f"{path}: it is not JSON: {error}") from error
    import yaml  # noqa: PLC0415  only files of YAML need it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: it is not YAML: {error}") from error
