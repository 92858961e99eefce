"""Each paste from a DNS provider gives the entries that the provider means, and the rules accept them."""

from itertools import cycle, product

import pytest

from sublet.dns.delegation import check_delegation
from sublet.dns.types import GlueEntry
from sublet.web.pasted import (
    parse_pasted_delegation,
    parse_pasted_ds,
    parse_pasted_glue,
    parse_pasted_nameservers,
)
from support.repetitions import share

FQDN = "own.example.test"
DIGEST = "1F987CC6583E92DF0890718C42A1D3B1A1F4B4A6B2D8A1DD09A4C1D7F4D3E5A6"
LONG = "AB" * 48
KEY = "mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ=="
DS = f"2371 13 2 {DIGEST}"
DS_384 = f"2371 13 4 {LONG}"
DNSKEY = f"257 3 13 {KEY}"

NAMESERVERS = {
    "cloudflare-cards": (
        "Type\tValue\nNS\tabby.ns.cloudflare.com\nNS\tclark.ns.cloudflare.com",
        ["abby.ns.cloudflare.com", "clark.ns.cloudflare.com"],
    ),
    "cloudflare-mail": (
        (
            "Log in to your registrar account. Replace your nameservers with Cloudflare's:\n"
            "  1. abby.ns.cloudflare.com\n  2. clark.ns.cloudflare.com\nSave your changes."
        ),
        ["abby.ns.cloudflare.com", "clark.ns.cloudflare.com"],
    ),
    "cloudflare-heading": (
        "Your nameservers at cloudflare.com are:\nabby.ns.cloudflare.com\nclark.ns.cloudflare.com",
        ["abby.ns.cloudflare.com", "clark.ns.cloudflare.com"],
    ),
    "cloudflare-title": (
        "Nameservers at cloudflare.com\nabby.ns.cloudflare.com\nclark.ns.cloudflare.com",
        ["abby.ns.cloudflare.com", "clark.ns.cloudflare.com"],
    ),
    "registrar-sentence": (
        (
            "Log in at registrar.example and replace dns1.registrar.example by\n"
            "Nameserver 1\tns1.provider.example\nNameserver 2\tns2.provider.example\n"
            "Help at provider.example."
        ),
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "labels-of-two-words": (
        "Name servers   ns1.provider.example\n               ns2.provider.example",
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "nothing-but-a-sentence": (
        "Please set ns1.provider.example and ns2.provider.example.",
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "unknown-labels": (
        "Erster Nameserver: ns1.provider.example\nZweiter Nameserver: ns2.provider.example",
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "cloudflare-buttons": (
        "abby.ns.cloudflare.com\nClick to copy\nclark.ns.cloudflare.com\nClick to copy",
        ["abby.ns.cloudflare.com", "clark.ns.cloudflare.com"],
    ),
    "route53-console": (
        (
            "Name "
            "servers\nns-2048.awsdns-64.com\nns-2049.awsdns-65.net\nns-2050.awsdns-66.org\nns-2051.awsdns-67.co.uk"
        ),
        [
            "ns-2048.awsdns-64.com",
            "ns-2049.awsdns-65.net",
            "ns-2050.awsdns-66.org",
            "ns-2051.awsdns-67.co.uk",
        ],
    ),
    "route53-record": (
        f"{FQDN}\tNS\tSimple\t-\tNo\nns-2048.awsdns-64.com.\nns-2049.awsdns-65.net.\n172800",
        ["ns-2048.awsdns-64.com", "ns-2049.awsdns-65.net"],
    ),
    "route53-cli": (
        (
            '{\n  "DelegationSet": {\n    "NameServers": [\n      "ns-2048.awsdns-64.com",\n      '
            '"ns-2049.awsdns-65.net"\n    ]\n  }\n}'
        ),
        ["ns-2048.awsdns-64.com", "ns-2049.awsdns-65.net"],
    ),
    "google-yaml": (
        (
            "id: '1234'\nkind: dns#managedZone\nname: own\nnameServers:\n- ns-cloud-a1.googledomains.com.\n- "
            "ns-cloud-a2.googledomains.com."
        ),
        ["ns-cloud-a1.googledomains.com", "ns-cloud-a2.googledomains.com"],
    ),
    "google-table": (
        (
            f"NAME               TYPE  TTL    DATA\n{FQDN}.  NS    21600  "
            "ns-cloud-a1.googledomains.com.,ns-cloud-a2.googledomains.com.\n"
            f"{FQDN}.  SOA   21600  ns-cloud-a1.googledomains.com. cloud-dns-hostmaster.google.com. 1 "
            "21600 3600 259200 300"
        ),
        ["ns-cloud-a1.googledomains.com", "ns-cloud-a2.googledomains.com"],
    ),
    "azure-portal": (
        (
            "Name server 1\nns1-01.azure-dns.com.\nName server 2\nns2-01.azure-dns.net.\nName server "
            "3\nns3-01.azure-dns.org."
        ),
        ["ns1-01.azure-dns.com", "ns2-01.azure-dns.net", "ns3-01.azure-dns.org"],
    ),
    "azure-cli": (
        '[\n  "ns1-01.azure-dns.com.",\n  "ns2-01.azure-dns.net."\n]',
        ["ns1-01.azure-dns.com", "ns2-01.azure-dns.net"],
    ),
    "digitalocean-table": (
        (
            f"Type\tHostname\tValue\tTTL (seconds)\nNS\t{FQDN}\tdirects to ns1.digitalocean.com.\t1800\n"
            f"NS\t{FQDN}\tdirects to ns2.digitalocean.com.\t1800"
        ),
        ["ns1.digitalocean.com", "ns2.digitalocean.com"],
    ),
    "digitalocean-sentence": (
        "Point your name servers to ns1.digitalocean.com, ns2.digitalocean.com, and ns3.digitalocean.com.",
        ["ns1.digitalocean.com", "ns2.digitalocean.com", "ns3.digitalocean.com"],
    ),
    "hetzner-console": (
        (
            "Name server\thelium.ns.hetzner.de.\nName server\thydrogen.ns.hetzner.com.\nName "
            "server\toxygen.ns.hetzner.com."
        ),
        ["helium.ns.hetzner.de", "hydrogen.ns.hetzner.com", "oxygen.ns.hetzner.com"],
    ),
    "hetzner-records": (
        "@\tNS\thelium.ns.hetzner.de.\t86400\n@\tNS\thydrogen.ns.hetzner.com.\t86400",
        ["helium.ns.hetzner.de", "hydrogen.ns.hetzner.com"],
    ),
    "desec": ("ns1.desec.io\nns2.desec.org", ["ns1.desec.io", "ns2.desec.org"]),
    "desec-steps": (
        "Nameservers:\n• ns1.desec.io\n• ns2.desec.org\nCopied to clipboard",
        ["ns1.desec.io", "ns2.desec.org"],
    ),
    "ovh": (
        "DNS server\tAssociated IP\tStatus\ndns104.ovh.net\t-\tEnabled\nns104.ovh.net\t-\tEnabled",
        ["dns104.ovh.net", "ns104.ovh.net"],
    ),
    "ovh-zone": (
        (
            "$TTL 3600\n@\tIN SOA dns104.ovh.net. tech.ovh.net. (2026112700 86400 3600 3600000 60)\n"
            "        IN NS     dns104.ovh.net.\n        IN NS     ns104.ovh.net.\nwww     IN A      "
            "198.51.100.7"
        ),
        ["dns104.ovh.net", "ns104.ovh.net"],
    ),
    "gandi": (
        "Nameserver 1: ns-10-a.gandi.net\nNameserver 2: ns-11-b.gandi.net\nNameserver 3: ns-12-c.gandi.net",
        ["ns-10-a.gandi.net", "ns-11-b.gandi.net", "ns-12-c.gandi.net"],
    ),
    "gandi-zone": (
        (
            "@ 10800 IN SOA ns1.gandi.net. hostmaster.gandi.net. 1 10800 3600 604800 10800\n@ 10800 IN NS "
            "ns-10-a.gandi.net.\n"
            "@ 10800 IN NS ns-11-b.gandi.net.\nlab 10800 IN NS ns.lab.example."
        ),
        ["ns-10-a.gandi.net", "ns-11-b.gandi.net"],
    ),
    "netlify": (
        "dns1.p01.nsone.net\ndns2.p01.nsone.net\ndns3.p01.nsone.net\ndns4.p01.nsone.net",
        ["dns1.p01.nsone.net", "dns2.p01.nsone.net", "dns3.p01.nsone.net", "dns4.p01.nsone.net"],
    ),
    "vercel": (
        (
            "Nameservers   Intended Nameservers     Current Nameservers\nns1.vercel-dns.com    "
            "✘\nns2.vercel-dns.com    ✘"
        ),
        ["ns1.vercel-dns.com", "ns2.vercel-dns.com"],
    ),
    "linode": (
        "NS Record\nName Server\tSubdomain\tTTL\nns1.linode.com\t"
        + FQDN
        + "\tDefault\nns2.linode.com\t"
        + FQDN
        + "\tDefault",
        ["ns1.linode.com", "ns2.linode.com"],
    ),
    "dnsimple": (
        "NS\t@\tns1.dnsimple.com\t1h\nNS\t@\tns2.dnsimple-edge.net\t1h",
        ["ns1.dnsimple.com", "ns2.dnsimple-edge.net"],
    ),
    "hurricane": (
        "1. ns1.he.net\n2. ns2.he.net\n3. ns3.he.net",
        ["ns1.he.net", "ns2.he.net", "ns3.he.net"],
    ),
    "porkbun": (
        "curitiba.ns.porkbun.com;fortaleza.ns.porkbun.com;maceio.ns.porkbun.com",
        ["curitiba.ns.porkbun.com", "fortaleza.ns.porkbun.com", "maceio.ns.porkbun.com"],
    ),
    "namecheap": (
        "Custom DNS\ndns1.registrar-servers.com\ndns2.registrar-servers.com\nADD NAMESERVER",
        ["dns1.registrar-servers.com", "dns2.registrar-servers.com"],
    ),
    "bunny": (
        "Nameserver 1\nkiki.bunny.net\nCopy\nNameserver 2\ncoco.bunny.net\nCopy",
        ["kiki.bunny.net", "coco.bunny.net"],
    ),
    "cloudns": (
        f"{FQDN}\tNS\tpns41.cloudns.net\t3600\n{FQDN}\tNS\tpns42.cloudns.net\t3600",
        ["pns41.cloudns.net", "pns42.cloudns.net"],
    ),
    "godaddy-addresses": (
        "ns01.domaincontrol.com (97.74.100.1)\nns02.domaincontrol.com (173.201.68.1)",
        ["ns01.domaincontrol.com", "ns02.domaincontrol.com"],
    ),
    "whois": (
        (
            f"Domain Name: {FQDN}\nName Server: NS1.PROVIDER.EXAMPLE\nName Server: "
            "NS2.PROVIDER.EXAMPLE\nDNSSEC: unsigned"
        ),
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "dig": (
        (
            f"; <<>> DiG 9.20.1 <<>> NS {FQDN}\n;; ANSWER "
            f"SECTION:\n{FQDN}.\t3600\tIN\tNS\tns1.provider.example.\n"
            f"{FQDN}.\t3600\tIN\tNS\tns2.provider.example.\n\n;; ADDITIONAL "
            "SECTION:\nns1.provider.example. 3600 IN A 198.51.100.1\n"
            ";; Query time: 12 msec"
        ),
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "dig-short": (
        "ns1.provider.example.\nns2.provider.example.\n",
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "host": (
        f"{FQDN} name server ns1.provider.example.\n{FQDN} name server ns2.provider.example.",
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "nslookup": (
        (
            f"Server:\t\t192.0.2.53\nAddress:\t192.0.2.53#53\n\nNon-authoritative answer:\n{FQDN}\tnameserver "  # noqa: E501
            "= ns1.provider.example."
        ),
        ["ns1.provider.example"],
    ),
    "bind-zone": (
        (
            f"$ORIGIN {FQDN}.\n@ IN SOA ns1 hostmaster (\n  2026112701 ; serial\n  3600 ; refresh\n  900 "
            "1209600 300 )\n"
            "@    IN NS ns1\n     IN NS ns2.provider.example.\nns1  IN A 8.8.8.8\nsub  IN NS "
            "ns9.provider.example.\nwww  IN A 8.8.4.4"
        ),
        [f"ns1.{FQDN}", "ns2.provider.example"],
    ),
    "twice": (
        "ns1.provider.example\nNS1.provider.example.\nNS ns1.provider.example\nns2.provider.example",
        ["ns1.provider.example", "ns2.provider.example"],
    ),
    "own-hosts": (f"ns1.{FQDN} 8.8.8.8\nns2.{FQDN} 8.8.4.4", [f"ns1.{FQDN}", f"ns2.{FQDN}"]),
}
DS_RECORDS = {
    "cloudflare": (
        (
            f"DS Record\n{FQDN}. 3600 IN DS {DS}\nClick to copy\nDigest\n{DIGEST}\nClick to copy\nDigest "
            "Type\nSHA256\n2\nAlgorithm\n13\n"
            f"Public Key\n{KEY}\nClick to copy\nKey Tag\n2371\nFlags\n257 (KSK)"
        ),
        [DS],
    ),
    "route53-console": (
        (
            "Flags\n257\nSigning algorithm type\nECDSAP256SHA256\nSigning algorithm\n13\nDigest algorithm "
            "type\nSHA-256\n"
            f"Digest algorithm\n2\nDigest\n{DIGEST}\nKey tag\n2371\nDS record\n2371 13 2 {DIGEST}"
        ),
        [DS],
    ),
    "route53-cli": (f'"DSRecord": "2371 13 2 {DIGEST}",\n"KeyTag": 2371,', [DS]),
    "google-yaml": (
        f"algorithm: ecdsap256sha256\nkeyTag: 2371\ndigests:\n- type: sha256\ndsRecord: 2371 13 2 {DIGEST}",
        [DS],
    ),
    "desec-json": (f'"ds": [\n  "2371 13 2 {DIGEST}",\n  "2371 13 4 {LONG}"\n]', [DS, DS_384]),
    "desec-format": (
        f"DS Format\n2371 13 2 {DIGEST}\n2371 13 4 {LONG}\nDNSKEY Format\n257 3 13 {KEY}",
        [DS, DS_384, DNSKEY],
    ),
    "hetzner-labels": (
        f"Key tag: 2371\nAlgorithm: 13 (ECDSAP256SHA256)\nDigest type: 2 (SHA-256)\nDigest: {DIGEST.lower()}",
        [DS.replace(DIGEST, DIGEST.lower())],
    ),
    "dnsimple": (f"Key Tag\n2371\nAlgorithm\n13\nDigest Type\n2\nDigest\n{DIGEST}", [DS]),
    "dnsimple-two": (
        (
            f"Key Tag: 2371\nAlgorithm: 13\nDigest Type: 2\nDigest: {DIGEST}\nKey Tag: 2371\nAlgorithm: "
            f"13\nDigest Type: 4\nDigest: {LONG}"
        ),
        [DS, DS_384],
    ),
    "porkbun-table": (
        (
            "Key Tag\tDS Data Algorithm\tDigest Type\tDigest\n2371\t13 (ECDSA Curve P-256 with SHA-256)\t2 "
            f"(SHA-256)\t{DIGEST}"
        ),
        [DS],
    ),
    "namecheap-table": (
        (
            "Key Tag    Algorithm             Digest Type   Digest\n2371       13 ECDSA/SHA-256      2 "
            f"SHA-256     {DIGEST}"
        ),
        [DS],
    ),
    "pipes": (f"| 2371 | ECDSAP256SHA256 | SHA-256 | {DIGEST} |", [DS]),
    "label-and-ttl": (f"DS record:  {FQDN}. 3600 IN DS 2371 13 2 {DIGEST}", [DS]),
    "ttl-without-type": (f"{FQDN}. 3600 2371 13 2 {DIGEST}", [DS]),
    "numbered": (f"1. DS 1: 2371 13 2 {DIGEST}", [DS]),
    "names-in-place-of-numbers": (f"2371 ECDSAP256SHA256 SHA-256 {DIGEST}", [DS]),
    "key-with-label-and-ttl": (f"DNSKEY record: {FQDN}. 3600 IN DNSKEY 257 3 13 {KEY}", [DNSKEY]),
    "dashes": (f"2371 13 - ECDSA Curve P-256 with SHA-256 2 - SHA-256 {DIGEST}", [DS]),
    "split": (f"{FQDN}. IN DS 2371 13 2 {DIGEST[:56]} {DIGEST[56:]}", [DS]),
    "gandi-key": (f"Flags: 257 (KSK)\nAlgorithm: 13 (ECDSAP256SHA256)\nPublic key: {KEY}", [DNSKEY]),
    "ovh-key": (f"Key Tag\tFlag\tAlgorithm\nFlags\n257\nAlgorithm\n13\nPublic key\n{KEY}", [DNSKEY]),
    "powerdns": (
        (
            "ID = 1 (CSK), flags = 257, tag = 2371, algo = 13, bits = 256\t  Active\t Published  ( "
            "ECDSAP256SHA256 )\n"
            f"CSK DNSKEY = {FQDN}. IN DNSKEY 257 3 13 {KEY} ; ( ECDSAP256SHA256 )\n"
            f"DS = {FQDN}. IN DS 2371 13 2 {DIGEST} ; ( SHA256 digest )\nDS = {FQDN}. IN DS 2371 13 4 "
            f"{LONG} ; ( SHA-384 digest )"
        ),
        [DNSKEY, DS, DS_384],
    ),
    "knot-keymgr": (
        f"{FQDN}. DS 2371 13 2 {DIGEST.lower()}\n{FQDN}. DS 2371 13 4 {LONG.lower()}",
        [DS.lower(), DS_384.lower()],
    ),
    "dnssec-dsfromkey": (f"{FQDN}. IN DS 2371 13 2 {DIGEST}", [DS]),
    "dig-dnskey": (
        (
            f"; <<>> DiG 9.20.1 <<>> DNSKEY {FQDN} +multiline\n{FQDN}. 3600 IN DNSKEY 256 3 13 (\n  "
            f"{KEY[:40]}\n  {KEY[40:]}\n"
            f"  ) ; ZSK; alg = ECDSAP256SHA256 ; key id = 1\n{FQDN}. 3600 IN DNSKEY 257 3 13 (\n  "
            f"{KEY[:40]}\n  {KEY[40:]}\n"
            "  ) ; KSK; alg = ECDSAP256SHA256 ; key id = 2371"
        ),
        [DNSKEY],
    ),
    "dig-cds": (
        f"{FQDN}. 3600 IN CDS {DS}\n{FQDN}. 3600 IN RRSIG CDS 13 3 3600 20261201 20261101 2371 {FQDN}. {KEY}",
        [DS],
    ),
    "zone-file": (
        (
            f"@ IN NS ns1.provider.example.\n@ IN DNSKEY 257 3 13 {KEY}\n@ IN DNSKEY 256 3 13 "
            f"{KEY}\nsub.{FQDN}. IN DS {DS}\nwww IN A 8.8.4.4"
        ),
        [DNSKEY],
    ),
}


@pytest.mark.parametrize("paste", NAMESERVERS)
def test_nameservers(paste: str) -> None:
    text, wanted = NAMESERVERS[paste]
    found = parse_pasted_nameservers(text, FQDN)
    assert list(found.values) == wanted
    glue = parse_pasted_glue(f"ns1.{FQDN} 8.8.8.8\nns2.{FQDN} 8.8.4.4", FQDN).values
    entries = [GlueEntry(each["host"], each.get("ipv4")) for each in glue if each["host"] in wanted]
    _, errors = check_delegation(FQDN, found.values, entries, (), nameservers_min=1, nameservers_max=13)
    assert errors == ()


@pytest.mark.parametrize("paste", DS_RECORDS)
def test_ds_records(paste: str) -> None:
    text, wanted = DS_RECORDS[paste]
    found = parse_pasted_ds(text, FQDN)
    assert list(found.values) == wanted
    delegation, errors = check_delegation(
        FQDN, ["ns1.provider.example"], (), found.values, nameservers_min=1, nameservers_max=13
    )
    assert (errors, len(delegation.ds_records) > 0) == ((), True)


def test_ignored_lines_are_named_once() -> None:
    text, _ = NAMESERVERS["bind-zone"]
    assert [line.split()[0] for line in parse_pasted_nameservers(text, FQDN).ignored] == [
        "$ORIGIN",
        "@",
        "ns1",
        "sub",
        "www",
    ]
    assert parse_pasted_nameservers("ns1.x.example\nCopy\nCopy", FQDN).ignored == ("Copy",)
    assert parse_pasted_ds(f"{DS}\nhello\nhello", FQDN).ignored == ("hello",)


@pytest.mark.parametrize(
    "text", ["hello", "ns1", "192.0.2.1", "ns1_x.example\nns2.x.example", "abby.ns.x,com", "NS abby.ns.x,com"]
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    """Nothing is stored without the line that a person typed."""
    found = parse_pasted_nameservers(text, FQDN).values
    assert check_delegation(FQDN, found, (), (), nameservers_min=1, nameservers_max=13)[1]
    ds_records = parse_pasted_ds(text, FQDN).values
    assert check_delegation(FQDN, ["ns1.x.example"], (), ds_records, nameservers_min=1, nameservers_max=13)[1]


@pytest.mark.parametrize("wrong", ["ns1_a.provider.example", "ns1.provider.example,com"])
@pytest.mark.parametrize("beside", ["", "ns2.provider.example\n"])
def test_a_mistyped_nameserver_beside_ds_records_is_refused(wrong: str, beside: str) -> None:
    found = parse_pasted_delegation(f"{wrong}\n{beside}DS record\n{DS}", "", "", FQDN)
    assert (found.nameservers, found.ds_records) == ((wrong, *beside.split()), (DS,))
    _, errors = check_delegation(
        FQDN, found.nameservers, (), found.ds_records, nameservers_min=1, nameservers_max=13
    )
    assert errors


def test_the_field_of_nameservers_may_have_their_glue() -> None:
    text, _ = NAMESERVERS["bind-zone"]
    found = parse_pasted_delegation(text, "", DS, FQDN)
    assert found.glue == ({"host": f"ns1.{FQDN}", "ipv4": "8.8.8.8"},)
    assert (found.ds_records, [line.split()[0] for line in found.ignored]) == (
        (DS,),
        ["$ORIGIN", "@", "sub", "www"],
    )
    listed = parse_pasted_delegation(NAMESERVERS["own-hosts"][0], f"ns1.{FQDN} 8.8.8.8", "", FQDN)
    assert [each["ipv4"] for each in listed.glue] == ["8.8.8.8", "8.8.4.4"]


HEADS = (
    *("Nameservers", "Name servers:", "Nameservers at provider.example", "Type\tName\tValue", "Custom DNS"),
    *("provider.example nameservers:", "To use provider.example, change your nameservers to", "DNS (2)"),
)
HOST_LINES = (
    *(
        "{host}",
        "{host}.",
        "NS {host}",
        "{i}. {host}",
        "- {host}",
        '"{host}",',
        "  {host},",
        "| {i} | {host} |",
    ),
    *("Nameserver {i}: {host}", "Nameserver {i}\t{host}\tCopy", "NS{i} = {host}", "Primary: {host}"),
    *("{fqdn}. 3600 IN NS {host}.", "@ NS {host}", "NS {fqdn} {host} 3600", "{fqdn}\tnameserver = {host}."),
    *("{host} Active", "{host} 192.0.2.{i}", "Name Server: {upper}", "nserver: {host}"),
)
DS_LINES = (
    *("{ds}", "{fqdn}. 3600 IN DS {ds}", "DS {fqdn} {ds}", "DS record: {ds}", "@ IN DS {ds}"),
    "Key tag\t2371\nAlgorithm\t13 (ECDSAP256SHA256)\nDigest type\t2 (SHA-256)\nDigest\t{digest}",
    "Key tag: 2371, algorithm: 13, digest type: 2, digest: {digest}",
    "Key tag: 2371   Algorithm: 13   Digest type: 2\nDigest: {digest}",
    "Key Tag = 2371 Algorithm: 13 (ECDSAP256SHA256) Digest Type: 2 (SHA-256)\nDigest:\n{digest}",
    "Key Tag\n2371\nAlgorithm\nECDSAP256SHA256\nDigest Type\nSHA-256\nDigest\n{digest}",
)
FEET = (
    "Copy",
    "Save your changes.",
    "Help: https://provider.example/help",
    "TTL 3600",
    "mail@provider.example",
)


@pytest.mark.parametrize("host_line", HOST_LINES)
def test_titles_labels_and_sentences_around_the_values_change_nothing(host_line: str) -> None:
    """Each title and each foot, around each pair of lines (`make test-whole`: each title with each foot)."""
    hosts = ("ns1.provider.example", "ns2.provider.example")
    lines = [
        host_line.format(host=host, upper=host.upper(), i=number, fqdn=FQDN)
        for number, host in enumerate(hosts, 1)
    ]
    around = share(tuple(zip(HEADS, cycle(FEET), strict=False)), whole=tuple(product(HEADS, FEET)))
    for (head, foot), ds_line in product(around, ("", *DS_LINES)):
        ds_lines = [ds_line.format(ds=DS, digest=DIGEST, fqdn=FQDN)] if ds_line else []
        for parts in ([*lines, *ds_lines], [*ds_lines, *lines]):
            text = "\n".join((head, *parts, foot))
            found = parse_pasted_delegation(text, "", "", FQDN)
            assert found.nameservers == hosts, text
            assert found.ds_records == ((DS,) if ds_line else ()), text
