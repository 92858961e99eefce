"""Nameservers to choose from: the operator's presets, and the nameservers of the user's other names."""

from sublet.web.form import Form
from sublet.web.page import PageCall

NAMES_MAX = 50
"""The maximum number of names whose nameservers are considered. The newest names are."""
OWN_PRESETS_MAX = 8


async def find_presets(call: PageCall, excluded_fqdn: str = "") -> list[tuple[str, str]]:
    """Return the choices: the nameservers, separated by spaces, and the text to show."""
    found = {
        " ".join(hosts): f"{provider}: {', '.join(hosts)}"
        for provider, hosts in call.shared.nameserver_presets
    }
    presets_max = len(found) + OWN_PRESETS_MAX
    names = await call.api("list_subdomains", query={"limit": NAMES_MAX})
    for each in names.subdomains:
        if each.nameservers and each.fqdn != excluded_fqdn and len(found) < presets_max:
            found.setdefault(" ".join(each.nameservers), f"{each.fqdn}: {', '.join(each.nameservers)}")
    return list(found.items())


def apply_preset(form: Form) -> None:
    """Put the nameservers of the chosen preset into their field."""
    if form.text("preset"):
        form["nameservers"] = "\n".join(form["preset"].split())
