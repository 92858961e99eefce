"""Read nameservers, glue and DS records as people paste them: alone, with commas, or as `dig` and zone files print them.

The API checks the result.
"""

from itertools import zip_longest

from sublet.dns.ttl import is_ttl

_TYPES_OF_GLUE = ("IN", "A", "AAAA")


def parse_pasted_nameservers(text: str) -> list[str]:
    """Return the host names in a text. In the line of an NS record these are the words after the type."""
    hosts = []
    for line in text.splitlines():
        if line.lstrip().startswith(";"):  # a comment of dig
            continue
        words = line.replace(",", " ").replace(";", " ").split()
        types = [index for index, word in enumerate(words[:4]) if index and word.upper() == "NS"]
        hosts += words[types[0] + 1 :] if types else words
    return [each.removesuffix(".") for each in hosts]


def parse_pasted_glue(text: str) -> list[dict[str, str]]:
    """Return glue entries as the API takes them, from lines such as `ns1.a.example 192.0.2.1`, and from A and AAAA records.

    A word that isn't an address is returned as an address, so that the API refuses it.
    """
    found = []
    for line in _records(text):
        host, *words = line.replace(",", " ").split() or [line]
        addresses = [each for each in words if each.upper() not in _TYPES_OF_GLUE and not is_ttl(each)]
        ipv4 = [each for each in addresses if ":" not in each]
        ipv6 = [each for each in addresses if ":" in each]
        for one, other in zip_longest(ipv4, ipv6) if addresses else [("", "")]:
            entry = {"host": host.removesuffix("."), "ipv4": one, "ipv6": other}
            found.append({name: value for name, value in entry.items() if value})
    return found


def parse_pasted_ds(text: str) -> list[str]:
    """Return the DS records and DNSKEYs of a text, each on one line. The API accepts a name, TTL, class and type before them."""
    return _records(text)


def _records(text: str) -> list[str]:
    """Return the lines of a text without comments. Lines within parentheses are joined."""
    records: list[list[str]] = []
    depth = 0
    for line in text.splitlines():
        kept = line.partition(";")[0]
        words = kept.split()
        if depth > 0:
            records[-1] += words
        elif words:
            records.append(words)
        depth = max(0, depth + kept.count("(") - kept.count(")"))
    return [" ".join(words) for words in records]
