"""The pages of transfers: sent and received offers of names."""

from starlette.responses import Response

from sublet.accounts.model import MEMBER, OWNER
from sublet.errors import FieldError, Refusal, validation_failed
from sublet.web.page import PageCall

PERSONAL = "personal"
"""The value of the user, and not an organization, in a field with a holder."""
STATES = ("pending", "accepted", "declined", "withdrawn", "expired")


async def show_list(call: PageCall) -> Response:
    """Show the offers."""
    filters = call.filters("state", "direction", "cursor")
    found = await call.find_page("list_transfers", filters)
    return await call.render(
        "transfers",
        filters=filters,
        states=[(each, each) for each in STATES],
        found=found,
        holders=holders_of(call),
    )


async def show_one(call: PageCall) -> Response:
    """Show an offer."""
    transfer = (await call.api("get_transfer", id=str(call.parameters["id"]))).transfer
    usage = (await call.api("free_subdomains")).usage
    holders, holder = holders_of(call), current_holder(call)
    return await call.render("offer", transfer=transfer, holders=holders, holder=holder, usage=usage)


async def accept(call: PageCall) -> Response:
    """Accept an offered name for the chosen holder."""
    receiver = await acting_for_chosen_holder(call) if "holder" in call.form else call
    fqdn = (await receiver.api("accept", id=str(call.parameters["id"]))).transfer.subdomain
    return show_moved(call, receiver, fqdn)


def holders_of(call: PageCall) -> list[tuple[str, str]]:
    """Return the user, and the organizations whose names the user may change, as options of a field."""
    assert call.registrant is not None  # noqa: S101 - the page isn't open
    own_id = call.registrant.user.organization_id
    return [
        (PERSONAL, "Yourself")
        if each.organization.id == own_id
        else (str(each.organization.id), each.organization.name)
        for each in call.memberships
        if each.role in (OWNER, MEMBER)
    ]


def current_holder(call: PageCall) -> str:
    """Return the option of the holder for which the user acts."""
    return PERSONAL if call.organization_id is None else str(call.organization_id)


def other_holders(call: PageCall) -> list[tuple[str, str]]:
    """Return the options to which the user may move a name of the current holder."""
    return [each for each in holders_of(call) if each[0] != current_holder(call)]


async def acting_for_chosen_holder(call: PageCall) -> PageCall:
    """Return this request acting for the holder that the form has.

    Raises:
        Refusal: ValidationFailed, or any of `authenticate_session`.
    """
    chosen = None if call.form.get("holder") == PERSONAL else call.form.number("holder") or ""
    if isinstance(chosen, str):
        raise validation_failed([FieldError("holder", "value_invalid", "Choose the new holder.")])
    return await call.acting_for(chosen)


async def move(call: PageCall, fqdn: str, receiver: PageCall) -> None:
    """Offer a name to the user's own address, and accept it for another holder.

    A refusal leaves no offer behind.

    Raises:
        Refusal: any of the operations `push` and `accept`.
    """
    assert call.registrant is not None  # noqa: S101 - the page isn't open
    to = {"to": call.registrant.user.email}
    offer = (await call.api("push", to, key=fqdn, fqdn=fqdn)).transfer
    try:
        await receiver.api("accept", id=str(offer.id), key=fqdn)
    except Refusal:
        await call.api("withdraw", id=str(offer.id), key=fqdn)
        raise


def show_moved(call: PageCall, receiver: PageCall, fqdn: str) -> Response:
    """Redirect to the name, or to the list of names if it is another holder's now.

    The user goes on acting for the same holder as before.
    """
    path = f"/names/{fqdn}" if receiver.organization_id == call.organization_id else "/names"
    return call.redirect(path, f"{fqdn} {whose(receiver)} now.")


def whose(call: PageCall) -> str:
    """Return the end of a sentence that says whose a name is: it is of the holder for whom a request acts."""
    assert call.registrant is not None  # noqa: S101 - the page isn't open
    holder = call.registrant.holder
    return f"belongs to {holder.name}" if holder.is_organization else "is yours"


async def decline(call: PageCall) -> Response:
    """Decline an offered name."""
    return await _end_offer(call, "decline", "{} stays with its holder.")


async def withdraw(call: PageCall) -> Response:
    """Withdraw an own offer."""
    return await _end_offer(call, "withdraw", "The offer of {} is withdrawn.")


async def _end_offer(call: PageCall, operation: str, message: str) -> Response:
    answered = await call.api(operation, id=str(call.parameters["id"]))
    return call.redirect("/transfers", message.format(answered.transfer.subdomain))
