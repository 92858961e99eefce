"""Adding, using and removing passkeys, and recovering from lost passkeys.

In a browser: tests/contract/test_passkeys_in_a_browser.py.
"""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from sublet.accounts.sessions import require_recent_sign_in
from sublet.accounts.users import suspend_user
from sublet.audit import Actor
from sublet.errors import (
    AccountSuspended,
    Conflict,
    PasskeyNotFound,
    SessionInvalid,
    SignInRequired,
    ValidationFailed,
)
from sublet.sign_in.identify import identify_by_passkey
from sublet.sign_in.model import Browser
from sublet.sign_in.passkeys import (
    PASSKEYS_MAX,
    add_passkey,
    offer_passkey,
    remove_passkey,
    start_recovery,
    stop_recovery,
)
from sublet.sign_in.sessions import end_session
from sublet.sign_in.store import find_recovery, list_passkeys
from support.authenticator import PRESENT, Authenticator
from support.registry import OPERATOR, Registry
from support.signing_in import (
    SITE,
    URL,
    again,
    new_passkey,
    options,
    session_actor,
    sign_in,
    sign_in_with,
    texts_to,
)

ANN = "ann@example.org"


def test_a_passkey_is_added_and_signs_in(registry: Registry) -> None:
    done = sign_in(registry)
    authenticator = new_passkey(registry, done)
    assert "The passkey “phone” was added" in texts_to(registry, ANN)[-1]
    signed_in = sign_in_with(registry, authenticator)
    assert signed_in is not None
    assert (signed_in.session.user_id, signed_in.session.how) == (registry.users["ann"], "passkey")
    (passkey,) = registry.read(list_passkeys, registry.users["ann"])
    assert (passkey.name, passkey.sign_count, passkey.transports) == ("phone", 1, ["hybrid", "internal"])
    assert passkey.last_used_at == registry.now


Spoil = Callable[[Authenticator], object]
WRONG_ANSWERS: dict[str, Spoil] = {
    "another origin": lambda each: setattr(each, "origin", "https://names.example.org"),
    "another host": lambda each: setattr(each, "host", "example.net"),
    "the person wasn't verified": lambda each: setattr(each, "flags", PRESENT),
    "the person wasn't present": lambda each: setattr(each, "flags", 4),
    "a credential id of 1024 bytes": lambda each: setattr(each, "id", bytes(1024)),
}


@pytest.mark.parametrize("case", WRONG_ANSWERS)
def test_a_wrong_answer_adds_no_passkey_and_opens_no_session(registry: Registry, case: str) -> None:
    done = sign_in(registry)
    actor, stranger = session_actor(done), Authenticator(URL)
    WRONG_ANSWERS[case](stranger)
    credential = stranger.create(registry.write(offer_passkey, actor, SITE))
    registry.refused(ValidationFailed, add_passkey, actor, "phone", credential, SITE, URL)
    own = new_passkey(registry, done)
    WRONG_ANSWERS[case](own)
    assert sign_in_with(registry, own) is None


def test_a_copied_removed_or_foreign_passkey_opens_no_session(registry: Registry) -> None:
    done, bens = sign_in(registry), sign_in(registry, "ben")
    own, other = new_passkey(registry, done), new_passkey(registry, bens)
    assert sign_in_with(registry, own) is not None
    own.count = 0
    assert sign_in_with(registry, own) is None, "the count has not grown"
    assert sign_in_with(registry, own) is not None
    own.handle, other.handle = other.handle, own.handle
    assert sign_in_with(registry, own) is None
    own.handle, other.handle = other.handle, own.handle
    own.id, other.id = other.id, own.id
    assert sign_in_with(registry, own) is None, "the key of another user"
    assert sign_in_with(registry, Authenticator(URL)) is None
    own.id, other.id = other.id, own.id
    (passkey,) = registry.read(list_passkeys, registry.users["ben"])
    registry.write(remove_passkey, session_actor(bens), str(passkey.id), URL)
    assert sign_in_with(registry, other) is None
    assert "was removed" in texts_to(registry, "ben@example.org")[-1]


def test_a_challenge_is_used_once_soon_and_for_its_purpose(registry: Registry) -> None:
    done, other = sign_in(registry), sign_in(registry)
    own = new_passkey(registry, done)
    answer = own.get(options(registry))
    assert registry.write(identify_by_passkey, answer, SITE) is not None
    assert registry.write(identify_by_passkey, answer, SITE) is None, "used"
    replayed = dict(options(registry))
    answer = own.get(replayed)
    assert registry.write(identify_by_passkey, answer, SITE) is not None
    own.count += 5
    assert registry.write(identify_by_passkey, own.get(replayed), SITE) is None, (
        "used, with another signature"
    )
    old = options(registry)
    registry.advance(minutes=5)
    assert registry.write(identify_by_passkey, own.get(old), SITE) is None, "too old"
    forged = {"challenge": base64.urlsafe_b64encode(bytes(56)).decode().rstrip("=")}
    assert registry.write(identify_by_passkey, own.get(forged), SITE) is None, "not ours"
    again_done = sign_in_with(registry, own, again(done))
    assert again_done is not None
    of_registration = registry.write(offer_passkey, session_actor(again_done), SITE)
    assert registry.write(identify_by_passkey, own.get(of_registration), SITE) is None, "for a registration"
    signed_in = sign_in_with(registry, own, again(other))
    assert signed_in is not None
    new = Authenticator(URL).create(of_registration)
    registry.refused(ValidationFailed, add_passkey, session_actor(signed_in), "phone", new, SITE, URL)
    registry.write(add_passkey, session_actor(again_done), "phone", new, SITE, URL)
    registry.refused(ValidationFailed, add_passkey, session_actor(again_done), "phone", new, SITE, URL)


def _with(answer: dict[str, Any], **changed: object) -> dict[str, Any]:
    return answer | {"response": answer["response"] | changed}


def test_malformed_answers_are_refused(registry: Registry) -> None:
    done = sign_in(registry)
    actor, own = session_actor(done), new_passkey(registry, done)
    good = own.get(options(registry))
    client = json.loads(base64.urlsafe_b64decode(good["response"]["clientDataJSON"] + "=="))
    changed = base64.urlsafe_b64encode(json.dumps(client | {"type": "webauthn.create"}).encode()).decode()
    values: tuple[Any, ...] = ("", None, 1, {}, "AAAA")
    bad: list[dict[str, Any]] = [
        {},
        {"response": {}},
        {"response": None},
        {"response": {"clientDataJSON": 1}},
        {"response": {"clientDataJSON": "e30"}},
        {"response": {"clientDataJSON": "é"}},
        good | {"rawId": 1},
        good | {"rawId": "é"},
        good | {"id": "x"},
        good | {"type": "password"},
        _with(good, clientDataJSON=changed),
        *(_with(good, **{name: value}) for name in good["response"] for value in values),
    ]
    before = registry.dump()
    for answer in bad:
        assert registry.write(identify_by_passkey, answer, SITE) is None, answer
        with pytest.raises(ValidationFailed):
            registry.write(add_passkey, actor, "phone", answer, SITE, URL)
    created = Authenticator(URL).create(registry.write(offer_passkey, actor, SITE))
    for content in (b"", b"\x81" * 40_000, b"\xa1\x00" * 100, b"\x5b\x7f" + b"\xff" * 7, b"\xa0"):
        attested = base64.urlsafe_b64encode(content).decode()
        with pytest.raises(ValidationFailed):
            registry.write(add_passkey, actor, "x", _with(created, attestationObject=attested), SITE, URL)
    assert registry.dump() == before
    refused = registry.refused(ValidationFailed, add_passkey, actor, " ", None, SITE, URL)
    assert [each.field for each in refused.errors] == ["name", "credential"]


def test_a_user_has_twenty_passkeys(registry: Registry) -> None:
    done = sign_in(registry)
    first = new_passkey(registry, done)
    done = sign_in_with(registry, first) or done
    for _ in range(PASSKEYS_MAX - 1):
        new_passkey(registry, done)
    registry.refused(Conflict, offer_passkey, session_actor(done), SITE)


def test_a_sign_in_is_recent_for_ten_minutes(registry: Registry) -> None:
    actor = session_actor(sign_in(registry))
    registry.advance(minutes=10)
    registry.write(require_recent_sign_in, actor)
    registry.advance(seconds=1)
    refused = registry.refused(SignInRequired, require_recent_sign_in, actor)
    assert refused.details == {"limit_seconds": 600, "how": ["mail", "passkey", "operator"]}
    registry.advance(days=-1)  # the clock is set back
    registry.refused(SignInRequired, require_recent_sign_in, actor)
    registry.write(end_session, actor, "current")
    registry.refused(SessionInvalid, offer_passkey, actor, SITE)


def test_a_user_with_passkeys_needs_one_for_sensitive_changes(registry: Registry) -> None:
    own = new_passkey(registry, sign_in(registry))
    (passkey,) = registry.read(list_passkeys, registry.users["ann"])
    by_mail = sign_in(registry)
    refused = registry.refused(SignInRequired, require_recent_sign_in, session_actor(by_mail))
    assert refused.details["how"] == ["passkey", "operator"]
    assert "recovery" in refused.message
    registry.write(require_recent_sign_in, session_actor(by_mail), any_method=True)
    by_passkey = sign_in_with(registry, own, again(by_mail))
    assert by_passkey is not None
    bens = session_actor(sign_in(registry, "ben"))
    for identifier in (str(passkey.id), "99", "x"):
        registry.refused(PasskeyNotFound, remove_passkey, bens, identifier, URL)
    registry.write(remove_passkey, session_actor(by_passkey), str(passkey.id), URL)
    registry.write(require_recent_sign_in, session_actor(sign_in(registry)))


def recent(registry: Registry, actor: Actor) -> bool:
    try:
        registry.write(require_recent_sign_in, actor)
    except SignInRequired:
        return False
    return True


def test_a_recovery_counts_after_24_hours_for_a_week(registry: Registry) -> None:
    own = new_passkey(registry, sign_in(registry))
    by_mail = sign_in(registry)
    registry.write(start_recovery, session_actor(by_mail), URL)
    assert "passkeys are lost" in texts_to(registry, ANN)[-1]
    registry.refused(Conflict, start_recovery, session_actor(by_mail), URL)
    registry.advance(hours=23, minutes=50)
    assert not recent(registry, session_actor(sign_in(registry)))
    registry.advance(minutes=10)
    later = session_actor(sign_in(registry))
    assert recent(registry, later)
    (passkey,) = registry.read(list_passkeys, registry.users["ann"])
    registry.write(remove_passkey, later, str(passkey.id), URL)
    assert sign_in_with(registry, own) is None
    registry.advance(days=8)
    new_passkey(registry, sign_in(registry))
    assert not recent(registry, session_actor(sign_in(registry)))
    assert registry.doctor() == []


def test_a_recovery_stops_by_a_sign_in_with_a_passkey_or_by_hand(registry: Registry) -> None:
    own = new_passkey(registry, sign_in(registry))
    for stop in range(2):
        by_mail = session_actor(sign_in(registry))
        registry.write(start_recovery, by_mail, URL)
        if stop:
            registry.write(suspend_user, OPERATOR, ANN)
            registry.write(stop_recovery, by_mail, URL)
            assert "was stopped" in texts_to(registry, ANN)[-1]
        else:
            assert sign_in_with(registry, own) is not None
        assert registry.read(find_recovery, registry.users["ann"]) is None
    registry.refused(Conflict, stop_recovery, by_mail, URL)
    registry.refused(AccountSuspended, start_recovery, by_mail, URL)
    bens = session_actor(sign_in(registry, "ben"))
    refused = registry.refused(Conflict, start_recovery, bens, URL)
    assert "no passkeys" in refused.message


def test_a_new_network_is_mailed(registry: Registry) -> None:
    own = new_passkey(registry, sign_in(registry))
    before = len(texts_to(registry, ANN))
    home = Browser("192.0.2.7", "192.0.2.0/24")
    sign_in_with(registry, own, home)
    assert "from a new network" in texts_to(registry, ANN)[-1]
    sign_in_with(registry, own, home)
    assert len(texts_to(registry, ANN)) == before + 1
