"""TTLs in zone-file text."""

import re
from typing import Final

_TTL: Final = re.compile(r"[0-9]{1,10}|([0-9]{1,10}[WDHMS])+", re.IGNORECASE | re.ASCII)


def is_ttl(word: str) -> bool:
    """True if a word is a TTL: seconds (RFC 1035, section 5.1), or numbers with the units of BIND, such as
    `1h30m` or `1W`.

    Not checked: that the TTL is at most 2^31-1 (RFC 2181, section 8).
    """
    return _TTL.fullmatch(word) is not None
