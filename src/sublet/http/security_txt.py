"""The file /.well-known/security.txt (RFC 9116): whom to write to about a security problem of the service."""

from datetime import datetime, timedelta

from sublet.config import Settings, abuse_contact, contact_url

SECURITY_TXT_PATH = "/.well-known/security.txt"
VALID_FOR = timedelta(days=30)
"""The time until the file expires. Each answer has a new date; RFC 9116, section 2.5.5, recommends less than
a year.
"""


def security_txt(settings: Settings, public_url: str, now: datetime) -> str:
    """Return the file, with the abuse contact and the imprint as contacts; empty if neither is set.

    Addresses of pages must be https (section 2.5.4), so others are left out.
    """
    contacts = dict.fromkeys((contact_url(abuse_contact(settings)), settings.site_imprint_url))
    usable = [each for each in contacts if each.startswith(("mailto:", "https://"))]
    if not usable:
        return ""
    lines = [f"Contact: {each}" for each in usable]
    lines.append(f"Expires: {(now + VALID_FOR).strftime('%Y-%m-%dT00:00:00Z')}")
    if public_url.startswith("https://"):
        lines.append(f"Canonical: {public_url}{SECURITY_TXT_PATH}")
    return "".join(f"{each}\n" for each in lines)
