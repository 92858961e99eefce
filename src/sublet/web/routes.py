"""The page table. Each entry names the operations of the API that its handlers call; docs/console.md is made from it."""

from sublet.web import names, sign_in
from sublet.web.page import Page

NAVIGATION = (("/names", "Names"),)
"""The pages in the head of each page: path and label."""
ACCOUNT_NAVIGATION: tuple[tuple[str, str], ...] = ()
"""Those in the menu of the user. They are about the person, not about an organization."""
PAGES: tuple[Page, ...] = (
    Page(
        "/signin",
        sign_in.show,
        sign_in.send_code,
        is_open=True,
        operations=("request_sign_in",),
    ),
    Page(
        "/signin/code", sign_in.show_code, sign_in.enter_code, is_open=True, operations=("confirm_sign_in",)
    ),
    Page(
        "/signin/confirm", sign_in.show_link, sign_in.use_link, is_open=True, operations=("confirm_sign_in",)
    ),
    Page("/signout", post=sign_in.sign_out, is_personal=True, operations=("end_session",)),
    Page("/names", names.show_list, operations=("list_subdomains",)),
)
