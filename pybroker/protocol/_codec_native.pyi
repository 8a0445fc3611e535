"""The codec in C: `plan.py` describes a message to it, `compiler.py` chooses between it and generated code."""

from collections.abc import Sequence

from pybroker.protocol.codec import RequestHeader
from pybroker.protocol.parts import Part
from pybroker.protocol.plan import Step

class Plan:
    """One class in one version: fields that it has, that decoding sets to defaults, that are tagged, that must not be lost."""

    def __init__(
        self,
        cls: type,
        version: int,
        is_flexible: bool,
        is_exact: bool,
        regular: Sequence[Step],
        preset: Sequence[Step],
        tagged: Sequence[Step],
        absent: Sequence[Step],
    ) -> None: ...
    def decode(self, buffer: memoryview, offset: int) -> object:
        """A message from the bytes from `offset` on. Raises DecodeError, IndexError and UnicodeDecodeError for damage."""

    def encode(self, message: object, head: bytes | None) -> list[Part]:
        """The parts of the body alone, or, with a `head`, of size, head and body; the first is bytes.

        Raises EncodeError, AttributeError, OverflowError, TypeError and UnicodeEncodeError for what does not fit.
        """

def usual_request_header(
    frame: memoryview, layouts: bytes, header_class: type[RequestHeader]
) -> tuple[RequestHeader, int] | None:
    """The header of a request, and where its body begins; None where `decode_request_header` has to look closer.

    `layouts` has a byte for each key and each of 64 versions: 0 not spoken, 1 a header of version 1, 2 one of version 2.
    """
