"""The page of the account's activity, with filters."""

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from sublet.accounts.api import ActivityShape
from sublet.web.page import PageCall

ACTION_WORDS = {
    "subdomain.register": "Name registered",
    "subdomain.update_nameservers": "Nameservers or DNSSEC changed",
    "subdomain.update_records": "Records changed",
    "subdomain.renew": "Name renewed",
    "subdomain.delete": "Name deleted",
    "subdomain.restore": "Name restored",
    "subdomain.retry": "Publication tried again",
    "subdomain.publish": "Name published",
    "subdomain.publish_failed": "Publication failed",
    "subdomain.set_auto_renew": "Automatic renewal set",
    "subdomain.auto_renew_failed": "Automatic renewal failed",
    "subdomain.set_automatic_ds": "Automatic DS set",
    "subdomain.follow_child": "DS records followed the zone",
    "subdomain.follow_csync": "Nameservers followed the zone",
    "subdomain.undelegate": "Name taken out of the DNS",
    "subdomain.remove_nameservers": "Nameservers removed",
    "subdomain.nameserver_notice": "Mail about nameservers",
    "subdomain.open_renewal": "Renewal opened",
    "subdomain.remind": "Reminder mailed",
    "subdomain.expire": "Name expired",
    "subdomain.trash": "Name moved to the trash",
    "subdomain.purge": "Name left the trash",
    "subdomain.release": "Name open to everyone again",
    "subdomain.transfer": "Name moved to another holder",
    "subdomain.receive": "Name moved here",
    "subdomain.suspend": "Name suspended",
    "subdomain.unsuspend": "Name no longer suspended",
    "name_transfer.push": "Name offered",
    "name_transfer.accept": "Offer accepted",
    "name_transfer.decline": "Offer declined",
    "name_transfer.withdraw": "Offer withdrawn",
    "name_transfer.expire": "Offer expired",
    "credits.grant": "Credits given",
    "credits.adjust": "Balance corrected",
    "credits.refund": "Credits paid back",
    "payment.record": "Payment recorded",
    "ticket.open": "Ticket opened",
    "ticket.reply": "Ticket answered by you",
    "ticket.staff_reply": "Ticket answered by the operator",
    "ticket.close": "Ticket closed",
    "ticket.set_priority": "Priority of a ticket set",
    "token.issue": "Token created",
    "token.change": "Token changed",
    "token.rotate": "New secret for a token",
    "token.revoke": "Token revoked",
    "session.sign_in": "Signed in",
    "session.end": "Signed out",
    "passkey.add": "Passkey added",
    "passkey.remove": "Passkey removed",
    "device.allow": "Program allowed",
    "device.refuse": "Program refused",
    "user.add": "Account opened",
    "user.invite": "Invitation mailed",
    "user.edit": "Account changed",
    "user.ask_address": "Change of address begun",
    "user.set_reminders": "Reminders set",
    "user.start_recovery": "Recovery started",
    "user.stop_recovery": "Recovery stopped",
    "user.suspend": "Account suspended",
    "user.unsuspend": "Account no longer suspended",
    "organization.add": "Organization created",
    "organization.rename": "Organization renamed",
    "organization.delete": "Organization deleted",
    "organization.invite": "Person invited",
    "organization.revoke_invitation": "Invitation revoked",
    "organization.decline_invitation": "Invitation declined",
    "organization.join": "Person joined",
    "organization.leave": "Person left",
    "organization.set_role": "Role changed",
}
"""The texts of the audit actions that a user sees. An action without a text is shown unchanged."""
BY_WORDS = {"user": "you", "other_user": "another person", "operator": "the operator", "system": "the system"}


async def show(call: PageCall) -> Response:
    """Show a page of the activity. The filters are days in UTC; the day of `until` is included."""
    filters = call.filters("action", "token_id", "since", "until", "cursor")
    query = dict(filters)
    for name, time in (("since", "T00:00:00Z"), ("until", "T23:59:59.999999Z")):
        query[name] = filters[name] and filters[name] + time
    found = await call.find_page("activity", query)
    events = [(each, BY_WORDS[each.by], list(_changes(each))) for each in found.activity] if found else []
    return await call.render("activity", filters=filters, found=found, events=events, words=ACTION_WORDS)


def _changes(event: ActivityShape) -> Iterator[tuple[str, str, str]]:
    """Yield each member that an event changed, with its old and new value."""
    before, after = event.before or {}, event.after or {}
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield name, _as_text(before.get(name)), _as_text(after.get(name))


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_as_text(each) for each in value) or "none"
    if isinstance(value, dict):
        return " ".join(_as_text(each) for each in value.values() if each is not None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
