"""Encoded answers that can be given again: to the same question, from the same place, about the same image of the cluster.

Idea
    A Metadata answer follows from the image, from the address that the client is told, and from the bytes of the request. Many
    clients ask for the same topics, each of them every few minutes, and all of them at once when a leader has moved. So the first
    answer is kept as it was sent, and the next one differs in nothing but the correlation id: it needs no decoding, handling and
    encoding.

Bounds
    Everything is dropped with the image, and when requests and answers together exceed `MEMO_BYTES_MAX`. Large requests are not
    kept: they name topics that few others ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.metadata.image import ClusterImage
    from pybroker.network.context import ConnectionContext

MEMO_BYTES_MAX: Final = 4 << 20
QUESTION_BYTES_MAX: Final = 4096
_CORRELATION_ID_AT: Final = 4
_BODY_AT: Final = 8

Question = tuple[int, str, str, int, bytes]


class Remembered(NamedTuple):
    """An answer as it was sent, with the error codes that it says."""

    answer: bytes
    codes: Sequence[int]

    def to(self, correlation_id: int) -> bytes:
        """The answer to another request."""
        answer = self.answer
        return answer[:_CORRELATION_ID_AT] + correlation_id.to_bytes(4, signed=True) + answer[_BODY_AT:]


class AnswerMemo:
    """The answers of one API about one image."""

    __slots__ = ("_answers", "_bytes", "_image")

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._answers: dict[Question, Remembered] = {}
        self._bytes = 0

    def find(self, image: ClusterImage, question: Question) -> Remembered | None:
        """What was answered to `question` about `image`."""
        if image is not self._image:
            self._clear(image)
            return None
        return self._answers.get(question)

    def keep(self, image: ClusterImage, question: Question, remembered: Remembered) -> None:
        """Remember an answer about `image`, the one that `find` was last asked about unless it has changed since."""
        size = len(question[-1]) + len(remembered.answer)
        if image is not self._image or len(question[-1]) > QUESTION_BYTES_MAX or size > MEMO_BYTES_MAX:
            return
        if self._bytes + size > MEMO_BYTES_MAX:
            self._clear(image)
        self._answers[question] = remembered
        self._bytes += size

    def _clear(self, image: ClusterImage) -> None:
        self._image, self._answers, self._bytes = image, {}, 0


def question(connection: ConnectionContext, version: int, body: memoryview) -> Question:
    """All that an answer follows from, but for the image. `body` is borrowed."""
    return version, connection.listener_name, connection.told_host, connection.told_port, body.tobytes()
