"""Find a primary server in the settings, and read our key for this primary from a file or an environment
variable.
"""

import binascii
import os
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

from sublet.config import PrimarySettings
from sublet.dns.types import Primary, TsigKey
from sublet.primaries.primary import PrimaryFault
from sublet.secret import Secret


def find_primary(settings: Sequence[PrimarySettings], name: str) -> Primary:
    """Return the primary of this name with our key.

    Each call reads the secret again, so that the secret may change without a restart.

    Raises:
        PrimaryFault: the settings have no primary of this name; the key can't be read, or is not base64. The
            cause is "settings".
    """
    found = next((each for each in settings if each.name == name), None)
    if found is None:
        raise PrimaryFault("settings", f"the settings have no primary {name!r}", certain=True)
    secret = _read_secret(found)
    key = TsigKey(found.key_name.lower().removesuffix("."), found.key_algorithm, secret)
    return Primary(found.name, found.address, found.port, key)


def _read_secret(primary: PrimarySettings) -> Secret:
    if primary.key_file:
        place = primary.key_file
        try:
            text = Path(primary.key_file).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it isn't ASCII"
            raise PrimaryFault("settings", f"{place} can't be read: {reason}", certain=True) from error
    else:
        place, text = primary.key_variable, os.environ.get(primary.key_variable, "")
    try:
        is_secret = len(b64decode(text.strip(), validate=True)) > 0
    except (binascii.Error, ValueError):
        is_secret = False
    if not is_secret:
        raise PrimaryFault("settings", f"{place} has no base64 secret for {primary.name}", certain=True)
    return Secret(text.strip())
