"""Forms: their fields, the token that binds a form to a session, and the idempotency key."""

import asyncio
import hmac
from secrets import token_hex
from urllib.parse import parse_qsl, unquote_to_bytes
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request

from sublet.errors import InvalidRequest, PayloadTooLarge
from sublet.http.read_body import BODY_MAX_BYTES, BODY_TIMEOUT_SECONDS
from sublet.secret import Secret

FORM_TYPE = "application/x-www-form-urlencoded"
TOKEN_FIELD, KEY_FIELD, USER_FIELD = "form_token", "idempotency_key", "form_user"
FIELDS_MAX = 200


class Form(dict[str, str]):
    """The fields of a form, stripped of blanks.

    Of several fields with the same name it has the last; `lists` has all.
    """

    def __init__(self, pairs: list[tuple[str, str]] = ()) -> None:  # type: ignore[assignment] # the default is never changed
        super().__init__(pairs)
        self.lists: dict[str, list[str]] = {}
        for name, value in pairs:
            self.lists.setdefault(name, []).append(value)

    def text(self, name: str) -> str | None:
        """Return the text of a field; None if the field is empty or missing."""
        return self.get(name) or None

    def lines(self, name: str) -> list[str]:
        """Return the lines of a field that aren't empty."""
        return [line for each in self.get(name, "").splitlines() if (line := each.strip())]

    def number(self, name: str) -> int | str | None:
        """Return the number in a field; None if the field is empty or missing.

        Other text is returned unchanged, and the API refuses it.
        """
        text = self.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else text or None

    def is_on(self, name: str) -> bool:
        """True if a checkbox is ticked."""
        return bool(self.get(name))


async def read_form(request: Request) -> Form:
    """Return the fields of a form.

    Raises, in this order:
        InvalidRequest: the body isn't sent as a form, or doesn't arrive in time.
        PayloadTooLarge: the body has more than 64 KiB before the browser percent-encodes it.
        InvalidRequest: `parse_form` refuses the body.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise InvalidRequest("This isn't a form of a page. Open the page again, and fill it in there.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > 3 * BODY_MAX_BYTES:  # percent-encoding makes a text up to three times as long
                    break
    except (TimeoutError, ClientDisconnect):
        raise InvalidRequest("The form did not arrive in time. Try again.") from None
    if len(unquote_to_bytes(bytes(body))) > BODY_MAX_BYTES:
        raise PayloadTooLarge(
            f"The form is too long. Its text may have {BODY_MAX_BYTES} bytes. Go back, and shorten it.",
            details={"limit_bytes": BODY_MAX_BYTES},
        )
    return parse_form(bytes(body))


def parse_form(body: bytes) -> Form:
    """Return the fields of a form in the encoding of browsers.

    Raises:
        InvalidRequest: the body isn't percent-encoded UTF-8, or has a NUL or too many fields.
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX
        )
    except ValueError:
        raise InvalidRequest("The form can't be read. Open the page again, and fill it in there.") from None
    if any("\x00" in name or "\x00" in value for name, value in pairs):
        raise InvalidRequest("The form contains a NUL character. Remove it.")
    return Form([(name, value.replace("\r\n", "\n").strip()) for name, value in pairs])


def form_token(session_secret: Secret, salt: str = "") -> str:
    """Return a token for the forms of a session. Pages of other sites can't know it.

    By default its salt is random, so that the lengths of compressed pages don't reveal it (BREACH).
    """
    salt = salt or token_hex(8)
    return (
        f"{salt}.{hmac.new(session_secret.reveal().encode(), f'form {salt}'.encode(), 'sha256').hexdigest()}"
    )


def is_form_token(text: str, session_secret: Secret) -> bool:
    """True if a text is a token of this session. The comparison takes constant time."""
    salt = text.partition(".")[0]
    return hmac.compare_digest(text.encode(), form_token(session_secret, salt).encode())


def new_key() -> str:
    """Return a new `Idempotency-Key`."""
    return str(uuid4())
