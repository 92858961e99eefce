"""RDAP, open to all (docs/rdap.md): names, nameservers with glue, the operator's entities, help.

Query parameters are ignored (RFC 7480, section 4.3).
"""

from sublet.dns.names import InvalidName, ancestors, parse_host_name
from sublet.errors import InvalidRequest, NotFound
from sublet.operations.call import Answer, OpenCall
from sublet.operations.operation import Operations, Parameter, Surface
from sublet.rdap import shapes
from sublet.rdap.shapes import (
    Domain,
    Entity,
    ErrorObject,
    Event,
    Nameserver,
    RdapObject,
    RdapObjectT,
    Service,
)
from sublet.rdap.store import DOMAINS_AMONG, PUBLIC_NAME
from sublet.subdomains.naming import canonical_domain, registrable_name

RDAP = Surface(
    shapes.PREFIX,
    is_open=True,
    media_type=shapes.MEDIA_TYPE,
    headers={"access-control-allow-origin": "*"},
    describe_refusal=shapes.error_object,
    ignores_query=True,
)
api = Operations(
    RDAP,
    "RDAP",
    fqdn=Parameter("A name, as U-labels or A-labels.", "blog.example.net"),
    host=Parameter("The host name of a nameserver with glue.", "ns1.blog.example.net"),
    handle=Parameter("`operator` or `abuse`.", "operator"),
    path=Parameter("An address or AS number.", "192.0.2.1"),
)


def _service(call: OpenCall[None]) -> Service:
    return shapes.describe_service(call.context.settings, call.client.public_url)


def _answer(call: OpenCall[None], service: Service, found: RdapObjectT) -> Answer[RdapObjectT]:
    """Return the answer with an object.

    The entity tag is weak, because it leaves out when the object was read from the registry.
    """
    answer, tag = shapes.as_answer(service, found)
    answer.events = (*found.events, Event("last update of RDAP database", call.context.db.now()))
    return Answer(answer, {"etag": tag})


def _not_found() -> NotFound:
    """Return the refusal of everything that isn't public: its bytes are the same for each reason."""
    return NotFound("This registry publishes nothing under this name. Check its spelling.")


@api.get("/domain/{fqdn}", refusals=(InvalidRequest, NotFound), has_etag=True, example={})
async def rdap_domain(call: OpenCall[None]) -> Answer[Domain]:
    """Show a name."""
    fqdn = canonical_domain(call.path["fqdn"])
    if fqdn is None:
        raise InvalidRequest("This is no domain name. Check its spelling.")
    name = await call.context.db.fetch(PUBLIC_NAME, name=fqdn)
    if name is None:
        raise _not_found()
    service = _service(call)
    return _answer(call, service, shapes.domain(service, name))


@api.get("/nameserver/{host}", refusals=(InvalidRequest, NotFound), has_etag=True, example={})
async def rdap_nameserver(call: OpenCall[None]) -> Answer[Nameserver]:
    """Show a nameserver with glue.

    The DNS doesn't reveal which names have another nameserver, so there is no answer about it.
    """
    try:
        host = parse_host_name(call.path["host"])
    except InvalidName as error:
        raise InvalidRequest(str(error)) from None
    db = call.context.db
    domains = await db.fetch(DOMAINS_AMONG, names=list(ancestors(host)))
    names = [await db.fetch(PUBLIC_NAME, name=registrable_name(host, each)) for each in domains]
    glue = [each for name in names if name is not None for each in name.served.glue]
    if all(each.host != host for each in glue):
        raise _not_found()
    service = _service(call)
    return _answer(call, service, shapes.nameserver(service, host, glue))


@api.get("/entity/{handle}", refusals=(NotFound,), has_etag=True, example={})
async def rdap_entity(call: OpenCall[None]) -> Answer[Entity]:
    """Show the operator, or the contact for reports of abuse."""
    service = _service(call)
    entity = service.entities.get(call.path["handle"].lower())
    if entity is None:
        raise _not_found()
    return _answer(call, service, entity)


@api.get("/help", has_etag=True, example={})
async def rdap_help(call: OpenCall[None]) -> Answer[RdapObject]:
    """Show the notices."""
    answer, tag = shapes.as_answer(_service(call), RdapObject())
    return Answer(answer, {"etag": tag})


@api.get("/domains", example={})
@api.get("/nameservers", example={})
@api.get("/entities", example={})
@api.get("/ip/{path:path}", example={})
@api.get("/autnum/{path}", example={})
async def rdap_unsupported(call: OpenCall[None]) -> Answer[ErrorObject]:  # noqa: ARG001 - its type declares the operation
    """Refuse searches, and queries about addresses and AS numbers, which this server doesn't support."""
    message = "This server answers queries about domain, nameserver, entity and help. It has no searches."
    return Answer(shapes.error_object(501, message), status=501)
