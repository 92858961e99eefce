"""The rule of records accepts what the zone checkers of Knot and BIND accept, except
for the listed policy.
"""

from pathlib import Path

import pytest

from sublet.dns.types import RecordSet, RecordSetInput
from sublet.subdomains.records.rule import check_records
from sublet.subdomains.records.zone_file import format_zone_file
from support.random_records import NAME, VALUES
from support.rule_domains import rule_domain
from support.zone_checkers import APEX, compare, difference, judge


def test_random_records_are_accepted_as_by_the_checkers(tmp_path: Path) -> None:
    judged = compare(52, 40, tmp_path)
    assert judged["all accept"] >= 10
    assert judged["all refuse"] >= 5


@pytest.mark.parametrize(
    "others", [("TXT", '"a"'), ("A", "8.8.8.8"), ("HTTPS", "1 ."), ("CNAME", "b.example.")]
)
def test_a_cname_beside_others_is_refused_by_all(others: tuple[str, str], tmp_path: Path) -> None:
    for owner in ("@", "www", "*"):
        entries = [
            RecordSetInput(owner, "CNAME", ("a.example.",)),
            RecordSetInput(owner, others[0], (others[1],)),
        ]
        assert difference(entries, tmp_path) == ("all refuse", "")


def test_all_types_are_written_as_the_checkers_read_them(tmp_path: Path) -> None:
    entries = [
        RecordSetInput(f"a{type_name.lower()}{at}", type_name, (value,))
        for type_name, values in VALUES.items()
        for at, value in enumerate(values)
    ]
    domain = rule_domain(record_private_addresses=True, record_sets_max=500)
    sets, errors = check_records(NAME, entries, domain)
    assert errors == ()
    text = format_zone_file(NAME, (*sets, RecordSet("*", "CNAME", 300, ("a.example.",))))
    assert judge(APEX + text, tmp_path) == {"bind": "", "knot": ""}
