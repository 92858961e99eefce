"""Give the token of this program a new secret, and write it to a file: python rotate_token.py FILE

The former secret stays valid for an hour, so that programs can be restarted with the new one.
"""

import os
import sys
from pathlib import Path

from sublet_client import Client


def main(file: str) -> None:
    """Rotate, and store the secret where only its owner can read it.

    The token needs the scope `tokens:write`.
    """
    with Client.from_environment() as client:
        own = client.account.me().token
        done = client.tokens.rotate(own.id, overlap_seconds=3600) if own else None
    if done is None or done.secret is None:
        sys.exit("The registry answered without a secret.")
    path = Path(file)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        opened.write(done.secret.reveal())
    print(f"{done.token.name} has a new secret, in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
