"""Answer DNS UPDATE, and the queries for SOA and AXFR that its clients send first.

An unsigned message is answered only with the SOA record of a platform domain, over UDP as a request to repeat
it over TCP, so that no response over UDP is longer than its message.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.update
import structlog

from sublet.accounts.authenticate import authenticate_update_key
from sublet.accounts.model import Registrant
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import ancestors
from sublet.dns.records import apex_records, records_of_sets
from sublet.dns.types import Record
from sublet.dns.wire import HEADER_BYTES
from sublet.errors import Category, IdempotencyInProgress, Refusal
from sublet.ids import new_request_id
from sublet.operations.call import Call, Context
from sublet.operations.client import Client, address_key, network_key
from sublet.operations.idempotency import write_once
from sublet.operations.rate_limiter import ADDRESS, NETWORK, WRITE
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.store import find_platform_domains_among
from sublet.secret import Secret
from sublet.sign_in.model import Site
from sublet.structs import replace
from sublet.subdomains.api import wait_for_publication
from sublet.subdomains.find import find_in_account
from sublet.subdomains.records.update import UpdateError, check_sections, check_zone, update_records
from sublet.subdomains.update_keys.keys import derive_secret, parse_key_name
from sublet.subdomains.view_zone import apex_of
from sublet.updates.wire import (
    BadMessageError,
    ParsedMessage,
    header_response,
    parse_message,
    tsig_error_response,
    write_response,
)

UDP_BYTES_MAX = 1_232
"""The maximum length of a message over UDP, as clients that know EDNS send it.

Longer ones need a connection, so that their sender is known.
"""
AGAIN_SECONDS = 0.1
"""The pause of a message that was sent again while it is running. It gets the answer of the first one."""
log = structlog.get_logger()


class _NoFields:
    """The headers of a message, which has none."""

    def get(self, _key: str, /) -> str | None:
        """Return None."""
        return None

    def getlist(self, _key: str, /) -> Sequence[str]:
        """Return an empty list."""
        return ()


class UpdateServer:
    """Answers messages. `on_answer` is called with the rcode of each response."""

    def __init__(self, context: Context, server_secret: Secret, on_answer: Callable[[str], None]) -> None:
        self._context = context
        self._server_secret = server_secret
        self._on_answer = on_answer
        # Parsing is long work for some messages. One at a time in a thread leaves the API half of the
        # processor's time.
        self._parsing = asyncio.Lock()

    async def reply(
        self, wires: Sequence[bytes], hosts: Sequence[str], /, *, over_tcp: bool
    ) -> list[bytes | None]:
        """Return the responses to messages; None to a response, and to less than a header."""
        return [
            await self._respond(wire, host, over_tcp=over_tcp)
            for wire, host in zip(wires, hosts, strict=True)
        ]

    async def _respond(self, wire: bytes, host: str, *, over_tcp: bool) -> bytes | None:
        if len(wire) < HEADER_BYTES or wire[2] & 0x80:
            return None
        try:
            response = await self._answer(wire, host, over_tcp=over_tcp)
        except BadMessageError as bad:
            response = bad.wire
        except UpdateError as error:  # of an unsigned message
            response = header_response(wire, error.rcode)
        except Refusal as refusal:  # of a limit of the address
            response = header_response(wire, _rcode_of(refusal))
        except Exception:
            log.exception("fault", part="updates")
            response = header_response(wire, dns.rcode.SERVFAIL)
        self._on_answer(dns.rcode.to_text(dns.rcode.Rcode(response[3] & 0xF)))
        return response

    async def _answer(self, wire: bytes, host: str, *, over_tcp: bool) -> bytes:
        if over_tcp:
            await self._count_address(host)
        elif len(wire) > UDP_BYTES_MAX:
            raise UpdateError(dns.rcode.REFUSED)
        async with self._parsing:
            read = await asyncio.to_thread(parse_message, wire, self._secret_of, self._context.db.now())
        if read.key_name is None:
            return await self._answer_unsigned(wire, read.message, over_tcp=over_tcp)
        registrant = await self._authenticate(read)
        response = dns.message.make_response(read.message, our_payload=UDP_BYTES_MAX, pad=0)
        try:
            await self._act(wire, host, read, registrant, response, over_tcp=over_tcp)
        except UpdateError as error:
            response.set_rcode(error.rcode)
        except Refusal as refusal:
            log.info("update_refused", key=read.key_name, error=refusal.code, reason=refusal.message)
            response.set_rcode(_rcode_of(refusal))
        try:
            return write_response(response)
        except dns.exception.TooBig:  # many records with long owners, which the operator allows
            response.answer = []
            response.set_rcode(dns.rcode.REFUSED)
            return write_response(response)

    async def _count_address(self, host: str) -> None:
        """Count a message against the limits of its address, which are the API's.

        A source over UDP may be forged to use up those of others.
        """
        if network := network_key(host):
            await self._context.rate_limiter.count(ADDRESS, address_key(host))
            await self._context.rate_limiter.count(NETWORK, network)

    def _secret_of(self, name: str) -> bytes | None:
        return None if parse_key_name(name) is None else derive_secret(self._server_secret, name)

    async def _authenticate(self, read: ParsedMessage) -> Registrant:
        """Return the registrant of the key that signed a message, or refuse the key as unknown."""
        assert read.key_name is not None  # noqa: S101 - the caller looked
        key_id = parse_key_name(read.key_name)
        fqdn = read.key_name.partition(".")[2]
        try:
            assert key_id is not None  # noqa: S101 - the key has a secret
            registrant = await authenticate_update_key(self._context.db, key_id)
        except Refusal as refusal:
            if refusal.category is Category.UNAVAILABLE:
                raise
            registrant = None
        if registrant is None or registrant.restrictions.names != (fqdn,):
            raise BadMessageError(tsig_error_response(read.message, dns.rcode.BADKEY, self._context.db.now()))
        return registrant

    async def _act(
        self,
        wire: bytes,
        host: str,
        read: ParsedMessage,
        registrant: Registrant,
        response: dns.message.Message,
        *,
        over_tcp: bool,
    ) -> None:
        """Do what a signed message asks for, and write it into the response.

        Raises:
            UpdateError, Refusal: the message is refused.
        """
        if read.message.edns > 0:
            raise UpdateError(dns.rcode.BADVERS)
        restrictions = registrant.restrictions
        if "records:write" not in restrictions.scopes or not restrictions.allows_address(host):
            raise UpdateError(dns.rcode.REFUSED)
        self._context.record_use(registrant, host)
        await self._context.rate_limiter.count(WRITE, registrant.rate_limit_key)
        assert restrictions.names is not None  # noqa: S101 - an update key is for one name
        fqdn = restrictions.names[0]
        if isinstance(read.message, dns.update.UpdateMessage):
            await self._update(wire, host, fqdn, read.message, registrant)
            return
        question = _question(read.message)
        response.flags |= dns.flags.AA
        if question.rdtype == dns.rdatatype.AXFR and over_tcp:
            if question.name != dns.name.from_text(fqdn):
                raise UpdateError(dns.rcode.NOTAUTH)
            actor = registrant.actor(new_request_id(), host)
            response.answer = await self._context.db.read(_list_records, actor, fqdn)
            return
        await self._answer_soa(question, response)

    async def _update(
        self, wire: bytes, host: str, fqdn: str, message: dns.update.UpdateMessage, registrant: Registrant
    ) -> None:
        check_zone(fqdn, message)
        check_sections(message)
        call = self._call(host, registrant, (message.mac or b"").hex(), hashlib.sha256(wire).hexdigest())
        settings = self._context.settings
        most = settings.record_changes_per_day if settings.rate_limits else 0
        done = None
        while done is None:
            try:
                done = await write_once(
                    call, update_records, call.actor(), fqdn, message, changes_per_day=most
                )
            except IdempotencyInProgress:  # the client didn't wait long enough for the answer
                await asyncio.sleep(AGAIN_SECONDS)
        await wait_for_publication(call, done)

    def _call(self, host: str, registrant: Registrant, mac: str, digest: str) -> Call[None, None]:
        """Return a message as a call.

        Its idempotency key is its MAC, so a message that is sent again changes nothing.
        """
        return Call(
            context=self._context,
            request_id=new_request_id(),
            registrant=registrant,
            path={},
            body=None,
            query=None,
            idempotency_key=f"tsig-{mac}",
            fingerprint=digest,
            status=200,
            request_path="",
            query_string="",
            client=Client(host, network_key(host) or "", "", Site("", ""), _NoFields()),
        )

    async def _answer_unsigned(self, wire: bytes, message: dns.message.Message, *, over_tcp: bool) -> bytes:
        question = None if isinstance(message, dns.update.UpdateMessage) else _question(message)
        if question is None or question.rdtype != dns.rdatatype.SOA:
            return header_response(wire, dns.rcode.REFUSED)
        response = dns.message.make_response(message, our_payload=UDP_BYTES_MAX, pad=0)
        if message.edns > 0:
            response.set_rcode(dns.rcode.BADVERS)
            return write_response(response)
        response.flags |= dns.flags.AA
        if over_tcp:
            await self._answer_soa(question, response)
        else:
            response.flags |= dns.flags.TC
        return write_response(response)

    async def _answer_soa(self, question: dns.rrset.RRset, response: dns.message.Message) -> None:
        """Answer a query for an SOA record with that of the platform domain at or above its name.

        Raises:
            UpdateError: REFUSED: another type, or there is no such platform domain.
        """
        if question.rdtype != dns.rdatatype.SOA:
            raise UpdateError(dns.rcode.REFUSED)
        name = question.name.to_text(omit_final_dot=True).lower()
        found = await self._context.db.read(_find_zone, name)
        if found is None:
            raise UpdateError(dns.rcode.REFUSED)
        soa = _rrset(next(apex_records(apex_of(found, 1))))
        (response.answer if found.domain == name else response.authority).append(soa)


def _question(message: dns.message.Message) -> dns.rrset.RRset:
    """Return the only question of a query.

    Raises:
        UpdateError: NOTIMP: the message has another opcode; FORMERR: there are none or several questions;
            REFUSED: its class isn't IN.
    """
    if message.opcode() != dns.opcode.QUERY:
        raise UpdateError(dns.rcode.NOTIMP)
    if len(message.question) != 1:
        raise UpdateError(dns.rcode.FORMERR)
    if message.question[0].rdclass != dns.rdataclass.IN:
        raise UpdateError(dns.rcode.REFUSED)
    return message.question[0]


def _find_zone(tx: Tx, name: str) -> PlatformDomain | None:
    found = find_platform_domains_among(tx, (name, *ancestors(name)))
    return max(found, key=lambda each: len(each.domain), default=None)


def _list_records(tx: Tx, actor: Actor, fqdn: str) -> list[dns.rrset.RRset]:
    """Return the records of a name as a zone (RFC 5936, section 2.2).

    It has NS records, because clients refuse a zone without them.

    Raises:
        SubdomainNotFound: raised by `find_in_account`.
    """
    subdomain = find_in_account(tx, actor, fqdn)
    platform_domain = _find_zone(tx, fqdn)
    assert platform_domain is not None  # noqa: S101 - each name has a platform domain
    soa, *nameservers = apex_records(replace(apex_of(platform_domain, subdomain.generation), zone=fqdn))
    records = records_of_sets(fqdn, subdomain.records)
    return [_rrset(each) for each in (soa, *nameservers, *records, soa)]


def _rrset(record: Record) -> dns.rrset.RRset:
    return dns.rrset.from_text(f"{record.owner}.", record.ttl_seconds, "IN", record.type, record.rdata)


def _rcode_of(refusal: Refusal) -> dns.rcode.Rcode:
    is_fault = refusal.category in (Category.UNAVAILABLE, Category.FAULT)
    return dns.rcode.SERVFAIL if is_fault else dns.rcode.REFUSED
