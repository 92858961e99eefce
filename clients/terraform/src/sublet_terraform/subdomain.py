"""`sublet_subdomain`: a name with its delegation."""

from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from tf.iface import CreateContext, PlanContext, UpdateContext
from tf.schema import Attribute
from tf.types import Bool, Number, String, Unknown
from tf.utils import Diagnostics

from sublet_client import (
    GlueEntry,
    InsufficientScope,
    NotInTime,
    Subdomain,
    SubdomainNotFound,
    SubdomainUnavailable,
)
from sublet_client.spelling import parse_host, parse_name
from sublet_terraform.registrations import Means
from sublet_terraform.reporting import Reporting
from sublet_terraform.resource import State, SubletResource, known
from sublet_terraform.values import Glue, Text, Texts, ds_fault, ds_record

DELEGATION = ("nameservers", "glue", "ds_records")
MODES = ("free", "plus", "premium", "special")
REASONS = {
    "account_suspended": "your account is suspended. Ask the operator of the registry.",
    "clock_implausible": "the clock of the registry is wrong. Try again in an hour.",
    "registration_closed": "its platform domain takes no registrations now. Choose another one of data.sublet_platform_domains.",
    "registration_mode_not_allowed": "its platform domain has no mode for you and this name now. Choose another name.",
    "subdomain_unavailable": "it is taken, reserved, or not free again yet. Choose another name.",
}
"""Why a name can't be registered, by the code of its availability."""


class SubdomainResource(SubletResource):
    """A name: registered or brought back from the own trash, delegated, renewed automatically; destroyed into the trash."""

    name = "subdomain"
    description = "A name with its delegation. Destroying it moves it to the trash; creating it again brings it back from there."
    attributes = (
        Attribute("fqdn", Text(parse_name), "The name.", required=True, requires_replace=True),
        Attribute("nameservers", Texts(parse_host), "The nameservers.", optional=True),
        Attribute(
            "glue",
            Glue(),
            'The addresses of nameservers at or below the name: `{ "ns1.blog.example.net" = ["192.0.2.1"] }`.',
            optional=True,
        ),
        Attribute("ds_records", Texts(ds_record), "DS records in zone-file text.", optional=True),
        Attribute(
            "registration_mode",
            String(),
            "`free`, `plus`, `premium` or `special`; by default that of the platform domain. It can't be changed.",
            optional=True,
            computed=True,
        ),
        Attribute(
            "max_credits",
            Number(),
            "The most that one payment for the name may cost: registration, way back from the trash, automatic renewal. By default 0.",
            optional=True,
        ),
        Attribute(
            "auto_renew",
            Bool(),
            "Whether the name is renewed automatically, for at most `max_credits`. Left out: as it is.",
            optional=True,
        ),
        Attribute("price_credits", Number(), "What the creation costs.", computed=True),
        Attribute("id", String(), "The id.", computed=True),
        Attribute("status", String(), "`active`: the DNS has the delegation.", computed=True),
        Attribute("expires_at", String(), "When the term ends.", computed=True),
    )

    def validate(self, diags: Diagnostics, type_name: str, config: State) -> None:
        """Refuse an unknown mode and malformed DS records, also without the service."""
        super().validate(diags, type_name, config)
        mode = known(config, "registration_mode", "free")
        if mode not in MODES:
            diags.add_error(
                f"There is no mode {mode}. Use one of {', '.join(MODES)}, or leave it out.",
                path=["registration_mode"],
            )
        for each in known(config, "ds_records", ()):
            fault = None if each is None or each is Unknown else ds_fault(each)
            if fault is not None:
                diags.add_error(f"{each!r} is no DS record: {fault}", path=["ds_records"])

    def plan_new(self, ctx: PlanContext, planned: State) -> State:
        """Return the plan with the price. A name that can't be had, or for more than `max_credits`, fails here."""
        fqdn = planned["fqdn"]
        if fqdn is Unknown:
            return planned
        trashed = self._find_trashed(fqdn)
        if trashed is not None:
            self._plan_return(ctx.diagnostics, planned, trashed)
        elif not self._is_own(fqdn):
            self._plan_registration(ctx.diagnostics, planned)
        elif parse_name(fqdn) not in self.registrations.held:
            ctx.diagnostics.add_error(_already(fqdn), path=["fqdn"])
        else:  # this run destroys it first
            return planned
        if not ctx.diagnostics.has_errors():
            mode, price = known(planned, "registration_mode", ""), known(planned, "price_credits", 0)
            self.registrations.add(ctx.diagnostics, parse_name(fqdn), mode, price, self._find_means)
        return planned

    def plan_change(self, ctx: PlanContext, current: State, planned: State) -> State:
        """Return the plan; the state in the DNS is not known before."""
        self.registrations.held.add(parse_name(current["fqdn"]))
        if not self.is_changed(current, planned, "fqdn") and self.is_changed(
            current, planned, "registration_mode"
        ):
            ctx.diagnostics.add_error(
                f"The mode of {current['fqdn']} is {current['registration_mode']} and can't be changed. Write that mode, or leave it out.",
                path=["registration_mode"],
            )
        if self.is_changed(current, planned, *DELEGATION):
            planned["status"] = Unknown
        return planned

    def create_new(self, ctx: CreateContext, planned: State) -> State | None:
        """Register the name, or bring it back from the trash, for at most the price of the plan."""
        fqdn = planned["fqdn"]
        limit = min(
            known(planned, "max_credits", 0),
            known(planned, "price_credits", known(planned, "max_credits", 0)),
        )
        mode = known(planned, "registration_mode")
        restored = False
        try:
            done = self.client.subdomains.register(
                fqdn, **_delegation(planned), registration_mode=mode, confirm=True, max_credits=limit
            )
        except SubdomainUnavailable as refusal:
            if not refusal.details.get("owned"):
                raise
            if refusal.details.get("reason") != "in_trash":
                ctx.diagnostics.add_error(_already(fqdn), path=["fqdn"])
                return None
            done = self.client.subdomains.restore(fqdn, confirm=True, max_credits=limit)
            restored = True
        if planned["price_credits"] is Unknown:
            planned["price_credits"] = done.charged_credits
        with Reporting(
            ctx.diagnostics, self._names()
        ):  # the name is there: Terraform has to keep it, whatever fails
            if restored:
                self.client.subdomains.update_nameservers(fqdn, **_delegation(planned))
            self._set_auto_renew(planned)
            return self._settle(ctx.diagnostics, planned)
        return planned | _state(done.subdomain)

    def find(self, current: State) -> State | None:
        """Return the name as it is; None if it is in the trash or another's."""
        self.registrations.held.add(parse_name(current["fqdn"]))
        try:
            found = self.client.subdomains.get(current["fqdn"])
        except SubdomainNotFound:
            return None
        if current["auto_renew"]:
            renewal = self.client.subdomains.get_auto_renew(found.fqdn)
            current["auto_renew"] = renewal.enabled and renewal.max_credits == (current["max_credits"] or 0)
        return current | _state(found)

    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:
        """Change delegation and automatic renewal."""
        if self.is_changed(current, planned, *DELEGATION):
            self.client.subdomains.update_nameservers(planned["fqdn"], **_delegation(planned))
        if self.is_changed(current, planned, "auto_renew", "max_credits"):
            self._set_auto_renew(planned)
        return self._settle(ctx.diagnostics, planned)

    def remove(self, current: State) -> None:
        """Move the name to the trash."""
        try:
            self.client.subdomains.delete(current["fqdn"])
        except SubdomainNotFound:
            return

    def identify(self, text: str) -> State:
        """Return the name."""
        return {"fqdn": text}

    def _is_own(self, fqdn: str) -> bool:
        try:
            self.client.subdomains.get(fqdn)
        except SubdomainNotFound:
            return False
        return True

    def _find_trashed(self, fqdn: str) -> Subdomain | None:
        wanted = parse_name(fqdn)
        trash = self.client.subdomains.list(status="trashed", q=wanted)
        return next((each for each in trash if each.fqdn == wanted), None)

    def _plan_return(self, diagnostics: Diagnostics, planned: State, trashed: Subdomain) -> None:
        """Plan the way back from the trash, in the mode that the name has. It costs nothing within the paid term."""
        mode = known(planned, "registration_mode", trashed.registration_type)
        if mode != trashed.registration_type:
            diagnostics.add_error(
                f"{trashed.fqdn} is in your trash with the mode {trashed.registration_type}, and comes back with it. Write that mode.",
                path=["registration_mode"],
            )
        planned["registration_mode"] = trashed.registration_type
        if trashed.expires_at > datetime.now(UTC):
            planned["price_credits"] = 0

    def _plan_registration(self, diagnostics: Diagnostics, planned: State) -> None:
        """Plan a registration in the mode that is wanted, by default the first one on offer."""
        fqdn, mode = planned["fqdn"], known(planned, "registration_mode")
        found = self.client.subdomains.availability(fqdn)
        offers = {each.mode: each for each in found.modes}
        in_use = (
            self._free_names_in_use(fqdn) if mode in (None, "free") and not offers.keys() - {"plus"} else ""
        )
        offer = offers.get(mode) if mode else next(iter(found.modes), None)
        if offer is not None:
            planned["registration_mode"], planned["price_credits"] = offer.mode, offer.price_credits
            self._check_price(diagnostics, planned, f"{in_use} Destroy one, or pay: " if in_use else "")
        elif in_use:
            advice = ", or ".join(["Destroy one", *(f"use the mode {each}" for each in offers)])
            diagnostics.add_error(f"{in_use} {advice}.", path=["registration_mode"])
        elif offers:
            sentence = f"{fqdn} is not offered in the mode {mode}. Use one of: {', '.join(offers)}."
            diagnostics.add_error(sentence, path=["registration_mode"])
        else:
            reason = REASONS.get(found.reason or "", f"the registry says {found.reason}. Try again later.")
            diagnostics.add_error(f"{fqdn} can't be registered: {reason}", f"({found.reason})", path=["fqdn"])

    def _free_names_in_use(self, fqdn: str) -> str:
        """Return a sentence if no free name is left and the platform domain has them; otherwise, or without the scope, an empty one."""
        domain = parse_name(fqdn).partition(".")[2]
        try:
            usage = self.client.account.free_subdomains()
            ours = next((each for each in self.client.platform_domains.list() if each.domain == domain), None)
        except InsufficientScope:
            return ""
        if usage.remaining or ours is None or all(each.mode != "free" for each in ours.modes):
            return ""
        return f"{usage.used} of {usage.limit} free names are in use."

    def _find_means(self) -> Means | None:
        try:
            usage = self.client.account.free_subdomains()
            return Means(usage.remaining, usage.limit, self.client.credits.get().credit_balance)
        except InsufficientScope:
            return None

    def _check_price(self, diagnostics: Diagnostics, planned: State, before: str) -> None:
        price, limit = planned["price_credits"], planned["max_credits"]
        if limit is not Unknown and price > (limit or 0):
            diagnostics.add_error(
                f"{before}{planned['fqdn']} costs {price} credits, and max_credits is {limit or 0}. Set max_credits to {price} to pay that.",
                path=["max_credits"],
            )

    def _set_auto_renew(self, planned: State) -> None:
        if planned["auto_renew"] is not None:
            most = known(planned, "max_credits", 0) if planned["auto_renew"] else None
            self.client.subdomains.set_auto_renew(planned["fqdn"], planned["auto_renew"], max_credits=most)

    def _settle(self, diagnostics: Diagnostics, planned: State) -> State:
        """Wait for the DNS and return the state. A name that isn't there in time is a warning: Terraform would replace it after an error."""
        try:
            found = self.client.subdomains.wait(planned["fqdn"])
        except NotInTime as error:
            diagnostics.add_warning(str(error))
            found = self.client.subdomains.get(planned["fqdn"])
        if found.provision_error:
            diagnostics.add_warning(
                f"{found.fqdn} is not in the DNS: {found.provision_error}", path=["nameservers"]
            )
        return planned | _state(found)


def _already(fqdn: str) -> str:
    name = parse_name(fqdn)
    return f"You hold {name} already. Import it: terraform import sublet_subdomain.NAME {name}"


def _delegation(planned: State) -> dict[str, Any]:
    """Return the delegation as the arguments of the client."""
    glue = []
    for host, addresses in (planned["glue"] or {}).items():
        v4 = [each for each in addresses if ":" not in each]
        v6 = [each for each in addresses if ":" in each]
        glue += [GlueEntry(host=host, ipv4=a, ipv6=b) for a, b in zip_longest(v4, v6)]
    return {
        "nameservers": sorted(planned["nameservers"] or ()),
        "glue": glue,
        "ds_records": sorted(planned["ds_records"] or ()),
    }


def glue_of(found: Subdomain) -> dict[str, list[str]]:
    """Return the glue of a name as addresses by host."""
    glue: dict[str, list[str]] = {}
    for each in found.glue:
        glue.setdefault(each.host, []).extend(a for a in (each.ipv4, each.ipv6) if a is not None)
    return glue


def _state(found: Subdomain) -> State:
    """Return what the service knows; nothing is null, as if it were not configured."""
    return {
        "id": str(found.id),
        "nameservers": list(found.nameservers) or None,
        "glue": glue_of(found) or None,
        "ds_records": list(map(str, found.ds_records)) or None,
        "registration_mode": found.registration_type,
        "status": found.status,
        "expires_at": found.expires_at.isoformat(),
    }
