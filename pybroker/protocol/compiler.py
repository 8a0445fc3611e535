"""Makes the decoder and the encoder of a message class in one version: natively if that was built, else as generated Python.

`PYBROKER_PURE=1` in the environment forces generated Python. Neither is imported before the first message.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pybroker import native

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.protocol.parts import Part
    from pybroker.protocol.schema import Schema

IS_NATIVE: Final = native.is_wanted() and find_spec("pybroker.protocol._codec_native") is not None


def compile_decoder(schema: Schema, version: int) -> Callable[[memoryview, int], Any]:
    """`decode(buffer, position) -> message`. Raises DecodeError, struct.error, IndexError and UnicodeDecodeError for damage."""
    if IS_NATIVE:
        from pybroker.protocol.plan import make_plan  # noqa: PLC0415  (one of the two is needed)

        return make_plan(schema, version).decode
    from pybroker.protocol._codec_python import generate_decoder  # noqa: PLC0415

    return generate_decoder(schema, version)


def compile_encoder(schema: Schema, version: int) -> Callable[[object, bytes | None], list[Part]]:
    """`encode(message, head) -> parts`: the body alone for None, else size, head and body; the first part is bytes.

    Raises EncodeError, and struct.error, AttributeError, OverflowError, TypeError and UnicodeEncodeError for what does not fit.
    """
    if IS_NATIVE:
        from pybroker.protocol.plan import make_plan  # noqa: PLC0415  (one of the two is needed)

        return make_plan(schema, version).encode
    from pybroker.protocol._codec_python import generate_encoder  # noqa: PLC0415

    return generate_encoder(schema, version)
