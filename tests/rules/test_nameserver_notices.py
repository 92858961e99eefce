"""Notices about nameservers below a lapsing name: their dates and texts."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from sublet.dns.delegation import without_nameservers
from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameserver_notices import ENDING, IN_TRASH, notice_mail, removal_mail, warning_stage
from support.sample_subdomain import DAY, NAME, NOW

LABEL = replace(NAME, fqdn="gone.example.test", trashed_at=NOW)


@pytest.mark.parametrize(
    ("label", "after", "stage"),
    [
        (NAME, timedelta(), None),
        (LABEL, timedelta(), (IN_TRASH, NOW)),
        (LABEL, 23 * DAY - timedelta(microseconds=1), (IN_TRASH, NOW)),
        (LABEL, 23 * DAY, (ENDING, NOW)),
        (LABEL, 31 * DAY, (ENDING, NOW)),
        (replace(LABEL, trash_days=1), timedelta(hours=23), (IN_TRASH, NOW)),
        (replace(LABEL, suspended_at=NOW), 23 * DAY, None),
        (replace(LABEL, unsuspended_at=NOW + 9 * DAY), 23 * DAY, (IN_TRASH, NOW + 9 * DAY)),
        (replace(LABEL, purged_at=NOW + 30 * DAY), 30 * DAY, None),
    ],
)
def test_stage_of(label: Subdomain, after: timedelta, stage: object) -> None:
    assert warning_stage(label, NOW + after) == stage


@pytest.mark.parametrize("stage", [IN_TRASH, ENDING])
def test_notice_mail(stage: int) -> None:
    subject, text = notice_mail(stage, "ada.example.test", ["ns1.gone.example.test"], LABEL, "Ben")
    assert subject.startswith("Nameservers of ada.example.test ")
    for part in (
        "Hello Ben,",
        "ns1.gone.example.test",
        "21 December 2026, 09:30 UTC",
        "You can change the nameservers on the page of the name.",
    ):
        assert part in text


def test_removal_mail() -> None:
    hosts = ["ns1.gone.example.test", "ns2.gone.example.test"]
    subject, text = removal_mail("ada.example.test", hosts, 0, "gone.example.test", "Ben")
    assert subject == "Nameservers of ada.example.test were removed"
    assert "has no nameservers left" in text
    _, text = removal_mail("ada.example.test", hosts, 1, "gone.example.test", "Ben")
    assert "has 1 nameserver left" in text


def test_without_nameservers() -> None:
    ds = (DsRecord(1, 13, 2, "ab" * 32),)
    glue = (GlueEntry("ns1.ada.example.test", "8.8.8.8", None),)
    hosts = ("ns1.gone.example.test", "ns1.ada.example.test")
    delegation = Delegation(hosts, glue, ds)
    assert without_nameservers(delegation, hosts[:1]) == Delegation(hosts[1:], glue, ds)
    assert without_nameservers(delegation, hosts[1:]) == Delegation(hosts[:1], (), ds)
    assert without_nameservers(delegation, hosts) == Delegation()
