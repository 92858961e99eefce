"""The canonical form of an e-mail address."""

import pytest

from sublet.accounts.fields import (
    EMAIL_LENGTH_MAX,
    InvalidAddress,
    canonical_address,
    check_email,
    normalise_email,
)
from sublet.dns.names import parse_host_name

ME = "me@inbox.example"
BOOKS = "ada@xn--bcher-kva.example"
SPELLINGS = {
    ME: (
        "ME@INBOX.EXAMPLE",
        " me@inbox.example\n",
        "Me@Inbox.Example.",
        "me@\uff29\uff2e\uff22\uff2f\uff38\uff0eexample",
        "me@inbox\u3002example",
        "me@inbox\uff61example\u3002",
        "me@in\u00adbox.example",
        "me@in\u200bbox.example",
    ),
    BOOKS: (
        "ada@bücher.example",
        "ada@BÜCHER.example.",
        "ada@bu\u0308cher.example",
        "ADA@XN--BCHER-KVA.EXAMPLE",
    ),
    "zo\u00eb@inbox.example": ("zoe\u0308@inbox.example", "ZOE\u0308@\uff49nbox.example."),
    # Dots and tags before the @ distinguish mailboxes.
    "m.e@inbox.example": ("M.E@inbox.example",),
    "me+shop@inbox.example": ("me+SHOP@inbox.example.",),
    "me@xn--strae-oqa.example": ("me@straße.example", "me@STRAẞE.example"),
}
INVALID = (
    *("", "me", "@inbox.example", "me@", "me@localhost", "me@@inbox.example", "me\uff20inbox.example"),
    *("me@inbox.example..", "me@.inbox.example", "me@inbox\u3002\u3002example", "me@9.9.9.9", "me@[9.9.9.9]"),
    *("m e@inbox.example", "m\u200be@inbox.example", "me\n@inbox.example", '"me"@inbox.example'),
    *(
        "m,e@inbox.example",
        "me@in_box.example",
        "a" * 65 + "@inbox.example",
        "a" * 5000 + "@inbox.example",
        "me@" + "a" * 5000,
    ),
)


@pytest.mark.parametrize(
    ("canonical", "spelling"),
    [(each, spelling) for each, all_ in SPELLINGS.items() for spelling in (each, *all_)],
)
def test_all_spellings_of_a_mailbox_have_one_canonical_form(canonical: str, spelling: str) -> None:
    assert canonical_address(spelling) == normalise_email(spelling) == canonical
    assert check_email(spelling) == (canonical, [])


def test_different_mailboxes_stay_different() -> None:
    assert len(SPELLINGS) == len({canonical_address(each) for each in SPELLINGS})


@pytest.mark.parametrize("text", INVALID)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidAddress):
        canonical_address(text)
    (error,) = check_email(text)[1]
    assert (error.field, error.code) == ("email", "value_invalid")


def test_an_address_is_measured_in_a_labels() -> None:
    domain = ".".join(["äöü" * 11] * 6)
    assert len(f"{domain}.example") + 20 < EMAIL_LENGTH_MAX < len(f"{'a' * 60}@{parse_host_name(domain)}")
    with pytest.raises(InvalidAddress, match="at most 254"):
        canonical_address(f"{'a' * 60}@{domain}")
    with pytest.raises(InvalidAddress):
        canonical_address(f"me@{'.'.join(['ü' * 55] * 4)}.example")


def test_the_text_in_place_of_an_account_s_address_is_kept() -> None:
    assert normalise_email(" Organization:12 ") == "organization:12"
    assert normalise_email("deleted user 5") == "deleted user 5"
