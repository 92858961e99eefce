"""The page on which a person allows or refuses a program that asks for a token."""

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import PageCall


async def show(call: PageCall) -> Response:
    """Show the program that has the code in the query, or ask for a code."""
    code = call.request.query_params.get("code", "").strip()
    if not code:
        return call.render("device", code="", device=None)
    return await _render_device(call, code)


async def decide(call: PageCall) -> Response:
    """Allow or refuse the program."""
    code = call.form.get("code", "")
    try:
        if call.form.get("do") != "allow":
            found = await call.api("refuse_device", user_code=code)
            return call.render("device_done", device=found.device)
        found = await call.api("allow_device", {"may_spend": call.form.is_on("spend")}, user_code=code)
    except Refusal as refusal:
        return await _render_device(call, code, refusal)
    return call.render("device_done", device=found.device)


async def _render_device(call: PageCall, code: str, refusal: Refusal | None = None) -> Response:
    try:
        device = (await call.api("get_device", user_code=code)).device if code else None
    except Refusal as other:
        return call.render("device", refusal=refusal or other, code=code, device=None)
    return call.render("device", refusal=refusal, code=code, device=device)
