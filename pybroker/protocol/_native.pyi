"""The codec in C: `plan.py` describes a message to it, `compiler.py` chooses between it and generated code."""

from collections.abc import Sequence

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
