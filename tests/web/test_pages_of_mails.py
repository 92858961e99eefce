"""Mails lead to pages of the console, and have no requests of the API."""

import re
from pathlib import Path

from sublet.mail.model import Mail
from sublet.mail.store import list_mails
from support.console_client import console, newest_mail
from support.console_pages import ADA, DOMAIN, fill
from support.running_service import RunningService
from support.waiting import wait_until

BEN = "ben@example.org"
REQUEST = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE) \S*/\S*")


def test_each_mail_leads_to_a_page_that_its_recipient_can_open(
    service: RunningService, tmp_path: Path
) -> None:
    fill(service)
    ada = console(service, ADA)
    organization = ada.submit(ada.get("/organizations"), "/organizations", name="Choir").path.split("/")[2]
    assert ada.submit(ada.get("/account"), "/account/email", email="ada@example.com").status == 200
    leaked = service.issue_token(ADA)
    token = service.token_for(leaked, int(organization))
    for label in ("soprano", "alto"):
        service.register(token, f"{label}.{DOMAIN}")
    assert service.call(token, "POST", f"/subdomains/alto.{DOMAIN}/transfer", {"to": BEN}).status_code == 201
    service.operator("subdomain", "transfer", f"soprano.{DOMAIN}", "--to", BEN)
    invited = {"email": BEN, "role": "member"}
    service.call(leaked, "POST", f"/organizations/{organization}/invitations", invited)
    text = newest_mail(service, BEN)
    assert re.search(r"ada\[at\]example\[\.\]org invites you to the organization choir-\w+ at ", text), text
    (link,) = re.findall(r"/signup/confirm\?token=\S+", text)
    ben = console(service)
    page = ben.get(link)
    assert ("Join Choir" in page.text, ADA in page.text) == (True, True)
    assert ben.submit(page, "/signup/confirm").status == 200
    report = tmp_path / "report"
    report.write_text(leaked)
    service.operator("token", "revoke-leaked", str(report))
    service.pass_days(340)
    wait_until(lambda: any(each.subject.startswith(f"blog.{DOMAIN} expires") for each in _mails(service)))
    service.operator("domain", "edit", DOMAIN, "--closed")
    service.operator("domain", "remove", DOMAIN, "--names-until", "2029-01-01")
    found = _mails(service)
    for mail in found:
        assert REQUEST.findall(mail.text) == [], mail.text
        if mail.page:
            assert console(service, mail.recipient).get(mail.page).status == 200, mail
    pages = {each.page.replace(f"/{organization}/", "/ID/") for each in found}
    names = {f"/names/{each}.{DOMAIN}" for each in ("blog", "gift", "soprano")}
    assert names | {"/names", "/account", "/tickets/T-000001", "/transfers/1"} <= pages
    assert {"/tokens", "/o/ID/members", "/o/ID/transfers/3", "/o/ID/tickets/new"} <= pages


def _mails(service: RunningService) -> list[Mail]:
    return service.read(lambda tx: list_mails(tx, waiting=False, user_id=None, limit=500))
