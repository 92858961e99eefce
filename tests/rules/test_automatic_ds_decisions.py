"""Decisions about DS records: a table, and random cases compared with BIND's `dnssec-cds`."""

import random
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dns.rrset
import pytest

from sublet.child_zones.decide_ds import UNSEEN_MAX, decide
from sublet.child_zones.model import (
    Awaited,
    Decision,
    Keep,
    Proof,
    PublishedKeys,
    Refuse,
    Remove,
    Replace,
    Rules,
    Wait,
)
from sublet.child_zones.signalling import join_proofs
from sublet.dns.types import DsRecord
from sublet.structs import replace
from support.child_keys import (
    CHILD,
    DELETE_CDNSKEY,
    DELETE_CDS,
    HOUR,
    ChildKey,
    cdnskeys,
    cds,
    child_file,
    dnskeys,
    now_in_seconds,
    parse_dsset,
    random_child,
    sign,
)
from support.programs import find_program
from support.repetitions import share

CASES = share(50, whole=1000)
NOW = datetime(2026, 5, 1, tzinfo=UTC)
OLD, NEW, ZONE = ChildKey.new(), ChildKey.new(15), ChildKey.new(13, flags=256)
BOTH = (OLD, NEW)


def child(
    *sets: dns.rrset.RRset,
    keys: Sequence[ChildKey] = (*BOTH, ZONE),
    signers: Sequence[ChildKey] = BOTH,
    begins: timedelta = -HOUR,
) -> PublishedKeys:
    """Return what a child publishes: its keys, and these sets, signed by the signers."""
    dnskey = dnskeys(keys)
    signatures = [each for rrset in (dnskey, *sets) for each in sign(rrset, signers, NOW, begins=begins)]
    named = {"CDS": None, "CDNSKEY": None} | {rrset.rdtype.name: rrset for rrset in sets}
    return PublishedKeys(dnskey, named["CDS"], named["CDNSKEY"], None, tuple(signatures))


def kind(decision: Decision) -> str:
    """Return the class of a decision, or the code of a refusal."""
    return decision.code if isinstance(decision, Refuse) else type(decision).__name__


SWAP = (cds([NEW]), cdnskeys([NEW]))
_ROLLOVERS = {
    "nothing is asked": (child(), "Keep"),
    "another key": (child(*SWAP), "Replace"),
    "another key, by CDS alone": (child(SWAP[0]), "Replace"),
    "another key, by CDNSKEY alone": (child(SWAP[1]), "Replace"),
    "one more key": (child(cds(BOTH)), "Replace"),
    "the same": (child(cds([OLD]), cdnskeys([OLD])), "Keep"),
    "one more digest type": (child(cds([OLD], (2, 4))), "Replace"),
    "both deleted": (child(DELETE_CDS, DELETE_CDNSKEY), "Remove"),
    "one deleted": (child(DELETE_CDS), "Remove"),
    "deleted, and a key": (child(DELETE_CDS, cdnskeys([NEW])), "malformed"),
    "deletion signed by another key": (child(DELETE_CDS, signers=[NEW]), "chain_broken"),
    "CDS and CDNSKEY differ": (child(cds([OLD]), cdnskeys([NEW])), "contradictory"),
    "SHA-1 only": (child(cds([NEW], (1,))), "unsupported"),
    "SHA-1, but a CDNSKEY": (child(cds([NEW], (1,)), cdnskeys([NEW])), "Replace"),
    "signed by a key without DS": (child(*SWAP, signers=[NEW]), "chain_broken"),
    "the new key doesn't sign": (child(*SWAP, signers=[OLD]), "would_break"),
    "the new key is not in the zone": (child(*SWAP, keys=[OLD, ZONE], signers=[OLD]), "would_break"),
    "signed earlier": (child(*SWAP, begins=-4 * HOUR), "replayed"),
    "signed for later": (child(*SWAP, begins=HOUR), "chain_broken"),
    "no keys": (replace(child(*SWAP), dnskey=None), "chain_broken"),
    "unsigned": (replace(child(*SWAP), signatures=()), "chain_broken"),
    "the request is unsigned": (
        replace(child(*SWAP), signatures=tuple(sign(dnskeys((*BOTH, ZONE)), BOTH, NOW))),
        "not_authentic",
    ),
}


@pytest.mark.parametrize("case", _ROLLOVERS)
def test_decisions_about_present_ds_records(case: str) -> None:
    published, expected = _ROLLOVERS[case]
    rules = Rules(bootstrap=False, signed_after=NOW - 2 * HOUR)
    decision = decide(CHILD, [OLD.ds()], published, None, rules, NOW)
    assert kind(decision) == expected
    if isinstance(decision, Replace | Remove):
        assert decision.signed_at == NOW - HOUR
    assert decide(CHILD, [OLD.ds()], published, None, replace(rules, rollover=False), NOW) == Keep()


@pytest.mark.parametrize(
    ("asked", "hours", "expected"),
    [
        (SWAP, 2, "Replace"),
        (SWAP, 1, "Replace"),  # signed at the same instant
        (SWAP, 0, "replayed"),
        ([DELETE_CDS, DELETE_CDNSKEY], 0, "replayed"),
        ([cds([OLD])], 0, "Keep"),
    ],
)
def test_requests_signed_before_a_change_by_hand_change_nothing(
    asked: Sequence[dns.rrset.RRset], hours: int, expected: str
) -> None:
    rules = Rules(signed_after=NOW - 3 * HOUR, changed_at=NOW - hours * HOUR)
    assert kind(decide(CHILD, [OLD.ds()], child(*asked), None, rules, NOW)) == expected


def test_new_ds_records_equal_the_cds_records_or_use_sha_256() -> None:
    def made(*sets: dns.rrset.RRset) -> set[DsRecord]:
        decision = decide(CHILD, [OLD.ds()], child(*sets), None, Rules(), NOW)
        assert isinstance(decision, Replace)
        return set(decision.ds_records)

    assert made(cds([NEW], (2, 4))) == {NEW.ds(2), NEW.ds(4)}
    assert made(cds([NEW], (1, 2))) == {NEW.ds(2)}
    assert made(cdnskeys(BOTH)) == {OLD.ds(2), NEW.ds(2)}


def test_a_broken_zone_gets_no_new_ds_records() -> None:
    soa = dns.rrset.from_text(CHILD, 300, "IN", "SOA", "ns.example. host.example. 1 1 1 1 1")
    published = replace(child(*SWAP), soa=soa)
    assert kind(decide(CHILD, [OLD.ds()], published, None, Rules(), NOW)) == "would_break"
    signed = replace(published, signatures=(*published.signatures, *sign(soa, [ZONE], NOW)))
    assert kind(decide(CHILD, [OLD.ds()], signed, None, Rules(), NOW)) == "Replace"


_FIRST = child(*SWAP)
_BOOTSTRAPS: dict[str, tuple[PublishedKeys, Proof | None, str]] = {
    "confirmed": (_FIRST, Proof(*SWAP), "Replace"),
    "not looked up": (_FIRST, None, "not_bootstrapped"),
    "not confirmed": (_FIRST, Proof(problem="ns1.example.org has none."), "not_bootstrapped"),
    "other records": (_FIRST, Proof(cds([OLD]), cdnskeys([OLD])), "not_bootstrapped"),
    "one type only": (_FIRST, Proof(SWAP[0], None), "not_bootstrapped"),
    "nothing asked": (child(), Proof(*SWAP), "Keep"),
    "a deletion": (child(DELETE_CDS), Proof(DELETE_CDS), "Keep"),
    "not signed by the key": (child(*SWAP, signers=[OLD]), Proof(*SWAP), "would_break"),
    "unsigned": (replace(_FIRST, signatures=()), Proof(*SWAP), "not_authentic"),
    "signed earlier": (child(*SWAP, begins=-4 * HOUR), Proof(*SWAP), "replayed"),
}


@pytest.mark.parametrize("case", _BOOTSTRAPS)
def test_decisions_about_first_ds_records(case: str) -> None:
    published, proof, expected = _BOOTSTRAPS[case]
    rules = Rules(rollover=False, signed_after=NOW - 2 * HOUR)
    assert kind(decide(CHILD, [], published, proof, rules, NOW)) == expected
    assert decide(CHILD, [], published, proof, replace(rules, bootstrap=False), NOW) == Keep()


def test_the_proof_of_several_signalling_names() -> None:
    one, other = Proof(*SWAP), Proof(cds([OLD]), cdnskeys([OLD]))
    none = Proof(problem="ns2.example.org has none.")
    assert join_proofs([one, Proof(*SWAP)]) == one
    assert join_proofs([none, none]) == none
    assert join_proofs([none, one]) == join_proofs([one, none]) == replace(one, problem=none.problem)
    for proofs in ([one, other], [none, one, other], [one, Proof(SWAP[0])]):
        assert join_proofs(proofs).contradicts


WEEK = timedelta(days=7)
NO_PROOF = Proof(problem="ns1.example.org has none.")


def waited(
    published: PublishedKeys, awaited: Awaited | None = None, proof: Proof | None = NO_PROOF
) -> Decision:
    """Return the decision about first DS records that are accepted after a week."""
    return decide(CHILD, [], published, proof, Rules(accepted_after=WEEK, awaited=awaited), NOW)


def digest_of(published: PublishedKeys) -> str:
    """Return the digest of the records for which a name waits."""
    decision = waited(published)
    assert isinstance(decision, Wait)
    return decision.digest


@pytest.mark.parametrize(
    ("since", "seen", "expected"),
    [
        (WEEK, HOUR, "Replace"),
        (WEEK - HOUR, HOUR, "Wait"),
        (WEEK, UNSEEN_MAX, "Replace"),
        (WEEK, UNSEEN_MAX + HOUR, "Wait"),  # not seen for too long
        (WEEK, -HOUR, "Wait"),  # the clock was ahead at the last check
    ],
)
def test_first_ds_records_without_signalling_names_are_accepted_after_a_wait(
    since: timedelta, seen: timedelta, expected: str
) -> None:
    decision = waited(_FIRST, Awaited(digest_of(_FIRST), NOW - since, NOW - seen))
    assert kind(decision) == expected
    if isinstance(decision, Replace):
        assert (decision.ds_records, decision.awaited_since) == ((NEW.ds(),), NOW - WEEK)
    else:
        assert isinstance(decision, Wait)
        began = NOW - since if since < WEEK else NOW
        assert (decision.since, decision.until) == (began, began + WEEK)


def test_another_request_begins_the_wait_again_but_another_signature_does_not() -> None:
    known = Awaited(digest_of(_FIRST), NOW - WEEK, NOW - HOUR)
    assert kind(waited(child(*SWAP, keys=(*BOTH, ZONE), begins=-2 * HOUR), known)) == "Replace"
    for asked in ([cds([OLD])], [SWAP[0]], [cds(BOTH), cdnskeys(BOTH)], [cds([NEW], (2, 4)), SWAP[1]]):
        decision = waited(child(*asked), known)
        assert isinstance(decision, Wait)
        assert decision.since == NOW


def test_the_wait_replaces_nothing_but_signalling_names() -> None:
    old = Awaited(digest_of(_FIRST), NOW - WEEK, NOW - HOUR)
    for proof in (
        Proof(cds([OLD]), cdnskeys([OLD])),
        Proof(cds([OLD]), None, problem="ns2.example.org has none."),
        Proof(problem="They differ.", contradicts=True),
    ):
        assert kind(waited(_FIRST, old, proof)) == "not_bootstrapped"
    assert kind(waited(_FIRST, old, Proof(*SWAP, problem="ns2.example.org has none."))) == "Replace"
    assert kind(waited(_FIRST, None, Proof(*SWAP))) == "Replace"
    assert kind(waited(child(*SWAP, signers=[OLD]), old)) == "would_break"
    assert kind(waited(replace(_FIRST, signatures=()), old)) == "not_authentic"
    assert waited(child(DELETE_CDS), old) == Keep()
    rules = Rules(accepted_after=WEEK, awaited=old, signed_after=NOW)
    assert kind(decide(CHILD, [], _FIRST, NO_PROOF, rules, NOW)) == "replayed"
    rules = Rules(accepted_after=WEEK, awaited=old)
    unsigned = child(*SWAP, signers=[NEW])
    assert kind(decide(CHILD, [OLD.ds()], unsigned, NO_PROOF, rules, NOW)) == "chain_broken"


def test_decisions_equal_dnssec_cds(tmp_path: Path) -> None:
    chance = random.Random(29)  # noqa: S311 - repeatable
    pool = [ChildKey.new(algorithm) for algorithm in (13, 13, 8, 15, 14)]
    outcomes = set()
    for number in range(CASES):
        now = now_in_seconds()
        ds_records, published, signed_after = random_child(chance, pool, ZONE, now)
        ours = decide(CHILD, ds_records, published, None, Rules(signed_after=signed_after), now)
        theirs, said = _dnssec_cds(tmp_path, ds_records, child_file(published), signed_after)
        expected = None
        if isinstance(ours, Keep | Replace):
            expected = set(ours.ds_records if isinstance(ours, Replace) else ds_records)
        assert expected == theirs, (number, ours, said, child_file(published), ds_records, signed_after)
        outcomes.add(kind(ours))
    assert outcomes == {"Keep", "Replace", "chain_broken", "not_authentic", "replayed", "would_break"}


def _dnssec_cds(
    folder: Path, ds_records: Sequence[DsRecord], published: str, signed_after: datetime | None
) -> tuple[set[DsRecord] | None, str]:
    """Return the DS records that dnssec-cds makes, None if it refuses, and what it said."""
    program = find_program("dnssec-cds")
    (folder / "child").write_text(published, encoding="ascii")
    lines = [f"{CHILD} IN DS {_text(each)}\n" for each in ds_records]
    (folder / "dsset").write_text("".join(lines), encoding="ascii")
    # CDNSKEY records lead to SHA-256 alone.
    digests = ["-a", "SHA-256", "-a", "SHA-384"] if " CDS " in published else []
    start = signed_after or datetime(2000, 1, 1, tzinfo=UTC)
    done = subprocess.run(
        [program, *digests, "-s", f"{start:%Y%m%d%H%M%S}", "-f", "child", "-d", "dsset", str(CHILD)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return (parse_dsset(done.stdout) if done.returncode == 0 else None), done.stderr


def _text(record: DsRecord) -> str:
    return f"{record.key_tag} {record.algorithm} {record.digest_type} {record.digest}"
