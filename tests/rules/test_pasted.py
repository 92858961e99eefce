import pytest

from sublet.web.pasted import parse_pasted_delegation, parse_pasted_glue

DIGEST = "49FD46E6C4B45C55D4AC69CBD3CD34AC1AFE51DE2D1E6A7B0B5B5C5D5E5F6071"
DS = f"2371 13 2 {DIGEST}"
BOX = f"Your nameservers at p.example are:\n1. a.p.example\n2. b.p.example\nDS record: {DS}"
LABELS = f"Key tag: 2371\nAlgorithm: 13 (ECDSAP256SHA256)\nDigest type: 2 (SHA-256)\nDigest: {DIGEST}"
OTHERS = f"other.example. IN DS {DS}"
HOSTS = ("a.p.example", "b.p.example")


@pytest.mark.parametrize(
    ("text", "glue"),
    [
        ("", []),
        ("ns1.x 192.0.2.1 2001:db8::1", [{"host": "ns1.x", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1"}]),
        ("ns1.x. 3600 IN A 192.0.2.1", [{"host": "ns1.x", "ipv4": "192.0.2.1"}]),
        ("ns1.x. 1h30m IN A 192.0.2.1", [{"host": "ns1.x", "ipv4": "192.0.2.1"}]),
        ("ns1.x. IN 1W AAAA 2001:db8::1", [{"host": "ns1.x", "ipv6": "2001:db8::1"}]),
        ("ns1.x. AAAA 2001:db8::1 ; old", [{"host": "ns1.x", "ipv6": "2001:db8::1"}]),
        ("ns1.x 192.0.2.1, 192.0.2.2", [{"host": "ns1.x", "ipv4": f"192.0.2.{last}"} for last in (1, 2)]),
        ("ns1.x", [{"host": "ns1.x"}]),
        ("ns1.x nonsense", [{"host": "ns1.x", "ipv4": "nonsense"}]),
    ],
)
def test_glue(text: str, glue: list[dict[str, str]]) -> None:
    assert list(parse_pasted_glue(text, "x", ["ns1.x"]).values) == glue


@pytest.mark.parametrize(
    ("nameservers", "ds_records", "taken", "ignored"),
    [
        (BOX, "", (HOSTS, (DS,)), ()),
        (BOX, BOX, (HOSTS, (DS,)), ()),
        (f"{BOX}\nCopy", "", (HOSTS, (DS,)), ("Copy",)),
        (f"a.p.example\nb.p.example\n{LABELS}", "", (HOSTS, (DS,)), ()),
        (f"DS record: {DS}", "", ((), (DS,)), ()),
        ("\n".join(HOSTS), f"Nameservers:\n{DS}", (HOSTS, (DS,)), ()),
        (f"1 a.p.example\n2 b.p.example\n{OTHERS}", "", (HOSTS, ()), (OTHERS,)),
    ],
)  # fmt: skip
def test_a_box_of_nameservers_and_ds_records(
    nameservers: str, ds_records: str, taken: tuple[tuple[str, ...], ...], ignored: tuple[str, ...]
) -> None:
    found = parse_pasted_delegation(nameservers, "", ds_records, "blog.example.test")
    assert ((found.nameservers, found.ds_records), found.ignored) == (taken, ignored)
