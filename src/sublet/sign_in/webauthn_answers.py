"""Passkeys (WebAuthn, level 3): options for browsers, signed challenges, and checks of authenticators'
answers (no SQL).

Passkeys are discoverable (a person needn't type an address) and verify the person (by PIN, finger or face).
Attestation isn't requested. A challenge is signed instead of stored, so that strangers write nothing to the
database. Only a used challenge is stored, until it expires.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import webauthn
from msgspec import Struct
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
_CREDENTIAL_ID_BYTES_MAX = 1023  # WebAuthn, section 7.1
_TRANSPORTS = frozenset(each.value for each in AuthenticatorTransport)


class PasskeyRefused(Exception):  # noqa: N818 - verbs turn it into a refusal
    """An authenticator's answer is malformed or wrong."""


class Challenge(Struct, frozen=True):
    """A challenge of this service: its bytes, its expiry, and its signature in hex, by which the second use
    is detected.
    """

    content: bytes
    signature: str
    expires_at: datetime


class NewPasskey(Struct, frozen=True):
    """The passkey in a registration's answer: credential id and public key in base64url, the count of uses,
    the transports.
    """

    credential_id: str
    public_key: str
    sign_count: int
    transports: list[str]


def registration_purpose(session_id: int) -> str:
    """Return the purpose of a challenge with which only this session can register a passkey."""
    return f"registration:{session_id}"


def user_handle(user_id: int) -> bytes:
    """Return the user handle that authenticators store with a passkey."""
    return str(user_id).encode("ascii")


def new_challenge(key: str, purpose: str, now: datetime) -> bytes:
    """Return a new challenge for a purpose: random bytes, its expiry, and a signature of both."""
    ends = int((now + VALID_FOR).timestamp())
    content = secrets.token_bytes(_NONCE_BYTES) + ends.to_bytes(_INSTANT_BYTES, "big")
    return content + _sign(key, purpose, content)


def _sign(key: str, purpose: str, content: bytes) -> bytes:
    return hmac.digest(bytes.fromhex(key), f"passkey:{purpose}:".encode() + content, hashlib.sha256)


def check_challenge(key: str, credential: Mapping[str, Any], purpose: str, now: datetime) -> Challenge:
    """Return the challenge that an authenticator has answered.

    Not checked: that the challenge is used for the first time.

    Raises:
        PasskeyRefused: the answer is malformed; or the challenge isn't from this service, is for another
            purpose, or has expired.
    """
    sent = _refuse_if_malformed(
        lambda: parse_client_data_json(_bytes_of(credential, "clientDataJSON")).challenge
    )
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
    """Return the options of `navigator.credentials.get`, as JSON.

    The options list no passkeys, so they reveal nothing about users.
    """
    options = webauthn.generate_authentication_options(
        rp_id=site.host, challenge=challenge, user_verification=UserVerificationRequirement.REQUIRED
    )
    return options_to_json_dict(options)


def registration_options(
    site: Site, user: User, passkeys: Sequence[Passkey], challenge: bytes
) -> dict[str, Any]:
    """Return the options of `navigator.credentials.create`, as JSON.

    The options exclude authenticators that have one of the user's passkeys.
    """
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
        PasskeyRefused: the answer is malformed or for another challenge, origin or host; the person was not
            verified; or the credential id is too long.
    """
    done = _refuse_if_malformed(
        lambda: webauthn.verify_registration_response(
            credential=dict(credential),
            expected_challenge=challenge.content,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    )
    if len(done.credential_id) > _CREDENTIAL_ID_BYTES_MAX:
        raise PasskeyRefused
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
        PasskeyRefused: the answer has no credential id.
    """
    return _refuse_if_malformed(lambda: bytes_to_base64url(base64url_to_bytes(credential["rawId"])))


def verify_use(
    credential: Mapping[str, Any], passkey: Passkey, handle: bytes, site: Site, challenge: Challenge
) -> int:
    """Check an authenticator's answer to a sign-in, and return its count of uses of the passkey.

    Raises:
        PasskeyRefused: the answer is malformed or for another user, challenge, origin or host; the person was
            not verified; the signature is wrong; or the count has not grown.
    """
    if _refuse_if_malformed(lambda: _bytes_of(credential, "userHandle")) != handle:
        raise PasskeyRefused
    done = _refuse_if_malformed(
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


def _refuse_if_malformed(read: Callable[[], T]) -> T:
    try:
        return read()
    except Exception as error:  # the library also raises the exceptions of its parsers
        raise PasskeyRefused from error
