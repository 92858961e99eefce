"""The page table.

Each entry lists the API operations of its handlers. docs/console.md is generated from it.
"""

from sublet.operations.operation import DOCS_PATH
from sublet.web import (
    about,
    account,
    activity,
    delegation_form,
    name,
    names,
    organizations,
    programs,
    records,
    reference,
    register,
    register_many,
    sign_in,
    start,
    tickets,
    tokens,
    transfers,
)
from sublet.web.page import Handler, Page

_TOKEN = ("get_token", "list_subdomains")
_OFFER = ("get_transfer", "free_subdomains")


def _personal(path: str, get: Handler | None, post: Handler | None, *operations: str) -> Page:
    return Page(path, get, post, operations=operations, is_personal=True)


def _of_organization(path: str, post: Handler | None, *operations: str) -> Page:
    """Return a page about the organization that its path names."""
    shown = ("get_organization", "list_members", "list_invitations")
    return _personal(f"/o/{{organization:id}}{path}", organizations.show, post, *shown, *operations)


_LISTED_ORGANIZATIONS = ("list_received_invitations", "list_organizations")

# Each path of a form also takes GET, which a browser sends after a new sign-in, or after a reload of a
# refused form.
ACCOUNT_PAGES: tuple[Page, ...] = (
    Page("/tokens", tokens.show_list, operations=("list_tokens",)),
    Page("/tokens/new", tokens.show_new, tokens.create, operations=("create_token", "list_subdomains")),
    Page("/tokens/{id:id}", tokens.show_one, tokens.change, operations=(*_TOKEN, "change_token")),
    Page("/tokens/{id:id}/rotate", tokens.show_one, tokens.rotate, operations=(*_TOKEN, "rotate_token")),
    Page("/tokens/{id:id}/revoke", tokens.show_one, tokens.revoke, operations=(*_TOKEN, "revoke_token")),
    Page("/credits", account.show_credits, operations=("credits", "payments", "free_subdomains")),
    Page("/tickets", tickets.show_list, operations=("list_tickets",)),
    Page(
        "/tickets/new",
        tickets.show_new,
        tickets.open_ticket,
        ("open_ticket", "list_subdomains"),
        scope="tickets:write",
    ),
    Page("/tickets/{id}", tickets.show_one, tickets.reply, operations=("get_ticket", "reply")),
    Page("/transfers", transfers.show_list, operations=("list_transfers",)),
    Page("/transfers/{id:id}", transfers.show_one, operations=_OFFER),
    Page("/transfers/{id:id}/accept", transfers.show_one, transfers.accept, (*_OFFER, "accept")),
    Page("/transfers/{id:id}/decline", transfers.show_one, transfers.decline, (*_OFFER, "decline")),
    Page("/transfers/{id:id}/withdraw", transfers.show_one, transfers.withdraw, (*_OFFER, "withdraw")),
    Page("/try", reference.show_trial),
    Page("/activity", activity.show, operations=("activity",)),
    _personal("/sessions", account.show_sessions, None, "list_sessions"),
    _personal(
        "/sessions/end-others",
        account.show_sessions,
        account.end_others,
        "list_sessions",
        "end_other_sessions",
    ),
    _personal(
        "/sessions/{id:id}/end", account.show_sessions, account.end_session, "list_sessions", "end_session"
    ),
    # A script of this page adds passkeys.
    _personal("/passkeys", account.show_passkeys, None, "list_passkeys", "offer_passkey", "add_passkey"),
    _personal(
        "/passkeys/{id:id}/remove",
        account.show_passkeys,
        account.remove_passkey,
        "list_passkeys",
        "remove_passkey",
    ),
    _personal(
        "/passkeys/recovery", account.show_passkeys, account.start_recovery, "list_passkeys", "start_recovery"
    ),
    _personal(
        "/passkeys/recovery/stop",
        account.show_passkeys,
        account.stop_recovery,
        "list_passkeys",
        "stop_recovery",
    ),
    _personal(
        "/device", programs.show_device, programs.answer_device, "get_device", "allow_device", "refuse_device"
    ),
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
        *_LISTED_ORGANIZATIONS,
        "create_organization",
    ),
    _personal(
        "/organizations/invitations/{invitation_id:id}/accept",
        organizations.show_list,
        organizations.accept,
        *_LISTED_ORGANIZATIONS,
        "accept_received_invitation",
    ),
    _personal(
        "/organizations/invitations/{invitation_id:id}/decline",
        organizations.show_list,
        organizations.decline,
        *_LISTED_ORGANIZATIONS,
        "decline_invitation",
    ),
    _personal(
        "/organizations/{id:id}/leave",
        organizations.show_list,
        organizations.leave,
        *_LISTED_ORGANIZATIONS,
        "remove_member",
    ),
    _of_organization("/members", None),
    _of_organization("/rename", organizations.rename, "change_organization"),
    _of_organization("/invitations", organizations.invite, "invite_member"),
    _of_organization(
        "/invitations/{invitation_id:id}/revoke", organizations.revoke_invitation, "revoke_invitation"
    ),
    Page(
        "/o/{organization:id}/delete",
        organizations.show_deletion,
        organizations.delete,
        operations=("get_organization", "list_subdomains", "credits", "delete_organization"),
        scope="organization:write",
        is_personal=True,
    ),
    _of_organization("/members/{user_id:id}/role", organizations.change_role, "change_member"),
    _of_organization("/members/{user_id:id}/remove", organizations.remove, "remove_member"),
)


NAVIGATION = (
    ("/names", "Names"),
    ("/register", "Register"),
    ("/transfers", "Transfers"),
    ("/credits", "Credits"),
    ("/tickets", "Help"),
    ("/tokens", "Tokens"),
    ("/activity", "Activity"),
)
"""The paths and labels of the links in the head of each page."""
ACCOUNT_NAVIGATION: tuple[tuple[str, str], ...] = (
    ("/account", "Account"),
    ("/organizations", "Organizations"),
    ("/passkeys", "Passkeys"),
    ("/sessions", "Sessions"),
)
"""The paths and labels of the links in the user's menu. These pages are about the user, not about an
organization.
"""
_NAME = "/names/{fqdn}"
_OVERVIEW = (
    *("get_subdomain", "list_subdomains", "timeline"),
    *("get_auto_renew", "get_health", "get_automatic_ds", "list_transfers", "free_subdomains"),
)
PAGES: tuple[Page, ...] = (
    Page("/", start.show, is_open=True, operations=("platform_domains", "availability")),
    Page("/about/{fqdn}", about.show, is_open=True, operations=("rdap_domain",)),
    Page("/signup", sign_in.show_sign_up, is_open=True),
    Page(
        "/signup/confirm",
        sign_in.show_sign_up_link,
        sign_in.use_sign_up_link,
        is_open=True,
        operations=("confirm_sign_up", "accept_invitation"),
    ),
    Page(
        "/signin",
        sign_in.show,
        sign_in.send_code,
        is_open=True,
        # Scripts of this page solve the challenge, and use the passkey.
        operations=("challenge", "sign_up", "request_sign_in", "challenge_passkey", "confirm_passkey"),
    ),
    Page(
        "/signin/code",
        sign_in.show_code,
        sign_in.enter_code,
        is_open=True,
        operations=("confirm_sign_in", "confirm_sign_up"),
    ),
    Page(
        "/signin/confirm", sign_in.show_link, sign_in.use_link, is_open=True, operations=("confirm_sign_in",)
    ),
    Page("/signin/done", sign_in.show_done, is_open=True),
    # Open, because the session of the page with the button may have ended.
    Page("/signout", post=sign_in.sign_out, is_open=True, operations=("end_session",)),
    Page("/names", names.show_list, operations=("list_subdomains",)),
    Page(
        "/names/many",
        names.show_many,
        names.change_many,
        operations=(
            *("list_subdomains", "update_nameservers", "set_auto_renew", "delete"),
            *("push", "accept", "withdraw"),
        ),
        scope="subdomains:write",
    ),
    Page(
        "/register",
        register.show,
        register.send,
        operations=(
            *("platform_domains", "availability", "free_subdomains", "credits", "list_subdomains"),
            *("check_delegation", "register"),
        ),
        scope="subdomains:write",
    ),
    Page(
        "/delegation-check",
        post=delegation_form.check_pasted,
        operations=("list_subdomains", "check_delegation"),
    ),
    Page(_NAME, name.show, operations=_OVERVIEW),
    Page(
        "/register/many",
        register_many.show,
        register_many.send,
        operations=(
            *("platform_domains", "availability", "free_subdomains", "credits"),
            *("list_subdomains", "register"),
        ),
        scope="subdomains:write",
    ),
    Page("/register/many/download", post=register_many.download),
    Page(f"{_NAME}/delegation", name.show_delegation, operations=("delegation",)),
    Page(
        f"{_NAME}/nameservers",
        name.show_nameservers,
        name.change_nameservers,
        operations=(
            *("get_subdomain", "list_subdomains", "timeline", "get_records", "replace_records"),
            *("check_delegation", "update_nameservers"),
        ),
        scope="subdomains:write",
    ),
    Page(f"{_NAME}/records", records.show, records.change, operations=records.RECORDS_OPERATIONS),
    Page(
        f"{_NAME}/certificate",
        programs.show_certificate,
        programs.create_key,
        operations=("get_records", "list_update_keys", "create_update_key"),
        scope="records:write",
    ),
    Page(
        f"{_NAME}/update-keys/{{id:id}}/revoke",
        programs.show_certificate,
        programs.revoke_key,
        operations=("get_records", "list_update_keys", "revoke_update_key"),
    ),
    Page(
        f"{_NAME}/changing-address",
        programs.show_address,
        programs.create_address_token,
        operations=("get_records", "create_token"),
        scope="records:write",
    ),
    Page(
        f"{_NAME}/renew",
        name.show_renew,
        name.renew,
        operations=("get_subdomain", "renew"),
        scope="subdomains:write",
    ),
    Page(
        f"{_NAME}/restore",
        name.show_restore,
        name.restore,
        operations=("get_subdomain", "restore"),
        scope="subdomains:write",
    ),
    Page(
        f"{_NAME}/delete",
        name.show_delete,
        name.delete,
        operations=("get_subdomain", "delete"),
        scope="subdomains:write",
    ),
    Page(
        f"{_NAME}/transfer",
        name.show_transfer,
        name.transfer,
        operations=("get_subdomain", "push", "accept", "withdraw"),
        scope="subdomains:write",
    ),
    Page(f"{_NAME}/withdraw", name.show, name.withdraw, operations=(*_OVERVIEW, "withdraw")),
    Page(f"{_NAME}/retry", name.show, name.retry, operations=(*_OVERVIEW, "retry")),
    Page(f"{_NAME}/auto-renew", name.show, name.set_auto_renew, operations=(*_OVERVIEW, "set_auto_renew")),
    Page(
        f"{_NAME}/automatic-ds", name.show, name.set_automatic_ds, operations=(*_OVERVIEW, "set_automatic_ds")
    ),
    Page(f"{_NAME}/health", name.show, name.check_health, operations=(*_OVERVIEW, "check_health")),
    *ACCOUNT_PAGES,
    Page(DOCS_PATH, reference.show, is_open=True, operations=("platform_domains",)),
    Page(f"{DOCS_PATH}/{{group}}", reference.show_group, is_open=True),
)
