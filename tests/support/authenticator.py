"""An authenticator for passkeys in Python.

Each has one ES256 key, verifies its user and gives no attestation.
"""

import hashlib
import json
import secrets
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url

PRESENT, VERIFIED, HAS_KEY = 1, 4, 64


class Authenticator:
    """A passkey. `count` is its signature counter; `origin` and `host` are those of its browser."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.host = origin.partition("://")[2].partition(":")[0]
        self.count = 0
        self.flags = PRESENT | VERIFIED
        self.id = secrets.token_bytes(32)
        self.handle = b""
        self._key = ec.generate_private_key(ec.SECP256R1())

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """Answer `navigator.credentials.create`."""
        self.handle = base64url_to_bytes(options["user"]["id"])
        point = self._key.public_key().public_numbers()
        key = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
        attested = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cbor2.dumps(key)
        content = {"fmt": "none", "attStmt": {}, "authData": self._data(HAS_KEY) + attested}
        return self._answer(
            {
                "clientDataJSON": self._client_data("webauthn.create", options["challenge"]),
                "attestationObject": cbor2.dumps(content),
            },
            transports=["internal", "hybrid"],
        )

    def get(self, options: dict[str, Any]) -> dict[str, Any]:
        """Answer `navigator.credentials.get`."""
        self.count += 1
        data, client = self._data(0), self._client_data("webauthn.get", options["challenge"])
        signature = self._key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._answer(
            {
                "clientDataJSON": client,
                "authenticatorData": data,
                "signature": signature,
                "userHandle": self.handle,
            }
        )

    def _data(self, more: int) -> bytes:
        return (
            hashlib.sha256(self.host.encode()).digest()
            + bytes([self.flags | more])
            + self.count.to_bytes(4, "big")
        )

    def _client_data(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _answer(self, response: dict[str, bytes], **more: Any) -> dict[str, Any]:
        shown = {name: bytes_to_base64url(value) for name, value in response.items()}
        own = bytes_to_base64url(self.id)
        return {"id": own, "rawId": own, "type": "public-key", "response": shown | more}
