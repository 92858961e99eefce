"""Change one RRset of a name as it was read, so that writers at once lose no change."""

from collections.abc import Callable

from sublet_client._errors import PreconditionFailed
from sublet_client.client import Client
from sublet_client.models import RecordSet, RecordSetEntry

ATTEMPTS_MAX = 20


def change_record_set(
    client: Client,
    fqdn: str,
    owner: str,
    type_name: str,
    change: Callable[[RecordSet | None], RecordSetEntry | None],
) -> tuple[RecordSet, ...]:
    """Change the RRset with this owner and type, both in canonical form, and return all RRsets of the name.

    `change` gets the present RRset, None if there is none, and returns the wanted one, None to leave it as it
    is. After a change of the name's records in between it is called again.

    Raises:
        SubletError: the registry refused, gave no answer, or the records changed in between `ATTEMPTS_MAX`
            times.
    """
    for attempt in range(1, ATTEMPTS_MAX + 1):
        seen = client.records.get_tagged(fqdn)
        found = [each for each in seen.value.records if (each.name, each.type) == (owner, type_name)]
        wanted = change(found[0] if found else None)
        if wanted is None:
            return seen.value.records
        try:
            return client.records.change(fqdn, [wanted], if_match=seen.etag).records
        except PreconditionFailed:
            if attempt == ATTEMPTS_MAX:
                raise
    raise AssertionError
