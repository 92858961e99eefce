"""Which names a text finds: those that contain it as the DNS has them, or as people read them (rules)."""

from sublet.dns.names import InvalidName, map_text, to_unicode


def search_text(typed: str) -> str:
    """Return a text as names are searched for it: mapped by UTS 46, or in lower case if no name can contain it."""
    try:
        return map_text(typed)
    except InvalidName:
        return typed.lower()


def needs_unicode(text: str) -> bool:
    """True if a name may contain this search text in its Unicode form only.

    Punycode keeps the ASCII characters of a label together and in order, so ASCII text within a label is in both forms.
    """
    return "." in text or not text.isascii()


def contains(fqdn: str, text: str) -> bool:
    """True if a canonical name contains this search text in its A-labels or in its U-labels."""
    return text in fqdn or text in to_unicode(fqdn)
