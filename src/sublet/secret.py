"""Keep secrets out of logs, answers and traces: a type that hides its text, and a filter that removes secrets
from texts.
"""

import re
from hmac import compare_digest
from typing import NoReturn

HIDDEN = "[hidden]"
_TOKEN = re.compile(r"sublet_[0-9A-Za-z]{16,}")
"""A token, or a large part of a token, because a token with a typing error is still a secret."""
_BEARER = re.compile(r"(\bbearer[ :]+)[\w.~+/=-]{8,}", re.IGNORECASE)
_PASSWORD_OF_URL = re.compile(r"(://[^\s:/@]*:)[^\s/]+@")
_CODE_IN_PATH = re.compile(r"(/(?:devices|auth/+invitations)/+)[^/]+", re.IGNORECASE)
_PASSWORD_OPTION = re.compile(r"([?&](?:ssl)?password=)[^&\s'\"]+")


class Secret:
    """A text that only `reveal` returns.

    Printing, formatting or logging shows `[hidden]`, and pickling fails.

    json and msgspec can't encode it, so that a secret in an answer causes a fault. `encode_secret_for_child`
    is the explicit exception.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret must not be copied out of its process")


def encode_secret_for_child(value: object) -> str:
    """Encode a secret that is sent to a child process over a pipe (msgspec's `enc_hook`)."""
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} can't be encoded as JSON")


def restore_secret_from_parent(kind: type, value: object) -> Secret:
    """Decode a secret that `encode_secret_for_child` encoded (msgspec's `dec_hook`)."""
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise TypeError(f"{kind.__name__} can't be decoded from {type(value).__name__}")


def without_codes(path: str) -> str:
    """Return the path of a request with `[hidden]` in place of codes: of programs that request a token, and
    of invitations.
    """
    return _CODE_IN_PATH.sub(rf"\g<1>{HIDDEN}", path)


def without_secrets(text: str) -> str:
    """Return a text with `[hidden]` in place of tokens, bearer credentials and passwords in addresses."""
    # Most texts have no secrets, and searching for a few letters is faster than four regular expressions.
    if "sublet_" in text:
        text = _TOKEN.sub(HIDDEN, text)
    if "earer" in text or "EARER" in text:
        text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
    if "://" in text:
        text = _PASSWORD_OF_URL.sub(rf"\g<1>{HIDDEN}@", text)
    if "password=" in text:
        text = _PASSWORD_OPTION.sub(rf"\g<1>{HIDDEN}", text)
    return text
