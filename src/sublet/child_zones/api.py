"""The API of automatic DS, which extends the spec (docs/spec-choices.md, "Automatic DS")."""

from typing import Annotated, TypeVar

from msgspec import Meta
from msgspec.structs import asdict

from sublet.child_zones.automatic_ds import AutomaticDsView, set_automatic_ds, view_automatic_ds
from sublet.child_zones.model import CSYNC_REFUSALS, DS_REFUSALS
from sublet.db import Tx
from sublet.errors import SubdomainNotFound
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.idempotency import write_once
from sublet.operations.operation import API, Operations, not_sensitive
from sublet.operations.shapes import Body, Moment, Shape, Success, one_of
from sublet.platform_domains.model import AUTOMATIC_DS
from sublet.subdomains.api import OWN_NAME, if_subdomain_matches
from sublet.subdomains.child_state_store import AutomaticDs, ChildStates, CsyncState
from sublet.subdomains.delegation_changes import SOURCES as DS_SOURCES
from sublet.subdomains.shapes import DS_EXAMPLE, FQDN

api = Operations(API, tags.SUBDOMAINS, fqdn=FQDN)

_AUTOMATIC_DS = {
    "policy": "all",
    "enabled": True,
    "bootstrap": False,
    "ds_records": [{**DS_EXAMPLE, "source": "cds", "since": "2026-10-04T03:12:08.000000Z"}],
    "followed_signed_at": "2026-10-04T02:00:00.000000Z",
    "refusal": None,
    "wait": None,
    "csync": {"followed": True, "serial": None, "signed_at": None, "refusal": None},
}


class SourcedDsShape(Shape):
    """A DS record with its source: the registrant, the operator, or CDS and CDNSKEY records of the zone; null
    if unknown.
    """

    key_tag: int
    algorithm: int
    digest_type: int
    digest: str
    source: Annotated[str, one_of(DS_SOURCES)] | None
    since: Moment | None


class CsyncRefusalShape(Shape):
    """The refusal of the change that the zone's CSYNC record requests."""

    code: Annotated[str, one_of(CSYNC_REFUSALS)]
    message: str
    since: Moment


class CsyncShape(Shape):
    """The state of CSYNC.

    `followed` is true if the platform domain follows CSYNC. `serial` and `signed_at` are those of the last
    followed request.
    """

    followed: bool
    serial: int | None
    signed_at: Moment | None
    refusal: CsyncRefusalShape | None


class DsRefusalShape(Shape):
    """The refusal of the DS change that the zone's CDS and CDNSKEY records request."""

    code: Annotated[str, one_of(DS_REFUSALS)]
    message: str
    since: Moment


RefusalT = TypeVar("RefusalT", CsyncRefusalShape, DsRefusalShape)


class DsWaitShape(Shape):
    """The wait for the first DS records. The first check after `until` accepts them."""

    since: Moment
    until: Moment


class AutomaticDsShape(Shape):
    """The settings and the state of a subdomain's automatic DS.

    `policy` is the platform domain's: off, rollover (changes only), bootstrap (first DS records only), or
    all. `followed_signed_at` is the time of the signature of the last followed request; requests with older
    signatures are refused. `wait` is null unless the name waits for its first DS records.
    """

    policy: Annotated[str, one_of(AUTOMATIC_DS)]
    enabled: bool
    bootstrap: bool
    ds_records: list[SourcedDsShape]
    followed_signed_at: Moment | None
    refusal: DsRefusalShape | None
    wait: DsWaitShape | None
    csync: CsyncShape


class AutomaticDsAnswer(Success, kw_only=True):
    """The automatic DS of a subdomain."""

    automatic_ds: AutomaticDsShape


class AutomaticDsBody(Body):
    """The settings of automatic DS. A member that is left out keeps its stored value."""

    enabled: (
        Annotated[
            bool, Meta(description="True if the DS records follow CDS and CDNSKEY records of the zone.")
        ]
        | None
    ) = None
    bootstrap: (
        Annotated[bool, Meta(description="True if CDS and CDNSKEY may add the first DS records (RFC 9615).")]
        | None
    ) = None


@api.get(
    "/subdomains/{fqdn}/automatic-ds",
    "subdomains:read",
    (SubdomainNotFound,),
    example={"automatic_ds": {**_AUTOMATIC_DS, "bootstrap": True}},
)
def get_automatic_ds(tx: Tx, call: Call[None, None]) -> AutomaticDsAnswer:
    """Get the automatic DS.

    Returns whether the DS records follow the CDS and CDNSKEY records of the name's zone, the source of each
    DS record, and why the zone's current request is refused, if it is.
    """
    return answer_of(view_automatic_ds(tx, call.actor(), call.path["fqdn"]))


@api.write(
    "PUT",
    "/subdomains/{fqdn}/automatic-ds",
    "subdomains:write",
    OWN_NAME,
    gate=not_sensitive(
        "follows only records that the name's own keys have signed, or its own nameservers have"
    ),
    example_body={"enabled": True, "bootstrap": False},
    example={"automatic_ds": _AUTOMATIC_DS},
)
async def set_automatic_ds_(
    call: Call[AutomaticDsBody, None],
) -> Answer[AutomaticDsAnswer]:
    """Turn the automatic DS on or off.

    A request that removes all DS records by PUT /subdomains/{fqdn}/nameservers also turns `bootstrap` off.
    """
    done = await write_once(
        call,
        if_subdomain_matches(call, set_automatic_ds),
        call.actor(),
        call.path["fqdn"],
        enabled=call.body.enabled,
        bootstrap=call.body.bootstrap,
    )
    view = await call.context.db.read(view_automatic_ds, call.actor(), call.path["fqdn"])
    return done.answer(answer_of(view))


def answer_of(view: AutomaticDsView) -> AutomaticDsAnswer:
    """Return the answer that shows the automatic DS of a name."""
    known = view.states.automatic_ds
    return AutomaticDsAnswer(
        automatic_ds=AutomaticDsShape(
            policy=view.states.automatic_ds_policy,
            enabled=known.enabled,
            bootstrap=known.bootstrap,
            ds_records=[
                SourcedDsShape(**asdict(each.record), source=each.source, since=each.since)
                for each in view.ds_records
            ],
            followed_signed_at=known.signed_at,
            refusal=_refusal(DsRefusalShape, known),
            wait=_wait(view.states),
            csync=_csync(view.states),
        )
    )


def _wait(states: ChildStates) -> DsWaitShape | None:
    until = states.awaited_until
    since = states.automatic_ds.awaited_since
    return None if since is None or until is None else DsWaitShape(since=since, until=until)


def _csync(states: ChildStates) -> CsyncShape:
    known = states.csync
    return CsyncShape(
        followed=states.follows_csync,
        serial=known.serial,
        signed_at=known.signed_at,
        refusal=_refusal(CsyncRefusalShape, known),
    )


def _refusal(shape: type[RefusalT], known: AutomaticDs | CsyncState) -> RefusalT | None:
    if known.refusal is None or known.message is None or known.refused_since is None:
        return None
    return shape(code=known.refusal, message=known.message, since=known.refused_since)
