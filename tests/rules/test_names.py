# ruff: noqa: RUF001, SIM905 - look-alikes and long lists of names are what is tested
from collections.abc import Callable

import idna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.dns import names
from sublet.dns.names import InvalidName, parse_domain_name, parse_host_name, parse_label

Parser = Callable[[str], str]

LABELS = [
    ("foo", "foo"),
    ("Foo", "foo"),
    ("fo\u200bo", "foo"),  # zero-width space
    ("fo\u00ado", "foo"),  # soft hyphen
    ("ｆｏｏ", "foo"),
    ("\u212aelvin", "kelvin"),  # the Kelvin sign
    ("①", "1"),
    ("ﬁne", "fine"),  # a ligature
    ("123", "123"),
    ("a", "a"),
    ("a--b", "a--b"),
    ("ab--cd", "ab--cd"),
    ("dev", "dev"),
    ("straße", "xn--strae-oqa"),
    ("STRAẞE", "xn--strae-oqa"),
    ("xn--strae-oqa", "xn--strae-oqa"),
    ("XN--STRAE-OQA", "xn--strae-oqa"),
    ("é", "xn--9ca"),
    ("e\u0301", "xn--9ca"),
    ("É", "xn--9ca"),
    ("faß", "xn--fa-hia"),
    ("fass", "fass"),
    ("例え", "xn--r8jz45g"),
    ("نامه\u200cای", "xn--mgba3gch31f060k"),  # a joiner where CONTEXTJ allows it
    ("l·l", "xn--ll-0ea"),  # a middle dot where CONTEXTO allows it
    ("a" * 63, "a" * 63),
]


NO_LABELS = [
    *(
        "",
        ".",
        "foo.",
        ".foo",
        "a.b",
        "a。b",
        "a．b",
        "foo。",
        "-foo",
        "foo-",
        "-",
        "ab--",
        "_acme-challenge",
    ),
    *(
        "＿dmarc",
        "a*",
        "＊",
        "＠",
        "$INCLUDE",
        " a",
        "a ",
        "a\u00a0b",
        "a\tb",
        "a\n",
        "a\nb",
        "a\0b",
        "a\x7f",
    ),
    *(r"a\.b", r"a\046b", "a;b", 'a"b', "a(b", "a%2eb", "\ud800", "a\udfffb", "\u200b", "\u0301a", "💩", "☃"),
    *("a\u200db", "a·b"),  # a joiner and a middle dot where CONTEXTJ and CONTEXTO don't allow them
    *("1נ", "a" * 64, "ä" * 60, "a" * 1001, "\u200b" * 100_000),  # the first one by RFC 5893
    *("xn--", "xn--a", "xn--foo-", "xn--ls8h", "xn--999999999", "xn--STRASSE-", "äb--c"),
    "xn---bbk",  # decodes to the same as xn--bbk
    *("a\u2024b", "a\u2488", "\u2260", "\ufdfa", "\U000e0061", "\ufeff"),  # dots, ligatures and tags
]


@pytest.mark.parametrize(("text", "label"), LABELS)
def test_a_label_has_one_form_on_the_wire(text: str, label: str) -> None:
    assert parse_label(text) == label
    assert parse_label(label) == label
    assert parse_label(names.to_unicode(label)) == label


@pytest.mark.parametrize("text", NO_LABELS, ids=lambda text: ascii(text)[:30])
def test_an_invalid_label_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(InvalidName) as refused:
        parse_label(text)
    message = str(refused.value)
    assert message.endswith(".")
    assert message.isprintable()
    assert len(message) < 300
    message.encode()  # a lone surrogate would make the answer a fault


def test_each_wrong_character_is_named_once() -> None:
    with pytest.raises(InvalidName, match=r"contains `_`, a space, `!`\. Use letters"):
        parse_label("blog_1 _!")
    with pytest.raises(InvalidName, match=r"contains `#`, `%`, `&`, `@`, `!`, `~`, `=`, `\{`\. Use"):
        parse_label("#%&@!~={}")


def test_an_a_label_that_is_not_canonical_is_refused() -> None:
    # Punycode of "ÄB": decodes, but the one A-label is that of "äb".
    for fake in ("xn--" + "Äb".encode("punycode").decode(), "xn--" + "e\u0301".encode("punycode").decode()):
        with pytest.raises(InvalidName):
            parse_label(fake)


HOSTS = [
    ("ns1.example.com", "ns1.example.com"),
    ("NS1.Example.COM.", "ns1.example.com"),
    ("ns1。example．com｡", "ns1.example.com"),
    ("ｎｓ１.example.com", "ns1.example.com"),
    ("ns1.bücher.example", "ns1.xn--bcher-kva.example"),
    ("ns1.XN--BCHER-KVA.example", "ns1.xn--bcher-kva.example"),
    ("1.2.3.4.example", "1.2.3.4.example"),
    ("a.b", "a.b"),
    ("1e100.net", "1e100.net"),
    ("ab--cd.example", "ab--cd.example"),
    (".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61]), ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])),
]


NO_NAMES = [
    *("", ".", "..", "ns1.", "ns1..example.com", "ns1.example.com..", ".ns1.example.com", "ns1.example.123"),
    *("192.0.2.1", "１９２.0.2.1", "2001:db8::1", "[2001:db8::1]", "ns1.example.com:53", "ns_1.example.com"),
    *("*.example.com", "@.example.com", "$INCLUDE.example.com", "ns1.example.com\n", "ns1\n.example.com"),
    *(
        "ns1.example.com\0",
        r"ns1\.example.com",
        r"ns1.example.com\010",
        " ns1.example.com",
        "ns1.example.com;",
    ),
    *("-ns1.example.com", "ns1.-example.com", "ns1.example.com\ud800", "http://ns1.example.com/"),
    *("a" * 64 + ".example.com", ".".join(["ü" * 20] * 10), "a." * 600, "💩.example"),
    ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 62]),
]


@pytest.mark.parametrize("parse", [parse_host_name, parse_domain_name])
@pytest.mark.parametrize(("text", "name"), HOSTS)
def test_a_name_has_one_form_on_the_wire(text: str, name: str, parse: Parser) -> None:
    assert parse(text) == name
    assert parse(name + ".") == name


@pytest.mark.parametrize("parse", [parse_host_name, parse_domain_name])
@pytest.mark.parametrize("text", NO_NAMES, ids=lambda text: ascii(text)[:30])
def test_an_invalid_name_is_refused_with_a_sentence(text: str, parse: Parser) -> None:
    with pytest.raises(InvalidName) as refused:
        parse(text)
    message = str(refused.value)
    assert message.endswith(".")
    assert message.isprintable()
    message.encode()


def test_a_label_of_idna_2003_is_accepted_in_nameservers_only() -> None:
    assert parse_host_name("ns1.XN--LS8H.la") == "ns1.xn--ls8h.la"
    with pytest.raises(InvalidName):
        parse_domain_name("ns1.xn--ls8h.la")


RESERVED = """
    www mail wpad isatap autodiscover autoconfig localhost localdomain broadcasthost ns ns0 ns1 ns42 ns007 imap smtp pop pop3
    admin administrator root login signin account secure payment billing webmail sso
    mta-sts openpgpkey info marketing sales support abuse noc security postmaster hostmaster usenet news webmaster uucp ftp
    ab--cd xx--a 12--34 a---b
""".split()  # noqa: E501
FREE = """
    blog shop dev test foo admins api my-login www1 wwww nsa ns1a n ns-1 mail2 a--b abc--d xn--bcher-kva
    example web static git status
""".split()


def test_reserved_and_free_labels() -> None:
    assert [each for each in (*RESERVED, *FREE) if names.is_reserved(parse_label(each))] == RESERVED


def test_below() -> None:
    assert names.is_below("a.example.test", "example.test")
    assert not names.is_below("example.test", "example.test")
    assert not names.is_below("aexample.test", "example.test")
    assert not names.is_below("test", "example.test")
    assert names.is_at_or_below("example.test", "example.test")
    assert not names.is_at_or_below("badexample.test", "example.test")
    assert names.ancestors("a.b.c") == ("b.c", "c")
    assert names.ancestors("c") == ()
    assert names.to_unicode("ns1.xn--bcher-kva.xn--ls8h.la") == "ns1.bücher.xn--ls8h.la"
    assert names.is_idn("xn--9ca")
    assert not names.is_idn("ab--cd")


WIRE_LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,3}[a-z0-9])?", fullmatch=True)
WIRE_NAME = st.lists(WIRE_LABEL, min_size=1, max_size=4).map(".".join)


@pytest.mark.uncovered
@given(WIRE_NAME, WIRE_NAME, WIRE_NAME)
def test_all_names_below_a_name_are_one_range_of_keys(name: str, ancestor: str, other: str) -> None:
    key = names.owner_key(ancestor)
    for candidate in (
        name,
        f"{name}.{ancestor}",
        f"{name}-{ancestor}",
        f"{other}.{name}.{ancestor}",
        f"{ancestor}0",
    ):
        in_range = (key + ".").encode() <= names.owner_key(candidate).encode() < (key + "/").encode()
        assert in_range == names.is_below(candidate, ancestor)


def test_owner_key() -> None:
    assert names.owner_key("a.example.test") == "test.example.a"


@given(st.text(max_size=30) | st.from_regex(r"(?i)xn--[a-z0-9-]{0,20}", fullmatch=True))
def test_any_text_is_one_canonical_label_or_refused(text: str) -> None:
    try:
        label = parse_label(text)
    except InvalidName:
        return
    assert label.isascii()
    assert label == label.lower()
    assert 1 <= len(label) <= 63
    assert "." not in label
    assert set(label) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert parse_label(label) == label
    if names.is_idn(label):
        assert idna.alabel(idna.ulabel(label)).decode() == label
        assert parse_label(names.to_unicode(label)) == label


@given(st.text(max_size=60) | st.text("aZ1-.\\\n@$*_ é。\ud800", max_size=20))
def test_any_text_is_one_canonical_name_or_refused(text: str) -> None:
    for parse in (parse_host_name, parse_domain_name):
        try:
            name = parse(text)
        except InvalidName:
            continue
        assert parse(name) == name
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
        assert len(name) <= 253
        assert name.count(".") >= 1
        assert all(1 <= len(label) <= 63 for label in name.split("."))
