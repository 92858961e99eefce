"""The pages that give programs a credential: a key for certificates, a token for a changing address, or the
token that a program has asked for.

They show the secret of a key or of a token once, in the configurations of the usual programs.
"""

from typing import Any

from starlette.responses import Response

from sublet.config import parse_listen
from sublet.dns.records import owner_of
from sublet.errors import Refusal
from sublet.subdomains.records.rule import canonical_owner
from sublet.web.page import PageCall
from sublet.web.records import records_view
from sublet.web.tokens import latest_day

CHALLENGES = ["_acme-challenge", "_acme-challenge.*"]
"""The owners of the challenges for a name and for the names below it (RFC 8555, section 8.4)."""


async def show_certificate(call: PageCall) -> Response:
    """Show the form of a key for certificates, and the keys of the name."""
    return await _certificate(call, None)


async def create_key(call: PageCall) -> Response:
    """Create a key for certificates, and show it.

    The answer isn't a redirect, because the secret isn't stored.
    """
    members = {"name": call.form.text("name") or "certificates", "record_names": CHALLENGES}
    return await _certificate(call, await call.api("create_update_key", members, fqdn=_fqdn(call)))


async def revoke_key(call: PageCall) -> Response:
    """Revoke an update key."""
    revoked = await call.api("revoke_update_key", fqdn=_fqdn(call), id=str(call.parameters["id"]))
    return call.redirect(
        f"/names/{_fqdn(call)}/certificate", f"The key {revoked.update_key.name} is revoked."
    )


async def _certificate(call: PageCall, created: Any) -> Response:
    view = await call.read("get_records", records_view)
    keys = (await call.api("list_update_keys", fqdn=view.fqdn)).update_keys
    server = call.shared.calls.context.update_server
    host, port = parse_listen("update_address", server) if server else ("", 0)
    return await call.render("certificate", view=view, keys=keys, created=created, host=host, port=port)


async def show_address(call: PageCall) -> Response:
    """Show the form of a token for a changing address."""
    return await _address(call, None)


async def create_address_token(call: PageCall) -> Response:
    """Create a token for the address of one host, and show it."""
    view = await call.read("get_records", records_view)
    if view.nameservers:  # since the form was opened
        return await _address(call, None)
    fqdn = view.fqdn
    owner = canonical_owner(fqdn, call.form.text("record_names") or "@")
    members = {
        "name": f"address of {owner_of(owner, fqdn)}"[:200],
        "scopes": ["records:write"],
        "names": [fqdn],
        "record_names": [owner],
        "expires_at": f"{latest_day()}T23:59:59Z",
    }
    return await _address(call, await call.api("create_token", members), owner_of(owner, fqdn))


async def _address(call: PageCall, created: Any, host: str = "") -> Response:
    view = await call.read("get_records", records_view)
    scheme, _, service = call.client.public_url.partition("://")
    return await call.render(
        "changing_address",
        view=view,
        created=created,
        host=host,
        public_url=call.client.public_url,
        service=service,
        is_https=scheme == "https",
    )


async def show_device(call: PageCall) -> Response:
    """Show the program that has the code of the form or of the query, or ask for a code."""
    code = call.form.get("code") or call.request.query_params.get("code", "").strip()
    device = None
    try:
        if code:
            device = (await call.api("get_device", user_code=code)).device
    except Refusal as refusal:
        call.refusal = call.refusal or refusal
    return await call.render("device", code=device.user_code if device else code, device=device)


async def answer_device(call: PageCall) -> Response:
    """Allow or refuse the program."""
    code = call.form.get("code", "")
    if call.form.get("do") == "allow":
        found = await call.api("allow_device", {"may_spend": call.form.is_on("spend")}, user_code=code)
    else:
        found = await call.api("refuse_device", user_code=code)
    return await call.render("device_done", device=found.device)


def _fqdn(call: PageCall) -> str:
    return str(call.parameters["fqdn"])
