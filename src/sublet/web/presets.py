"""Nameservers to choose from: those of the operator's providers, and those of the user's other names."""

from sublet.web.form import Form
from sublet.web.page import PageCall

NAMES_MAX = 50
"""The number of the user's newest names whose nameservers are offered."""
OWN_MAX = 8


async def find_presets(call: PageCall, besides: str = "") -> list[tuple[str, str]]:
    """Return the choices: the nameservers, separated by spaces, and the text to show. The nameservers of the name `besides` are left out."""
    found = {
        " ".join(hosts): f"{provider}: {', '.join(hosts)}"
        for provider, hosts in call.shared.nameserver_presets
    }
    most = len(found) + OWN_MAX
    names = await call.api("list_subdomains", query={"limit": NAMES_MAX})
    for each in names.subdomains:
        if each.nameservers and each.fqdn != besides and len(found) < most:
            found.setdefault(" ".join(each.nameservers), f"{each.fqdn}: {', '.join(each.nameservers)}")
    return list(found.items())


def apply_preset(form: Form) -> None:
    """Put the nameservers of the chosen preset into their field."""
    if form.text("preset"):
        form["nameservers"] = "\n".join(form["preset"].split())
