"""The type of secrets: no text form shows them; texts that look like secrets are hidden."""

import copy
import json
import logging
import pickle
from collections.abc import Callable

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from sublet.accounts.tokens.issue import is_well_formed, new_token
from sublet.config import Settings
from sublet.dns.types import TsigKey
from sublet.secret import HIDDEN, Secret, encode_secret_for_child, restore_secret_from_parent, without_secrets
from sublet.service.logs import configure_logs

CANARY = "canary-8d1f"
SECRET = Secret(CANARY)


@pytest.mark.parametrize(
    "shown",
    [
        repr(SECRET),
        str(SECRET),
        f"{SECRET}",
        f"{SECRET!r:>20}",
        "%s %r" % (SECRET, SECRET),  # noqa: UP031 - as logging formats
        repr({"key": [SECRET]}),
        repr(TsigKey("ours", "hmac-sha256", SECRET)),
    ],
)
def test_no_text_form_shows_a_secret(shown: str) -> None:
    assert CANARY not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize(
    "take", [json.dumps, msgspec.json.encode, msgspec.to_builtins, pickle.dumps, copy.deepcopy]
)
def test_a_secret_can_not_be_serialized(take: Callable[[Secret], object]) -> None:
    with pytest.raises(TypeError) as failed:
        take(SECRET)
    assert CANARY not in str(failed.value)


def test_a_secret_is_serialized_for_a_child_process_only_on_request() -> None:
    key = TsigKey("ours", "hmac-sha256", SECRET)
    sent = msgspec.json.encode(key, enc_hook=encode_secret_for_child)
    assert CANARY.encode() in sent
    assert msgspec.json.decode(sent, type=TsigKey, dec_hook=restore_secret_from_parent) == key
    with pytest.raises(TypeError):
        msgspec.json.encode(object(), enc_hook=encode_secret_for_child)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"name":"a","algorithm":"b","secret":1}', type=TsigKey, dec_hook=restore_secret_from_parent
        )


def test_secrets_are_equal_if_their_texts_are() -> None:
    assert SECRET.reveal() == CANARY
    assert Secret(CANARY) == SECRET != Secret("another")
    assert len({Secret(CANARY), SECRET, Secret("ä")}) == 2
    assert SECRET != CANARY
    assert not vars(Secret).get("__dict__")


TOKEN = "sublet_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123454UPjcZ"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"/api/v1/subdomains/{TOKEN}", f"/api/v1/subdomains/{HIDDEN}"),
        (f"?token={TOKEN}&x=1", f"?token={HIDDEN}&x=1"),
        (TOKEN[:-6], HIDDEN),
        (TOKEN + "x", HIDDEN),
        ("Authorization: Bearer eyJhbGciOi.J9-_x", f"Authorization: Bearer {HIDDEN}"),
        ("authorization: bearer abcdefgh", f"authorization: bearer {HIDDEN}"),
        ("postgresql://a:b:@x@h1,h2:5/d?target=x", f"postgresql://a:{HIDDEN}@h1,h2:5/d?target=x"),
        ("postgresql://sublet:p%40ss@db:5432/x", f"postgresql://sublet:{HIDDEN}@db:5432/x"),
        (
            "postgresql://db/x?password=ab&sslmode=require",
            f"postgresql://db/x?password={HIDDEN}&sslmode=require",
        ),
        ("postgresql://db/x?sslpassword=ab", f"postgresql://db/x?sslpassword={HIDDEN}"),
        ("sublet_http_requests_total", "sublet_http_requests_total"),
        ("http://127.0.0.1:8053/a@b", "http://127.0.0.1:8053/a@b"),
        ("Bearer of bad news", "Bearer of bad news"),
    ],
)
def test_texts_that_look_like_secrets_are_hidden(text: str, left: str) -> None:
    assert without_secrets(text) == left


def test_a_new_token_is_a_secret() -> None:
    token = new_token()
    assert isinstance(token, Secret)
    assert is_well_formed(token.reveal())
    assert without_secrets(token.reveal()) == HIDDEN


@given(st.text(), st.text())
def test_a_token_is_found_anywhere(before: str, after: str) -> None:
    assert TOKEN not in without_secrets(before + TOKEN + after)


@pytest.mark.usefixtures("logs_as_before")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_secret_gets_into_the_log(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Log lines of Sublet and of libraries, with values, messages and traces."""
    configure_logs(Settings(log_format=log_format))
    log = structlog.get_logger()
    log.info(
        "request", path=f"/api/v1/{TOKEN}", header=f"Bearer {TOKEN}", secret=SECRET, deep={"a": [SECRET]}
    )
    log.info("see " + TOKEN)  # noqa: G003 - a message that somebody put together
    logging.getLogger("a.library").warning("can't connect to %s with %s", "postgresql://a:canary@b/c", SECRET)
    try:
        raise ValueError(TOKEN)  # noqa: TRY301 - for its trace
    except ValueError:
        log.exception("fault")
        logging.getLogger("a.library").exception("failed with %s", TOKEN)
    for handler in logging.root.handlers:
        handler.flush()
    written = capsys.readouterr().err
    lines = [line for line in written.splitlines() if line.strip()]
    assert len(lines) >= 5
    assert "canary" not in written
    assert TOKEN not in written
    assert TOKEN[:20] not in written
    assert "ValueError" in written
    assert written.count(HIDDEN) >= 7
    if log_format == "json":
        assert all(json.loads(line)["level"] for line in lines)
