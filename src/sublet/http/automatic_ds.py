"""Handlers of the automatic DS endpoints, which extend the spec (docs/spec-choices.md, "Automatic DS")."""

from sublet.automatic_ds.set_automatic_ds import set_automatic_ds
from sublet.automatic_ds.view_automatic_ds import AutomaticDsView, view_automatic_ds
from sublet.http import response_structs
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import write_once
from sublet.http.request_structs import AutomaticDsBody
from sublet.http.subdomains import if_subdomain_matches


async def get_automatic_ds(call: Call[None, None]) -> Answer[response_structs.AutomaticDsAnswer]:
    """Get the automatic DS.

    Returns whether the DS records follow the CDS and CDNSKEY records of the name's zone, the source of each DS record, and why the zone's
    current request is refused, if it is.
    """
    view = await call.context.db.read(view_automatic_ds, call.actor(), call.path["fqdn"])
    return Answer(_answer(view))


async def set_automatic_ds_(
    call: Call[AutomaticDsBody, None],
) -> Answer[response_structs.AutomaticDsAnswer]:
    """Turn the automatic DS on or off.

    A request that removes all DS records by PUT /subdomains/{fqdn}/nameservers also turns `bootstrap` off.
    """
    done = await write_once(
        call,
        200,
        if_subdomain_matches(call, set_automatic_ds),
        call.actor(),
        call.path["fqdn"],
        enabled=call.body.enabled,
        bootstrap=call.body.bootstrap,
    )
    view = await call.context.db.read(view_automatic_ds, call.actor(), call.path["fqdn"])
    return done.answer(_answer(view))


def _answer(view: AutomaticDsView) -> response_structs.AutomaticDsAnswer:
    known = view.known
    refusal = None
    if known.refusal is not None and known.message is not None and known.refused_since is not None:
        refusal = response_structs.DsRefusalShape(
            code=known.refusal, message=known.message, since=known.refused_since
        )
    return response_structs.AutomaticDsAnswer(
        automatic_ds=response_structs.AutomaticDsShape(
            policy=view.policy,
            enabled=known.enabled,
            bootstrap=known.bootstrap,
            ds_records=[
                response_structs.SourcedDsShape(
                    key_tag=each.record.key_tag,
                    algorithm=each.record.algorithm,
                    digest_type=each.record.digest_type,
                    digest=each.record.digest,
                    source=each.source,
                    since=each.since,
                )
                for each in view.ds_records
            ],
            followed_signed_at=known.signed_at,
            refusal=refusal,
            csync=_csync(view),
        )
    )


def _csync(view: AutomaticDsView) -> response_structs.CsyncShape:
    known = view.csync
    refusal = None
    if known.refusal is not None and known.message is not None and known.refused_since is not None:
        refusal = response_structs.CsyncRefusalShape(
            code=known.refusal, message=known.message, since=known.refused_since
        )
    return response_structs.CsyncShape(
        followed=view.follows_csync, serial=known.serial, signed_at=known.signed_at, refusal=refusal
    )
