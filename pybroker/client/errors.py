"""The errors that can occur between a client and the server to which it has connected."""

from __future__ import annotations


class ClientError(Exception):
    """There is no response. The message is the reason in a few words.

    Attributes:
        text: the reason in a sentence that names the server.
        received: the bytes that came instead of a response; empty when none came.
    """

    def __init__(self, reason: str, text: str = "", received: bytes = b"") -> None:
        super().__init__(reason)
        self.text, self.received = text or reason, received


class ClosedError(ClientError):
    """The connection ended."""


class SilentError(ClientError):
    """No response came in time."""


class LoginError(ClientError):
    """The server does not let the client log in."""


class ProtocolError(ClientError):
    """The server does not speak Kafka's protocol, breaks it, or shares no version with this client."""


def reason_of(error: Exception) -> str:
    """Return an error in a few words."""
    return getattr(error, "strerror", None) or str(error)


def sentence_of(error: OSError) -> str:
    """Return an error of a socket in a few words that name its time limit as such."""
    return "no response in time" if isinstance(error, TimeoutError) else reason_of(error)
