"""`sublet_subdomain`: a name with its delegation."""

from collections.abc import Collection
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
from sublet_client.spelling import parse_ds, parse_host, parse_name
from sublet_terraform.registrations import Means
from sublet_terraform.reporting import Reporting
from sublet_terraform.resource import State, SubletResource, known
from sublet_terraform.values import Credits, Glue, Text, Texts, instant_text

DELEGATION = ("nameservers", "glue", "ds_records")
MODES = ("free", "plus", "premium", "special")
REASONS = {
    "account_suspended": "your account is suspended. Ask the operator of the registry.",
    "clock_implausible": "the clock of the registry is wrong. Try again in an hour.",
    "registration_closed": "its platform domain takes no registrations now. Choose another one of "
    "data.sublet_platform_domains.",
    "registration_mode_not_allowed": "its platform domain has no mode for you and "
    "this name now. Choose another name.",
    "subdomain_unavailable": "it is taken, reserved, or not free again yet. Choose another name.",
}
"""Why a name can't be registered, by the code of its availability."""


class SubdomainResource(SubletResource):
    """A name: registered or brought back from the own trash, delegated, renewed automatically; destroyed into
    the trash.
    """

    name = "subdomain"
    description = (
        "A name with its delegation. Destroying it moves it to the trash; creating it again brings it back "
        "from there."
    )
    attributes = (
        Attribute("fqdn", Text(parse_name), "The name.", required=True, requires_replace=True),
        Attribute(
            "nameservers",
            Texts(parse_host),
            "The nameservers; by default none.",
            optional=True,
            computed=True,
            default=[],
        ),
        Attribute(
            "glue",
            Glue(),
            'The addresses of nameservers at or below the name: `{ "ns1.blog.example.net" = ["8.8.4.4"] '
            "}`; by default none.",
            optional=True,
            computed=True,
            default={},
        ),
        Attribute(
            "ds_records",
            Texts(str.strip),  # `canonical` and `validate` parse them, with the name that they are for
            "DS records, or DNSKEYs, in zone-file text; by default none.",
            optional=True,
            computed=True,
            default=[],
        ),
        Attribute(
            "registration_mode",
            String(),
            "`free`, `plus`, `premium` or `special`; by default that of the platform domain. It can't be "
            "changed.",
            optional=True,
            computed=True,
        ),
        Attribute(
            "max_credits",
            Credits(),
            "The most that one payment for the name may cost: registration, way back from the trash, "
            "automatic renewal. By default 0.",
            optional=True,
            computed=True,
            default=0,
        ),
        Attribute(
            "auto_renew",
            Bool(),
            "Whether the name is renewed automatically, for at most `max_credits`. Left out: as it is.",
            optional=True,
            computed=True,
        ),
        Attribute(
            "coupon_code",
            String(),
            "A coupon for the creation; by default none. The price is then known after the apply, and at "
            "most `max_credits`.",
            optional=True,
            computed=True,
            default="",
        ),
        Attribute("price_credits", Number(), "What the creation costs.", computed=True),
        Attribute("id", String(), "The id.", computed=True),
        Attribute("status", String(), "`active`: the DNS has the delegation.", computed=True),
        Attribute("expires_at", String(), "When the term ends.", computed=True),
    )

    @classmethod
    def canonical(cls, state: State, name: str) -> Any:
        """Return the value of an attribute in a form that is equal for all its spellings.

        A DNSKEY is equal to its DS record.
        """
        if name != "ds_records" or Unknown in (state["fqdn"], state["ds_records"]):
            return super().canonical(state, name)
        return Texts(lambda text: parse_ds(text, state["fqdn"])).canonical(state["ds_records"])

    def check(self, diags: Diagnostics, config: State) -> None:
        """Refuse unknown modes, DS records that can't be published, and nameservers given twice."""
        mode = known(config, "registration_mode", "free")
        if mode not in MODES:
            diags.add_error(
                f"There is no mode {mode}. Use one of {', '.join(MODES)}, or leave it out.",
                path=["registration_mode"],
            )
        records = Texts(lambda text: parse_ds(text, config["fqdn"]))
        for _, sentence in records.faults(None if config["fqdn"] is Unknown else config["ds_records"]):
            diags.add_error(sentence, path=["ds_records"])
        hosts = [parse_host(each) for each in known(config, "nameservers", ()) if each is not Unknown]
        for each in {each for each in hosts if hosts.count(each) > 1}:
            diags.add_error(
                f"The nameserver {each} is given twice. Remove one of the two.", path=["nameservers"]
            )

    def plan_new(self, ctx: PlanContext, planned: State) -> State:
        """Return the plan with the price.

        A name that can't be had, or for more than `max_credits`, fails here.
        """
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

    def plan_change(self, ctx: PlanContext, current: State, planned: State, config: State) -> State:
        """Return the plan. The state in the DNS is not known before.

        `max_credits` counts for the automatic renewal only, and a coupon no more.
        """
        self.registrations.held.add(self.canonical(current, "fqdn"))
        if not self.is_changed(current, planned, "fqdn") and self.is_changed(
            current, planned, "registration_mode"
        ):
            ctx.diagnostics.add_error(
                f"The mode of {current['fqdn']} is {current['registration_mode']} and can't be changed. "
                "Write that mode, or leave it out.",
                path=["registration_mode"],
            )
        if self.is_changed(current, planned, *DELEGATION):
            planned["status"] = Unknown
        if not config["auto_renew"] and current["max_credits"] is not None:
            planned["max_credits"] = current["max_credits"]
        planned["coupon_code"] = current["coupon_code"]
        return planned

    def create_new(self, ctx: CreateContext, planned: State) -> State | None:
        """Register the name, or bring it back from the trash, for at most the price of the plan."""
        fqdn = planned["fqdn"]
        limit = min(planned["max_credits"], known(planned, "price_credits", planned["max_credits"]))
        mode, coupon = known(planned, "registration_mode"), known(planned, "coupon_code") or None
        missing: tuple[str, ...] = ("auto_renew",)
        try:
            made = self.client.subdomains.register(
                fqdn,
                **_delegation(planned),
                registration_mode=mode,
                coupon_code=coupon,
                confirm=True,
                max_credits=limit,
            )
            price, found = made.charged_credits, made.subdomain
        except SubdomainUnavailable as refusal:
            if not refusal.details.get("owned"):
                raise
            if refusal.details.get("reason") != "in_trash":
                ctx.diagnostics.add_error(_already(fqdn), path=["fqdn"])
                return None
            restored = self.client.subdomains.restore(
                fqdn, coupon_code=coupon, confirm=True, max_credits=limit
            )
            price, found = restored.charged_credits, restored.subdomain
            missing = (*DELEGATION, "auto_renew")
        rest = Diagnostics()
        state = {"auto_renew": False, "price_credits": price, **_state(found)}
        with Reporting(rest, self._names()):
            self._change(planned, missing)
            state |= self._settle(rest, planned)
        for each in rest.diagnostics:  # an error would taint the name: the next run would destroy it
            ctx.diagnostics.add_warning(
                f"{fqdn} is yours, but: {each.summary} The next plan shows what is left to change."
            )
        return state

    def find(self, current: State) -> State | None:
        """Return the name as it is; None if it is in the trash or another's."""
        try:
            found = self.client.subdomains.get(current["fqdn"])
        except SubdomainNotFound:
            self.refuse_hidden(current["fqdn"])
            return None
        self.registrations.held.add(found.fqdn)
        return {
            **current,
            "max_credits": current["max_credits"] or 0,
            "coupon_code": current["coupon_code"] or "",
            **_state(found),
            **self._auto_renew(found.fqdn),
        }

    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:
        """Change delegation and automatic renewal."""
        changed = [each for each in planned if self.is_changed(current, planned, each)]
        self._change(planned, changed)
        return self._settle(ctx.diagnostics, planned)

    def remove(self, current: State) -> None:
        """Move the name to the trash."""
        try:
            self.client.subdomains.delete(current["fqdn"])
        except SubdomainNotFound:
            self.refuse_hidden(current["fqdn"])

    def identify(self, text: str) -> State:
        """Return the name in any spelling, or the id; `find` replaces it."""
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
        """Plan the way back from the trash, in the mode that the name has.

        It costs nothing within the paid term.
        """
        mode = known(planned, "registration_mode", trashed.registration_type)
        if mode != trashed.registration_type:
            diagnostics.add_error(
                f"{trashed.fqdn} is in your trash with the mode {trashed.registration_type}, and keeps it "
                "when it is restored. Write that mode.",
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
            planned["registration_mode"] = offer.mode
            if planned["coupon_code"] == "":
                planned["price_credits"] = offer.price_credits
                self._check_price(diagnostics, planned, f"{in_use} Destroy one, or pay: " if in_use else "")
            elif not offer.price_credits and planned["coupon_code"] is not Unknown:
                diagnostics.add_error(
                    f"{fqdn} is free in the mode {offer.mode}, so the coupon would do nothing. Leave it "
                    "out, or write another mode.",
                    path=["coupon_code"],
                )
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
        """Return a sentence if no free name is left and the platform domain has them; otherwise, or without
        the scope, an empty one.
        """
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
        if limit is not Unknown and price > limit:
            diagnostics.add_error(
                f"{before}{planned['fqdn']} costs {price} credits, and max_credits is {limit}. Set "
                f"max_credits to {price} to pay that.",
                path=["max_credits"],
            )

    def _change(self, planned: State, changed: Collection[str]) -> None:
        """Make the changes of these attributes."""
        if not {*DELEGATION}.isdisjoint(changed):
            self.client.subdomains.update_nameservers(planned["fqdn"], **_delegation(planned))
        wanted = known(planned, "auto_renew")
        if wanted is not None and not {"auto_renew", "max_credits"}.isdisjoint(changed):
            most = planned["max_credits"] if wanted else None
            self.client.subdomains.set_auto_renew(planned["fqdn"], wanted, max_credits=most)

    def _auto_renew(self, fqdn: str) -> State:
        """Return the setting of the automatic renewal; without `max_credits` if it is off."""
        found = self.client.subdomains.get_auto_renew(fqdn)
        return (
            {"auto_renew": True, "max_credits": found.max_credits} if found.enabled else {"auto_renew": False}
        )

    def _settle(self, diagnostics: Diagnostics, planned: State) -> State:
        """Wait for the DNS and return the state. A name that isn't there in time is a warning."""
        try:
            found = self.client.subdomains.wait(planned["fqdn"])
        except NotInTime as error:
            diagnostics.add_warning(str(error))
            found = self.client.subdomains.get(planned["fqdn"])
        if found.provision_error:
            diagnostics.add_warning(
                f"{found.fqdn} is not in the DNS: {found.provision_error}", path=["nameservers"]
            )
        return _state(found) | self._auto_renew(found.fqdn)


def _already(fqdn: str) -> str:
    name = parse_name(fqdn)
    return f"You hold {name} already. Import it: terraform import sublet_subdomain.NAME {name}"


def _delegation(planned: State) -> dict[str, Any]:
    """Return the delegation as the arguments of the client."""
    glue = []
    for host, addresses in planned["glue"].items():
        v4 = [each for each in addresses if ":" not in each]
        v6 = [each for each in addresses if ":" in each]
        glue += [GlueEntry(host=host, ipv4=a, ipv6=b) for a, b in zip_longest(v4, v6)]
    return {
        "nameservers": sorted(planned["nameservers"]),
        "glue": glue,
        "ds_records": sorted(planned["ds_records"]),
    }


def glue_of(found: Subdomain) -> dict[str, list[str]]:
    """Return the glue of a name as addresses by host."""
    glue: dict[str, list[str]] = {}
    for each in found.glue:
        glue.setdefault(each.host, []).extend(a for a in (each.ipv4, each.ipv6) if a is not None)
    return glue


def _state(found: Subdomain) -> State:
    """Return what the service knows."""
    return {
        "fqdn": found.fqdn,
        "id": str(found.id),
        "nameservers": list(found.nameservers),
        "glue": glue_of(found),
        "ds_records": list(map(str, found.ds_records)),
        "registration_mode": found.registration_type,
        "status": found.status,
        "expires_at": instant_text(found.expires_at),
    }
