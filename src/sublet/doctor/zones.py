"""Check zones on primaries by the result of their last check, and zones on built-in
name servers by a query.
"""

import asyncio
from collections.abc import Iterator, Sequence

from sublet.config import Settings
from sublet.counted import counted
from sublet.db import Database, Tx
from sublet.dns.serial import is_newer
from sublet.doctor.model import Notice, Violation
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.primaries.answer_check import AnswerCheck
from sublet.primaries.serial_watch import SerialQueries
from sublet.subdomains.view_zone import serial_of

QUERY_SECONDS = 2.0
"""The timeout of a query to a built-in name server."""


def check_zones(tx: Tx) -> Iterator[Violation]:
    """Yield the zones on primaries that differed from the registry at the last check."""
    states = zone_store.list_zone_states(tx)
    for platform_domain_id, domain, _ in zone_store.list_zones_on_primaries(tx):
        state = states.get(platform_domain_id)
        if state is not None and (state.missing or state.different or state.orphaned):
            sentence = (
                f"the check of {state.checked_at:%Y-%m-%d %H:%M:%S} UTC found "
                f"{counted(state.missing, 'name')} missing, {state.different} different, {state.orphaned} "
                "orphaned"
            )
            yield Violation("zone_is_registry", "zone", domain, sentence)


async def ask_built_in_name_servers(db: Database, addresses: Sequence[tuple[str, int]]) -> list[Notice]:
    """Return a notice for each zone that a built-in name server at `addresses` doesn't serve, or serves with
    an older serial.
    """
    serials = await db.read(_find_serials)
    questions = SerialQueries(QUERY_SECONDS)
    asked = [(address, zone, serial) for zone, serial in serials.items() for address in addresses]
    answers = await asyncio.gather(*(questions.query(address, zone) for address, zone, _ in asked))
    notices = []
    for ((host, port), zone, serial), answer in zip(asked, answers, strict=True):
        if answer.serial is None:
            notices.append(Notice("zone_not_served", "zone", zone, answer.detail or ""))
        elif is_newer(serial, than=answer.serial):
            sentence = f"{host}, port {port}, has the serial {answer.serial}, the registry {serial}"
            notices.append(Notice("zone_not_served", "zone", zone, sentence))
    return notices


async def check_answers(db: Database, settings: Settings) -> list[Notice]:
    """Return a notice for each problem of the answers that resolvers get of a zone."""
    check = AnswerCheck(settings, db)
    zones = await db.read(platform_domain_store.list_platform_domains)
    checked = await asyncio.gather(*(check.check(each) for each in zones))
    return [
        Notice("zone_answers_wrong", "zone", each.zone.domain, problem.sentence)
        for each in checked
        for problem in each.problems
    ]


def _find_serials(tx: Tx) -> dict[str, int]:
    """Return the serial of each zone on the built-in name server."""
    built_in = [each for each in platform_domain_store.list_platform_domains(tx) if not each.primary]
    return {each.domain: serial_of(tx, each) for each in built_in}
