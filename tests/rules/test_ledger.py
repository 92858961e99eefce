import pytest

from sublet.credits.ledger import REGISTRY_ACCOUNTS, NewEntry, check_entry, registry_account


def _entry(kind: str, credit_count: int) -> NewEntry:
    return NewEntry(1, kind, credit_count, "reference", "description")


@pytest.mark.parametrize(
    ("kind", "house"),
    [
        ("purchase", "sales"),
        ("grant", "grants"),
        ("adjustment", "adjustments"),
        ("charge", "revenue"),
        ("refund", "revenue"),
    ],
)
def test_every_kind_of_transfer_has_its_contra_account(kind: str, house: str) -> None:
    assert registry_account(kind) == house
    assert house in REGISTRY_ACCOUNTS


@pytest.mark.parametrize(
    ("kind", "gives", "takes"),
    [
        ("purchase", True, False),
        ("grant", True, False),
        ("refund", True, False),
        ("charge", False, True),
        ("adjustment", True, True),
        ("gift", False, False),
    ],
)
def test_the_direction_of_each_kind(*, kind: str, gives: bool, takes: bool) -> None:
    for credit_count, allowed in ((1, gives), (-1, takes), (0, False)):
        if allowed:
            check_entry(_entry(kind, credit_count))
        else:
            with pytest.raises(ValueError, match="impossible ledger entry"):
                check_entry(_entry(kind, credit_count))
