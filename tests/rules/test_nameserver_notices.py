"""Notices about nameservers below a lapsing name: their dates."""

from datetime import timedelta

import pytest

from sublet.dns.delegation import without_nameservers
from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.structs import replace
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameserver_notices import ENDING, IN_TRASH, warning_stage
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


def test_without_nameservers() -> None:
    ds = (DsRecord(1, 13, 2, "ab" * 32),)
    glue = (GlueEntry("ns1.ada.example.test", "8.8.8.8", None),)
    hosts = ("ns1.gone.example.test", "ns1.ada.example.test")
    delegation = Delegation(hosts, glue, ds)
    assert without_nameservers(delegation, hosts[:1]) == Delegation(hosts[1:], glue, ds)
    assert without_nameservers(delegation, hosts[1:]) == Delegation(hosts[:1], (), ds)
    assert without_nameservers(delegation, hosts) == Delegation()
