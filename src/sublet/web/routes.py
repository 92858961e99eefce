"""The page table.

Each entry lists the API operations of its handlers. docs/console.md is generated from it.
"""

from sublet.operations.operation import DOCS_PATH
from sublet.web import (
    about,
    delegation_form,
    many_names,
    name,
    names,
    programs,
    records,
    reference,
    register,
    register_many,
    sign_in,
    sign_up,
    start,
)
from sublet.web.account_routes import ACCOUNT_PAGES
from sublet.web.page import Page

NAVIGATION = (
    ("/names", "Names"),
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
    *name.NAME_OPERATIONS,
    *("get_auto_renew", "get_health", "get_automatic_ds", "list_transfers", "free_subdomains"),
)
PAGES: tuple[Page, ...] = (
    Page("/", start.show, is_open=True, operations=("platform_domains", "availability")),
    Page("/about/{fqdn}", about.show, is_open=True, operations=("rdap_domain",)),
    Page("/signup", sign_up.show, is_open=True),
    Page(
        "/signup/confirm",
        sign_up.show_link,
        sign_up.confirm,
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
    Page("/signout", post=sign_in.sign_out, is_personal=True, operations=("end_session",)),
    Page("/names", names.show_list, operations=("list_subdomains",)),
    Page(
        "/names/many",
        many_names.show,
        many_names.send,
        operations=("list_subdomains", "update_nameservers", "set_auto_renew", "delete"),
    ),
    Page(
        "/register",
        register.show,
        register.send,
        operations=(
            *("platform_domains", "availability", "free_subdomains", "credits", "list_subdomains"),
            *("check_delegation", "register"),
        ),
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
    ),
    Page("/register/many/download", post=register_many.download),
    Page(f"{_NAME}/delegation", name.show_delegation, operations=("delegation",)),
    Page(
        f"{_NAME}/nameservers",
        name.show_nameservers,
        name.change_nameservers,
        operations=(
            *(*name.NAME_OPERATIONS, "get_records", "replace_records"),
            *("check_delegation", "update_nameservers"),
        ),
    ),
    Page(f"{_NAME}/records", records.show, records.change, operations=records.RECORDS_OPERATIONS),
    Page(
        f"{_NAME}/certificate",
        programs.show_certificate,
        programs.create_key,
        operations=("get_records", "list_update_keys", "create_update_key"),
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
    ),
    Page(f"{_NAME}/renew", name.show_renew, name.renew, operations=(*name.NAME_OPERATIONS, "renew")),
    Page(f"{_NAME}/restore", name.show_restore, name.restore, operations=(*name.NAME_OPERATIONS, "restore")),
    Page(f"{_NAME}/delete", name.show_delete, name.delete, operations=(*name.NAME_OPERATIONS, "delete")),
    Page(
        f"{_NAME}/transfer",
        name.show_transfer,
        name.transfer,
        operations=(*name.NAME_OPERATIONS, "push", "accept", "withdraw"),
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
