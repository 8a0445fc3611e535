"""The keys that verify the tokens of clients, read again and again from a file or from a URL.

Threads read them, and never the loop. Until they are read again, the keys of before hold, and so do those that the issuer
has taken back. A token whose key is unknown has the keys read again, but not within `AGAIN_S` of the last time.

Source: RefreshingHttpsJwks.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pybroker.config.setting import ConfigError
from pybroker.long_work import LongWork
from pybroker.security.sasl.key_set import KEY_SET_BYTES_MAX, KeySet, parse_key_set
from pybroker.security.tls.contexts import client_context
from pybroker.security.tls.settings import settings_of_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.security.sasl.oauthbearer_settings import KeysAt

logger = logging.getLogger(__name__)

AGAIN_S: Final = 5.0
TIMEOUT_S: Final = 5.0
"""The time for a connection to the URL, and for each part of the response."""
WHOLE_S: Final = 10.0
"""The time for the whole response."""
_PART_BYTES: Final = 65_536
_WAIT_S_MAX: Final = 24 * 3_600.0  # beyond this an event loop's timer may overflow


class BearerKeys:
    """The keys of one listener. Belongs to the loop."""

    __slots__ = ("_at", "_is_wanted", "_keys", "_read", "_task", "_work")

    def __init__(self, at: KeysAt) -> None:
        """Do nothing yet. Raises ConfigError for settings of TLS that cannot be used."""
        self._at = at
        self._keys = KeySet(())
        self._read: Callable[[], KeySet] = partial(_of_file, at.path) if at.path else partial(_of_url, at.url, _opener(at))
        self._is_wanted = asyncio.Event()
        self._work = LongWork("bearer-keys", 1)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the keys for the first time, and keep them up to date from then on. Raises ConfigError for a file without keys."""
        failures = 0
        if self._at.path:
            try:
                self._keys = await self._work.run(self._read)
            except (OSError, ValueError) as error:
                raise ConfigError(self._at.key, self._at.url, _reason(error)) from error
        else:
            failures = int(not await self._try(is_first_failure=True))
        self._task = asyncio.create_task(self._keep(failures))

    def close(self) -> None:
        """Stop. A thread that still reads ends by itself."""
        if self._task is not None:
            self._task.cancel()

    def find(self, algorithm: str, key_id: str | None) -> Any:
        """Return the key for an algorithm, of an id if there is one; None, and read the keys again, if there is no such key."""
        key = self._keys.find(algorithm, key_id)
        if key is None:
            self._is_wanted.set()
        return key

    async def _keep(self, failures: int) -> None:
        """Read the keys again at each interval, and earlier if a token needs another one."""
        at = self._at
        while True:
            if failures:
                await asyncio.sleep(min(at.backoff_ms * 2 ** min(failures - 1, 30), at.backoff_ms_max) / 1000)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._is_wanted.wait(), min(at.refresh_ms / 1000, _WAIT_S_MAX))
            self._is_wanted.clear()
            failures = 0 if await self._try(is_first_failure=not failures) else failures + 1
            if not failures:
                await asyncio.sleep(min(AGAIN_S, at.refresh_ms / 1000))

    async def _try(self, *, is_first_failure: bool) -> bool:
        """Read the keys, and return whether that was possible. Of failures in a row, only the first has a line in the log."""
        try:
            self._keys = await self._work.run(self._read)
        except (OSError, ValueError, http.client.HTTPException) as error:
            if is_first_failure:
                kept = f"the {len(self._keys)} keys of before hold" if len(self._keys) else "no token is valid"
                logger.warning("The keys for tokens at %s: %s; %s until a later try succeeds", self._at.url, _reason(error), kept)
            return False
        if not is_first_failure:
            logger.info("The keys for tokens at %s could be read again", self._at.url)
        return True


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirections as Java does, which are never from HTTPS to HTTP."""

    def redirect_request(self, req: urllib.request.Request, *rest: Any) -> urllib.request.Request | None:
        """Return the next request; None if there is none."""
        following = super().redirect_request(req, *rest)
        return following if following is not None and following.type == req.type else None


def _of_file(path: str) -> KeySet:
    with Path(path).open("rb") as file:
        return _parsed(file.read(KEY_SET_BYTES_MAX + 1))


def _opener(at: KeysAt) -> urllib.request.OpenerDirector:
    """Return what opens a URL, with the TLS of the options. Raises ConfigError."""
    context = client_context(settings_of_client(at.options)) if at.url.startswith("https:") else None
    return urllib.request.build_opener(_SameScheme, urllib.request.HTTPSHandler(context=context))


def _of_url(url: str, opener: urllib.request.OpenerDirector) -> KeySet:
    """Return the keys at a URL. Blocks; raises OSError, ValueError and HTTPException."""
    ends_s = time.monotonic() + WHOLE_S
    document = b""
    try:
        opened = opener.open(url, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        raise ValueError(f"the response has status {error.code}") from None
    with opened as response:
        while len(document) <= KEY_SET_BYTES_MAX and (part := response.read1(_PART_BYTES)):
            document += part
            if time.monotonic() > ends_s:
                raise TimeoutError(f"takes more than {WHOLE_S:.0f} s")
    return _parsed(document)


def _parsed(document: bytes) -> KeySet:
    if len(document) > KEY_SET_BYTES_MAX:
        raise ValueError(f"has more than {KEY_SET_BYTES_MAX} bytes")
    return parse_key_set(document)


def _reason(error: Exception) -> str:
    """Return what is wrong, without a part of what the other side has sent."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, http.client.HTTPException):
        return "the response is not one of HTTP"
    return f"cannot be read: {getattr(cause, 'strerror', None) or cause}" if isinstance(cause, OSError) else str(cause)
