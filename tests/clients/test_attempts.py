"""When the Python client sends a call again, and what it raises: the rules, without a network."""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import httpx2
import msgspec
import pytest

import sublet_client
from sublet.operations.rate_limit_store import WINDOW_SECONDS
from sublet_client._core import Call, Config, Reply, Send, Wait, attempts
from sublet_client._settings import DEADLINE_SECONDS, TIMEOUT_SECONDS, base_url_of, config_of
from sublet_client._sync import (
    AccountMethods,
    DevicesMethods,
    RecordsMethods,
    SignUpMethods,
    SubdomainsMethods,
    TokensMethods,
)
from support.http_clients import NO_TLS

CONFIG = Config("https://names.example.net/api/v1", "secret-token", DEADLINE_SECONDS, TIMEOUT_SECONDS, "test")
DELETED = b'{"ok":true,"deleted":{"id":1,"fqdn":"a.example.net"}}'


class _CallOnly:
    """A transport that returns the call instead of its result."""

    def run(self, call: Call[Any]) -> Any:
        return call


_CALL_ONLY: Any = _CallOnly()
ACCOUNT: Any = AccountMethods(_CALL_ONLY)
DEVICES: Any = DevicesMethods(_CALL_ONLY)
RECORDS: Any = RecordsMethods(_CALL_ONLY)
SIGN_UP: Any = SignUpMethods(_CALL_ONLY)
SUBDOMAINS: Any = SubdomainsMethods(_CALL_ONLY)
TOKENS: Any = TokensMethods(_CALL_ONLY)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _run(
    call: Call[Any], *replies: Reply | Exception, jitter: float = 0.0
) -> tuple[Any, list[Send], list[float]]:
    """Answer the requests of a call in turn; the last answer is repeated.

    Return the result, or what was raised; requests; pauses.
    """
    clock, sent, waited = _Clock(), [], []
    running = attempts(call, CONFIG, clock, lambda: jitter)
    answers = list(replies)
    try:
        step = next(running)
        while True:
            if isinstance(step, Wait):
                waited.append(step.seconds)
                clock.now += step.seconds
                step = next(running)
            else:
                sent.append(step)
                clock.now += 0.1
                step = running.send(answers.pop(0) if len(answers) > 1 else answers[0])
    except StopIteration as end:
        return end.value, sent, waited
    except sublet_client.SubletError as error:
        return error, sent, waited


def _refusal(status: int, code: str, headers: Mapping[str, str] | None = None, **members: Any) -> Reply:
    body = {
        "ok": False,
        "error": code,
        "message": "Do this.",
        "errors": [],
        "details": {},
        "request_id": "r-1",
    }
    return Reply(status, headers or {}, msgspec.json.encode({**body, **members}))


def test_an_answer_to_another_request_is_ignored() -> None:
    stale = Reply(200, {"x-request-id": f"{CONFIG.request_prefix}.1"}, DELETED)
    good = Reply(200, {"x-request-id": "of-a-proxy"}, DELETED)
    result, sent, _ = _run(SUBDOMAINS.delete("a.example.net"), stale, good)
    assert result.fqdn == "a.example.net"
    assert [each.headers.get("connection") for each in sent] == [None, "close"]
    assert len({each.headers["idempotency-key"] for each in sent}) == 1


def test_a_change_is_retried_with_the_same_key_until_it_is_answered() -> None:
    lost = ConnectionError("reset")
    done, sent, waited = _run(SUBDOMAINS.delete("a.example.net"), lost, lost, Reply(200, {}, DELETED))
    assert done.fqdn == "a.example.net"
    assert len(sent) == 3
    assert len({each.headers["idempotency-key"] for each in sent}) == 1
    assert waited == [0.25, 0.5]


def test_each_change_has_its_own_key_and_reads_have_none() -> None:
    keys = {
        _run(SUBDOMAINS.delete("a.example.net"), Reply(200, {}, DELETED))[1][0].headers["idempotency-key"]
        for _ in range(2)
    }
    assert len(keys) == 2
    _, sent, _ = _run(ACCOUNT.me(), _refusal(401, "token_invalid"))
    assert "idempotency-key" not in sent[0].headers


def test_a_given_key_is_sent() -> None:
    _, sent, _ = _run(SUBDOMAINS.delete("a.example.net", idempotency_key="mine"), Reply(200, {}, DELETED))
    assert sent[0].headers["idempotency-key"] == "mine"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_retry_after_is_respected(status: int) -> None:
    later = _refusal(status, "unavailable", {"retry-after": "7"})
    _, _, waited = _run(SUBDOMAINS.delete("a.example.net"), later, Reply(200, {}, DELETED))
    assert waited == [7.0]


def test_a_date_in_retry_after_counts_from_the_date_of_the_answer() -> None:
    headers = {"retry-after": "Wed, 25 Nov 2026 10:00:05 GMT", "date": "Wed, 25 Nov 2026 10:00:00 GMT"}
    _, _, waited = _run(ACCOUNT.me(), _refusal(503, "unavailable", headers), _refusal(401, "token_invalid"))
    assert waited == [5.0]


def test_each_minute_of_a_rate_limit_is_waited_for() -> None:
    later = _refusal(429, "rate_limited", {"retry-after": str(WINDOW_SECONDS)})
    _, _, waited = _run(ACCOUNT.me(), later, later, _refusal(401, "token_invalid"), jitter=1)
    assert waited == [WINDOW_SECONDS + 1] * 2


def test_no_wait_exceeds_the_deadline() -> None:
    error, sent, waited = _run(ACCOUNT.me(), _refusal(503, "unavailable", {"retry-after": "3600"}))
    assert isinstance(error, sublet_client.Unavailable)
    assert error.retry_after_seconds == 3600
    assert (len(sent), waited) == (1, [])


def test_an_unreachable_service_is_retried_until_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "sublet_client"):
        error, sent, waited = _run(ACCOUNT.me(), ConnectionError("refused"))
    assert isinstance(error, sublet_client.NotReached)
    assert 50 < sum(waited) < CONFIG.deadline_seconds
    assert max(waited) == 10
    assert all(each.timeout_seconds <= CONFIG.timeout_seconds for each in sent)
    assert len(caplog.messages) == len(waited)
    assert "https://names.example.net gave no answer: refused." in caplog.messages[0]
    assert caplog.messages[0].startswith("Retrying me in 0.2 s: ")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("was_reached", [False, True])
def test_a_refused_first_connection_is_not_retried(
    was_reached: bool, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def delete(url: str) -> None:
        http = httpx2.AsyncClient(verify=NO_TLS)
        async with sublet_client.AsyncClient(url, "t", deadline_seconds=5, http=http) as client:
            await client.subdomains.delete("a.example.net")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        if was_reached:
            pool.submit(_cut_one_connection, server)
        else:
            server.close()
        with (
            caplog.at_level("INFO", "sublet_client"),
            pytest.raises(sublet_client.NotReached, match=f"^{url} gave no answer: .*(refused|failed)"),
        ):
            if is_async:
                asyncio.run(delete(url))
            else:
                http = httpx2.Client(verify=NO_TLS)
                with sublet_client.Client(url, "t", deadline_seconds=5, http=http) as client:
                    client.subdomains.delete("a.example.net")
    retries = [each for each in caplog.messages if "Retrying" in each]
    assert (len(retries) > 1) == was_reached


def _cut_one_connection(server: socket.socket) -> None:
    """Take a request, so that the change may have been made, and go away."""
    connection, _ = server.accept()
    server.close()
    connection.recv(1)
    connection.close()


def test_jitter_shortens_the_back_off_and_lengthens_retry_after() -> None:
    away = ConnectionError("refused")
    assert _run(SUBDOMAINS.delete("a"), away, Reply(200, {}, DELETED), jitter=1.0)[2] == [0.125]
    later = _refusal(429, "rate_limited", {"retry-after": "7"})
    assert _run(SUBDOMAINS.delete("a"), later, Reply(200, {}, DELETED), jitter=1.0)[2] == [8.0]


def test_a_refusal_is_raised_at_once_with_the_class_of_its_code() -> None:
    fault = {"field": "fqdn", "code": "fqdn_invalid", "message": "Use letters."}
    error, sent, _ = _run(
        SUBDOMAINS.register(fqdn="a_b.example.net"), _refusal(422, "validation_failed", errors=[fault])
    )
    assert type(error) is sublet_client.ValidationFailed
    assert (error.status, error.code, error.request_id) == (422, "validation_failed", "r-1")
    assert error.errors[0].message == "Use letters."
    assert "Use letters." in str(error)
    assert "r-1" in str(error)
    assert len(sent) == 1


def test_an_unknown_error_code_is_an_api_error() -> None:
    error, _, _ = _run(ACCOUNT.me(), _refusal(403, "something_new"))
    assert type(error) is sublet_client.ApiError
    assert error.code == "something_new"


def test_a_request_in_progress_is_retried() -> None:
    running = _refusal(409, "idempotency_in_progress", {"retry-after": "1"})
    done, sent, _ = _run(SUBDOMAINS.delete("a"), running, Reply(200, {}, DELETED))
    assert done.fqdn == "a.example.net"
    assert len(sent) == 2


def test_a_request_without_a_key_is_not_retried_if_it_may_have_taken_effect() -> None:
    call = SIGN_UP.start("ada@example.org", "Ada")
    error, sent, _ = _run(call, ConnectionError("reset"))
    assert isinstance(error, sublet_client.NotReached)
    assert len(sent) == 1
    assert sent[0].url == "https://names.example.net/auth/signup"
    assert "authorization" not in sent[0].headers


@pytest.mark.parametrize(
    "content",
    [
        *(b"<html>", b"", b"[]", b'{"error":1}', b"\xff"),
        b'{"error":"Bad","message":"x","errors":["y"]}',
        b'{"error":"Bad","message":"x","details":[1]}',
    ],
)
@pytest.mark.parametrize("status", [200, 404, 500])
def test_an_answer_of_another_service_is_unexpected(status: int, content: bytes) -> None:
    error, _, _ = _run(ACCOUNT.me(), Reply(status, {}, content))
    assert isinstance(error, sublet_client.UnexpectedAnswer)
    assert "secret-token" not in str(error)


def test_a_redirect_is_named_and_not_followed() -> None:
    target = "https://names.example.org/api/v1/me"
    error, sent, _ = _run(ACCOUNT.me(), Reply(308, {"location": target}, b""))
    assert isinstance(error, sublet_client.UnexpectedAnswer)
    assert (str(error).endswith(f"it redirects to {target}."), len(sent)) == (True, 1)


def test_an_answer_without_its_entity_tag_is_unexpected() -> None:
    call: Any = SUBDOMAINS.get_tagged("blog.example.net")
    error, _, _ = _run(call, Reply(200, {}, b"{}"))
    assert isinstance(error, sublet_client.UnexpectedAnswer)
    assert "no ETag" in str(error)


class _Drip(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """An answer that never ends, each byte in time."""

    def __iter__(self) -> Iterator[bytes]:
        while True:
            time.sleep(0.01)
            yield b" "

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


def test_the_timeout_is_for_a_whole_answer() -> None:
    drip = httpx2.MockTransport(lambda _: httpx2.Response(200, stream=_Drip()))
    http = httpx2.Client(transport=drip)
    client = sublet_client.Client("localhost", deadline_seconds=0.1, http=http)
    with client, pytest.raises(sublet_client.NotReached, match="too slow"):
        client.account.me()

    async def ask() -> None:
        slow = httpx2.AsyncClient(transport=drip)
        async with sublet_client.AsyncClient("localhost", deadline_seconds=0.1, http=slow) as other:
            await other.account.me()

    with pytest.raises(sublet_client.NotReached, match="too slow"):
        asyncio.run(ask())


@pytest.mark.parametrize("kind", [sublet_client.Client, sublet_client.AsyncClient])
def test_an_unusable_proxy_of_the_environment_is_a_wrong_value(
    kind: type[sublet_client.Client | sublet_client.AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "socksio", None)  # as if it weren't installed
    with pytest.raises(ValueError, match="ALL_PROXY"):
        kind("localhost")


def test_names_are_percent_encoded_in_paths_and_members_are_left_out_or_null() -> None:
    _, sent, _ = _run(SUBDOMAINS.get("a..b?.example.net"), _refusal(404, "not_found"))
    assert sent[0].url.endswith("/subdomains/a..b%3F.example.net")
    _, sent, _ = _run(TOKENS.change(1, names=None, name="x"), _refusal(404, "not_found"))
    assert msgspec.json.decode(sent[0].content or b"") == {"names": None, "name": "x"}


@pytest.mark.parametrize("part", ["", ".", "..", "https://www"])
def test_no_parameter_leads_to_another_path(part: str) -> None:
    with pytest.raises(ValueError, match="is empty, only dots, or has a slash"):
        RECORDS.remove(
            "blog.example.net", "." if part else "www", part
        )  # `./..` would be the path of the name itself


def test_no_secret_is_shown() -> None:
    assert "secret-token" not in repr(CONFIG)
    assert "sublet_abc" not in repr(sublet_client.Secret("sublet_abc"))
    client = sublet_client.Client("https://names.example.net/api/v1", "secret-token")
    assert "secret-token" not in repr(vars(client))
    _, sent, _ = _run(DEVICES.poll(device_code="secret-code"), Reply(200, {}, b'{"secret":"new"}'))
    assert "secret-code" not in repr(sent)
    assert "secret-token" not in repr(_run(ACCOUNT.me(), _refusal(401, "token_invalid"))[1])


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://names.example.net", "https://names.example.net/api/v1"),
        ("names.example.net/", "https://names.example.net/api/v1"),
        (" http://127.0.0.1:8053/\n", "http://127.0.0.1:8053/api/v1"),
        ("https://example.net/names/api/v1/", "https://example.net/names/api/v1"),
        ("localhost:8053", "http://localhost:8053/api/v1"),
        ("LOCALHOST", "http://LOCALHOST/api/v1"),
        ("127.0.0.2:8053/", "http://127.0.0.2:8053/api/v1"),
        ("[::1]:8053", "http://[::1]:8053/api/v1"),
        ("names.localhost", "http://names.localhost/api/v1"),
        ("https://localhost:8053", "https://localhost:8053/api/v1"),
        ("localhost.example.net", "https://localhost.example.net/api/v1"),
        ("192.0.2.1:8053", "https://192.0.2.1:8053/api/v1"),
    ],
)
def test_the_address_of_a_registry_is_completed(address: str, url: str) -> None:
    assert base_url_of(address) == url


@pytest.mark.parametrize("token", [" secret-token\r\n", sublet_client.Secret("secret-token\n")])
def test_spaces_around_a_token_are_removed(token: str | sublet_client.Secret) -> None:
    assert config_of(" https://names.example.net\n", token, 1, 1) == replace(
        CONFIG,
        deadline_seconds=1,
        timeout_seconds=1,
        user_agent=ANY,
        request_prefix=ANY,
    )


@pytest.mark.parametrize(
    "token", ["", "\n", "Secret\nToken", "'SecretToken'", "Secret Töken", "SecretToken…"]
)
@pytest.mark.parametrize("kind", [sublet_client.Client, sublet_client.AsyncClient])
def test_a_malformed_token_is_refused_at_once_and_not_shown(
    kind: type[sublet_client.Client | sublet_client.AsyncClient], token: str
) -> None:
    with pytest.raises(ValueError, match="Give it as the registry showed it") as refused:
        kind("https://names.example.net/api/v1", token)
    assert "Secret" not in _everything(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://names.example.net",
        "https://names.example.net:port",
        "https://[::1",
        "https:///api/v1",
        "https://ada:Secret@names.example.net",
        "https://ada:Secret\uff20names.example.net",
        "https://names..example.net",
        "https://xn--\xfc.example.net",
        "https://names.example.net\n:443",
        "https://names.example.net/api/v1?page=1",
        "https://names.example.net#top",
        "https://256.1.1.1",
    ],
)
def test_a_malformed_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="SUBLET_URL") as refused:
        sublet_client.Client(url, "secret-token")
    assert "Secret" not in _everything(refused.value)


def test_no_exception_contains_a_header() -> None:
    headers = {"x-other": "Secret\n"}  # of the program's own HTTP client

    async def ask(url: str) -> None:
        http = httpx2.AsyncClient(headers=headers, verify=NO_TLS)
        async with sublet_client.AsyncClient(url, "SecretToken", http=http) as client:
            await client.sign_up.start("ada@example.org", "Ada")  # a request that is not repeated

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/api/v1"
        http = httpx2.Client(headers=headers, verify=NO_TLS)
        with (
            sublet_client.Client(url, "SecretToken", http=http) as client,
            pytest.raises(sublet_client.NotReached, match="could not be written") as refused,
        ):
            client.sign_up.start("ada@example.org", "Ada")
        assert "Secret" not in _everything(refused.value)
        with pytest.raises(sublet_client.NotReached, match="could not be written") as refused:
            asyncio.run(ask(url))
        assert "Secret" not in _everything(refused.value)
    with pytest.raises(ValueError, match="idempotency-key") as wrong:
        _run(SUBDOMAINS.delete("a", idempotency_key="Secret\n"), Reply(200, {}, DELETED))
    assert "Secret" not in _everything(wrong.value)


def _everything(error: BaseException | None) -> str:
    """Return what a log shows of an error and its causes."""
    shown = []
    while error is not None:
        shown += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return "\n".join(shown)
