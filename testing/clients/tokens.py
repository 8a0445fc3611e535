"""An issuer of tokens for tests: its keys as a JSON Web Key Set, a server of that, and JSON Web Tokens that they sign."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Issuer:
    """One with a key of elliptic curves, which is made in no time."""

    def __init__(self, key_id: str = "first") -> None:
        self.key_id = key_id
        self.key = ec.generate_private_key(ec.SECP256R1())

    def public(self, **more: Any) -> dict[str, Any]:
        """Return the key as the key set has it."""
        return {**jwt.get_algorithm_by_name("ES256").to_jwk(self.key.public_key(), as_dict=True), "kid": self.key_id, **more}

    def document(self, *others: Issuer) -> bytes:
        """Return the key set."""
        return json.dumps({"keys": [one.public() for one in (self, *others)]}).encode()

    def token(self, user: str = "alice", /, *, lives_s: float = 600, now_s: float | None = None, **more: Any) -> str:
        """Return a token, with more claims; None takes a claim away."""
        return jwt.api_jws.encode(claims(user, lives_s, now_s, more), self.key, "ES256", headers={"kid": self.key_id})


def unsecured(user: str = "alice", /, *, lives_s: float = 600, now_s: float | None = None, **more: Any) -> str:
    """Return a token without a signature."""
    return jwt.api_jws.encode(claims(user, lives_s, now_s, more), "", "none")


def claims(user: str, lives_s: float, now_s: float | None, more: dict[str, Any]) -> bytes:
    """Return claims as JSON."""
    now_s = time.time() if now_s is None else now_s
    found = {"sub": user, "iat": now_s, "exp": now_s + lives_s, **more}
    return json.dumps({name: value for name, value in found.items() if value is not None}).encode()


Respond = Callable[[BaseHTTPRequestHandler], None]


def responding(document: bytes, status: int = 200, **headers: str) -> Respond:
    """Return what writes this response."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(document)

    return respond


class KeyServer:
    """A server of a key set over HTTP. `respond` writes its responses, and `reads` counts them."""

    def __init__(self, respond: Respond) -> None:
        self.respond, self.reads = respond, 0
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.reads += 1
                served.respond(self)

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self.server.shutdown()
        self.server.server_close()
