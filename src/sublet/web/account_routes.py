"""The entries of the page table that aren't about a name: tokens, sign-in, account."""

from sublet.web import (
    account,
    activity,
    device,
    organizations,
    payments,
    sessions,
    tickets,
    tokens,
    transfers,
    try_api,
)
from sublet.web.page import Handler, Page


def _personal(path: str, get: Handler | None, post: Handler | None, *operations: str) -> Page:
    return Page(path, get, post, operations=operations, is_personal=True)


def _of_organization(path: str, post: Handler | None, *operations: str) -> Page:
    """Return a page about the organization that its path names."""
    shown = ("get_organization", "list_members", "list_invitations")
    return _personal(f"/o/{{organization:id}}{path}", organizations.show, post, *shown, *operations)


# Each path of a form also takes GET, which a browser sends after a new sign-in, or after a reload of a
# refused form.
ACCOUNT_PAGES: tuple[Page, ...] = (
    Page("/tokens", tokens.show_list, operations=("list_tokens",)),
    Page("/tokens/new", tokens.show_new, tokens.create, operations=("create_token",)),
    Page("/tokens/{id:id}", tokens.show_one, tokens.change, operations=("get_token", "change_token")),
    Page("/tokens/{id:id}/rotate", tokens.show_one, tokens.rotate, operations=("get_token", "rotate_token")),
    Page("/tokens/{id:id}/revoke", tokens.show_one, tokens.revoke, operations=("get_token", "revoke_token")),
    Page("/credits", payments.show, operations=("credits", "payments", "free_subdomains")),
    Page("/tickets", tickets.show_list, operations=("list_tickets",)),
    Page("/tickets/new", tickets.show_new, tickets.open_ticket, ("open_ticket", "list_subdomains")),
    Page("/tickets/{id}", tickets.show_one, tickets.reply, operations=("get_ticket", "reply")),
    Page("/transfers", transfers.show_list, operations=("list_transfers",)),
    Page("/transfers/{id:id}", transfers.show_one, operations=("get_transfer",)),
    Page("/transfers/{id:id}/accept", transfers.show_one, transfers.accept, ("get_transfer", "accept")),
    Page("/transfers/{id:id}/decline", transfers.show_one, transfers.decline, ("get_transfer", "decline")),
    Page("/transfers/{id:id}/withdraw", transfers.show_one, transfers.withdraw, ("get_transfer", "withdraw")),
    Page("/try", try_api.show),
    Page("/activity", activity.show, operations=("activity",)),
    _personal("/sessions", sessions.show_sessions, None, "list_sessions"),
    _personal(
        "/sessions/end-others",
        sessions.show_sessions,
        sessions.end_others,
        "list_sessions",
        "end_other_sessions",
    ),
    _personal(
        "/sessions/{id:id}/end", sessions.show_sessions, sessions.end_session, "list_sessions", "end_session"
    ),
    # A script of this page adds passkeys.
    _personal("/passkeys", sessions.show_passkeys, None, "list_passkeys", "offer_passkey", "add_passkey"),
    _personal(
        "/passkeys/{id:id}/remove",
        sessions.show_passkeys,
        sessions.remove_passkey,
        "list_passkeys",
        "remove_passkey",
    ),
    _personal(
        "/passkeys/recovery",
        sessions.show_passkeys,
        sessions.start_recovery,
        "list_passkeys",
        "start_recovery",
    ),
    _personal(
        "/passkeys/recovery/stop",
        sessions.show_passkeys,
        sessions.stop_recovery,
        "list_passkeys",
        "stop_recovery",
    ),
    _personal("/device", device.show, device.decide, "get_device", "allow_device", "refuse_device"),
    # The page links to the export, which a browser stores as a file.
    _personal("/account", account.show, account.change, "me", "change_account", "export"),
    _personal("/account/reminders", account.show, account.change_reminders, "me", "set_reminders"),
    _personal("/account/email", account.show, account.send_email_code, "me", "change_account"),
    _personal("/account/email/code", account.show_code, account.confirm_email, "confirm_email"),
    _personal("/account/delete", account.show_deletion, account.delete, "delete_me"),
    _personal(
        "/organizations",
        organizations.show_list,
        organizations.create,
        "list_organizations",
        "create_organization",
    ),
    _personal(
        "/organizations/{id:id}/leave",
        organizations.show_list,
        organizations.leave,
        "list_organizations",
        "remove_member",
    ),
    _of_organization("/members", None),
    _of_organization("/rename", organizations.rename, "change_organization"),
    _of_organization("/invitations", organizations.invite, "invite_member"),
    _of_organization(
        "/invitations/{invitation_id:id}/revoke", organizations.revoke_invitation, "revoke_invitation"
    ),
    _personal(
        "/o/{organization:id}/delete",
        organizations.show_deletion,
        organizations.delete,
        *("get_organization", "list_subdomains", "credits", "delete_organization"),
    ),
    _of_organization("/members/{user_id:id}/role", organizations.change_role, "change_member"),
    _of_organization("/members/{user_id:id}/remove", organizations.remove, "remove_member"),
)
