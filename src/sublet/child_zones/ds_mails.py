"""The text of the mail about an automatic change of DS records (rules)."""

from collections.abc import Sequence
from datetime import datetime

from sublet.dns.types import DsRecord
from sublet.mail.letter import CHANGES_ADVICE, Message, letter


def change_mail(
    fqdn: str,
    user_name: str,
    before: Sequence[DsRecord],
    after: Sequence[DsRecord],
    awaited_since: datetime | None = None,
) -> Message:
    """Return the mail about a change of DS records.

    `awaited_since` is when the wait for first DS records began, if there was one.
    """
    if not before and awaited_since is not None:
        what = (
            f"{fqdn} is now secured with DNSSEC. All its nameservers have asked for these DS records since "
            f"{awaited_since:%Y-%m-%d}:"
        )
        subject = f"{fqdn} got its first DS records"
    elif not before:
        what = (
            f"{fqdn} is now secured with DNSSEC. Its nameservers asked for these DS records, and all "
            "signalling names confirm them:"
        )
        subject = f"{fqdn} got its first DS records"
    elif after:
        what = (
            f"The DS records of {fqdn} have changed. Its nameservers asked for the change, signed with the "
            "former key:"
        )
        subject = f"The DS records of {fqdn} have changed"
    else:
        what = (
            f"{fqdn} is no longer secured with DNSSEC. Its nameservers asked for the deletion of its DS "
            "records, signed with its key:"
        )
        subject = f"The DS records of {fqdn} were removed"
    lines = [
        *(f"+ {_text(each)}" for each in after if each not in before),
        *(f"- {_text(each)}" for each in before if each not in after),
    ]
    return Message(subject, letter(user_name, what, "\n".join(lines), CHANGES_ADVICE))


def _text(record: DsRecord) -> str:
    return f"{record.key_tag} {record.algorithm} {record.digest_type} {record.digest}"
