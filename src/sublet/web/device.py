"""The page on which a person allows or refuses a program that asks for a token."""

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import PageCall


async def show(call: PageCall) -> Response:
    """Show the program that has the code of the form or of the query, or ask for a code."""
    code = call.form.get("code") or call.request.query_params.get("code", "").strip()
    device = None
    try:
        if code:
            device = (await call.api("get_device", user_code=code)).device
    except Refusal as refusal:
        call.refusal = call.refusal or refusal
    return call.render("device", code=device.user_code if device else code, device=device)


async def decide(call: PageCall) -> Response:
    """Allow or refuse the program."""
    code = call.form.get("code", "")
    if call.form.get("do") == "allow":
        found = await call.api("allow_device", {"may_spend": call.form.is_on("spend")}, user_code=code)
    else:
        found = await call.api("refuse_device", user_code=code)
    return call.render("device_done", device=found.device)
