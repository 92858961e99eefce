"""Passkeys by the rules of WebAuthn, level 3: options for browsers, signed challenges, and the check of what authenticators answer (no SQL).

Passkeys are discoverable (a person needn't type an address) and verify the person (by PIN, finger or face). Attestation isn't asked for.
Challenges are signed instead of stored, so that strangers write nothing; a used one is stored until it expires.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import webauthn
from webauthn.helpers import (
    base64url_to_bytes,
    bytes_to_base64url,
    options_to_json_dict,
    parse_client_data_json,
)
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from sublet.accounts.model import User
from sublet.sign_in.model import Passkey, Site

T = TypeVar("T")
SIGN_IN_CHALLENGE = "sign-in"
VALID_FOR = timedelta(minutes=5)
_NONCE_BYTES, _INSTANT_BYTES, _SIGNATURE_BYTES = 16, 8, 32
_TRANSPORTS = frozenset(each.value for each in AuthenticatorTransport)


class PasskeyRefused(Exception):  # noqa: N818 - the verb refuses it
    """An authenticator's answer is malformed or wrong."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge of ours: its bytes, its signature (hex), by which it is used once, and when it expires."""

    content: bytes
    signature: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class NewPasskey:
    """What a registration gives: credential id and public key in base64url, the count of uses, the transports."""

    credential_id: str
    public_key: str
    sign_count: int
    transports: list[str]


def registration_purpose(session_id: int) -> str:
    """Return the purpose of a challenge for a registration: only the session that asked for it can use it."""
    return f"registration:{session_id}"


def user_handle(user_id: int) -> bytes:
    """Return what authenticators store for a user."""
    return str(user_id).encode("ascii")


def new_challenge(key: str, purpose: str, now: datetime) -> bytes:
    """Return a new challenge for a purpose: random bytes, when it expires, and a signature of both."""
    ends = int((now + VALID_FOR).timestamp())
    content = secrets.token_bytes(_NONCE_BYTES) + ends.to_bytes(_INSTANT_BYTES, "big")
    return content + _sign(key, purpose, content)


def _sign(key: str, purpose: str, content: bytes) -> bytes:
    return hmac.digest(bytes.fromhex(key), f"passkey:{purpose}:".encode() + content, hashlib.sha256)


def check_challenge(key: str, credential: Mapping[str, Any], purpose: str, now: datetime) -> Challenge:
    """Return the challenge that an authenticator's answer is for. Not checked: whether it was used before.

    Raises:
        PasskeyRefused: the answer is malformed; the challenge isn't ours, is for another purpose, or has expired.
    """
    sent = _reading(lambda: parse_client_data_json(_bytes_of(credential, "clientDataJSON")).challenge)
    content, signature = sent[:-_SIGNATURE_BYTES], sent[-_SIGNATURE_BYTES:]
    is_ours = len(content) == _NONCE_BYTES + _INSTANT_BYTES and hmac.compare_digest(
        signature, _sign(key, purpose, content)
    )
    if not is_ours:
        raise PasskeyRefused
    expires_at = datetime.fromtimestamp(int.from_bytes(content[_NONCE_BYTES:], "big"), UTC)
    if expires_at <= now:
        raise PasskeyRefused
    return Challenge(sent, signature.hex(), expires_at)


def use_options(site: Site, challenge: bytes) -> dict[str, Any]:
    """Return the options of `navigator.credentials.get`, as JSON. They name no passkeys, so they are the same for every user."""
    options = webauthn.generate_authentication_options(
        rp_id=site.host, challenge=challenge, user_verification=UserVerificationRequirement.REQUIRED
    )
    return options_to_json_dict(options)


def registration_options(
    site: Site, user: User, passkeys: Sequence[Passkey], challenge: bytes
) -> dict[str, Any]:
    """Return the options of `navigator.credentials.create`, as JSON. Authenticators that have one of the user's passkeys are left out."""
    options = webauthn.generate_registration_options(
        rp_id=site.host,
        rp_name=site.host,
        user_id=user_handle(user.id),
        user_name=user.email,
        user_display_name=user.name,
        challenge=challenge,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[
            PublicKeyCredentialDescriptor(
                id=base64url_to_bytes(each.credential_id),
                transports=[AuthenticatorTransport(name) for name in each.transports],
            )
            for each in passkeys
        ],
    )
    return options_to_json_dict(options)


def verify_registration(credential: Mapping[str, Any], site: Site, challenge: Challenge) -> NewPasskey:
    """Return the new passkey in an authenticator's answer.

    Raises:
        PasskeyRefused: it is malformed, or for another challenge, origin or host, or the person was not verified.
    """
    done = _reading(
        lambda: webauthn.verify_registration_response(
            credential=dict(credential),
            expected_challenge=challenge.content,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    )
    sent = credential["response"].get("transports")
    return NewPasskey(
        bytes_to_base64url(done.credential_id),
        bytes_to_base64url(done.credential_public_key),
        done.sign_count,
        sorted(_TRANSPORTS.intersection(each for each in sent if isinstance(each, str)))
        if isinstance(sent, list)
        else [],
    )


def credential_id_of(credential: Mapping[str, Any]) -> str:
    """Return the credential id in an authenticator's answer, in base64url as stored.

    Raises:
        PasskeyRefused: there is none.
    """
    return _reading(lambda: bytes_to_base64url(base64url_to_bytes(credential["rawId"])))


def verify_use(
    credential: Mapping[str, Any], passkey: Passkey, handle: bytes, site: Site, challenge: Challenge
) -> int:
    """Return how many uses the authenticator of a passkey has counted, after a check of its answer.

    Raises:
        PasskeyRefused: it is malformed, or of another user, challenge, origin or host; the person was not verified; the signature is wrong;
            or the count has not grown.
    """
    if _reading(lambda: _bytes_of(credential, "userHandle")) != handle:
        raise PasskeyRefused
    done = _reading(
        lambda: webauthn.verify_authentication_response(
            credential=dict(credential),
            expected_challenge=challenge.content,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            credential_public_key=base64url_to_bytes(passkey.public_key),
            credential_current_sign_count=passkey.sign_count,
            require_user_verification=True,
        )
    )
    return done.new_sign_count


def _bytes_of(credential: Mapping[str, Any], name: str) -> bytes:
    return base64url_to_bytes(credential["response"][name])


def _reading(read: Callable[[], T]) -> T:
    try:
        return read()
    except Exception as error:  # the library also raises what its parsers of JSON, CBOR and keys do
        raise PasskeyRefused from error
