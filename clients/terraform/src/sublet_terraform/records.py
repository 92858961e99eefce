"""`sublet_records`: the values of one type at one owner of a name."""

from typing import Any

from tf.iface import CreateContext, PlanContext, UpdateContext
from tf.schema import Attribute
from tf.types import Number, Set, String, Unknown
from tf.utils import Diagnostics

from sublet_client import RecordSet, RecordSetEntry, SubdomainNotFound, SubletError
from sublet_client.record_sets import change_record_set
from sublet_client.spelling import parse_name, parse_record_owner, parse_record_type, parse_record_value
from sublet_terraform.resource import State, SubletResource
from sublet_terraform.values import Text, Texts

TTL_MIN, TTL_DEFAULT, TTL_MAX = 60, 300, 86_400
PLACE = ("fqdn", "name", "type")


class RecordsResource(SubletResource):
    """An RRset. Creating it changes no other one, and it is refused if it exists already."""

    name = "records"
    description = (
        "The values of one type at one owner of a name without nameservers. Other records of the name stay "
        "as they are."
    )
    attributes = (
        Attribute("fqdn", Text(parse_name), "The name.", required=True, requires_replace=True),
        Attribute(
            "name",
            Text(str.strip),  # `canonical` and `check` parse it, with the name that it is for
            "The owner, relative to the name: `@` for the name itself, `www`, `*`. A full name is accepted "
            "too.",
            required=True,
            requires_replace=True,
        ),
        Attribute(
            "type",
            Text(parse_record_type),
            "The type, such as `A` or `CNAME`.",
            required=True,
            requires_replace=True,
        ),
        Attribute(
            "values",
            Texts(str.strip),  # as `name`
            "The values, in the presentation form of zone files. A `TXT` value needs no quotation marks.",
            required=True,
        ),
        Attribute(
            "ttl",
            Number(),
            f"The TTL in seconds, {TTL_MIN} to {TTL_MAX}; by default {TTL_DEFAULT}.",
            optional=True,
            computed=True,
            default=TTL_DEFAULT,
        ),
        Attribute("stored_values", Set(String()), "The values as the registry writes them.", computed=True),
    )

    @classmethod
    def canonical(cls, state: State, name: str) -> Any:
        """Return the value of an attribute in a form that is equal for all its spellings."""
        found = super().canonical(state, name)
        place = [super(RecordsResource, cls).canonical(state, each) for each in PLACE]
        if name not in ("name", "values") or Unknown in (*place, found) or None in place:
            return found
        fqdn, _, kind = place
        if name == "name":
            return _or_itself(lambda: parse_record_owner(found, fqdn), found)
        return {_canonical_value(each, kind, fqdn) for each in found}

    @classmethod
    def keep_spelling(cls, current: State, new: State) -> State:
        """Return the new values, but the current ones of attributes that are only spelled differently.

        What the registry has not changed is as it was applied, also if only the registry knows the form of
        the text.
        """
        kept = super().keep_spelling(current, new)
        stored = new["stored_values"]
        if stored is not Unknown and current["stored_values"] is not None:
            is_unchanged = set(stored) == set(current["stored_values"]) == set(new["values"] or ())
            kept["values"] = current["values"] if is_unchanged else kept["values"]
        return kept

    def check(self, diags: Diagnostics, config: State) -> None:
        """Refuse owners and values that the API would refuse, as far as that is known here, and a TTL out of
        its range.
        """
        ttl, values = config["ttl"], config["values"]
        if isinstance(ttl, (int, float)) and (ttl != int(ttl) or not TTL_MIN <= ttl <= TTL_MAX):
            diags.add_error(
                f"A TTL of {ttl} seconds is not allowed. Give {TTL_MIN} to {TTL_MAX}.", path=["ttl"]
            )
        if values == []:
            diags.add_error("values is empty. Give a value, or remove the resource.", path=["values"])
        if config["fqdn"] is Unknown:
            return
        if config["name"] is not Unknown:
            _report(diags, "name", lambda: parse_record_owner(config["name"], config["fqdn"]))
        for each in [] if Unknown in (config["type"], values) else values:
            if each is not Unknown:
                _report(
                    diags,
                    "values",
                    lambda each=each: parse_record_value(each, config["type"], config["fqdn"]),
                )

    def plan_change(self, ctx: PlanContext, current: State, planned: State, config: State) -> State:  # noqa: ARG002
        """Return the plan. The form of new values is not known before."""
        if self.is_changed(current, planned, *PLACE, "values"):
            planned["stored_values"] = Unknown
        return planned

    def create_new(self, ctx: CreateContext, planned: State) -> State | None:
        """Create the RRset, unless it exists."""
        exists = False
        fqdn, owner, kind = self._place(planned)

        def new(before: RecordSet | None) -> RecordSetEntry | None:
            nonlocal exists
            exists = before is not None
            return None if exists else _entry(planned, owner, kind)

        found = change_record_set(self.client, fqdn, owner, kind, new)
        if exists:
            ctx.diagnostics.add_error(
                f"{fqdn} has {kind} records at {owner} already. Import them: terraform import "
                f"sublet_records.NAME '{fqdn}/{owner}/{kind}'",
                path=["name"],
            )
            return None
        self._wait(ctx.diagnostics, fqdn)
        return planned | _state(found, owner, kind)

    def find(self, current: State) -> State | None:
        """Return the RRset; None if it or its name is gone."""
        try:
            fqdn, owner, kind = self._place(current)
            found = self.client.records.get(fqdn, name=owner, type=kind).records
        except SubdomainNotFound:
            self.refuse_hidden(current["fqdn"])
            return None
        place = {"fqdn": fqdn, "name": owner, "type": kind}
        return current | place | _state(found, owner, kind) if found else None

    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:
        """Replace the values and the TTL."""
        fqdn, owner, kind = self._place(current)
        done = self.client.records.set(fqdn, owner, kind, sorted(planned["values"]), ttl=int(planned["ttl"]))
        self._wait(ctx.diagnostics, fqdn)
        return planned | _state(done.records, owner, kind)

    def remove(self, current: State) -> None:
        """Remove the RRset."""
        try:
            self.client.records.remove(*self._place(current))
        except SubdomainNotFound:
            self.refuse_hidden(current["fqdn"])

    def identify(self, text: str) -> State:
        """Return the name, the owner and the type of `NAME/OWNER/TYPE`."""
        parts = text.split("/")
        if len(parts) != 3:
            raise ValueError("Give NAME/OWNER/TYPE, such as blog.example.net/www/CNAME.")
        fqdn = parse_name(parts[0])
        return {
            "fqdn": fqdn,
            "name": parse_record_owner(parts[1], fqdn),
            "type": parse_record_type(parts[2]),
        }

    def _place(self, state: State) -> tuple[str, str, str]:
        fqdn = parse_name(state["fqdn"])
        return fqdn, parse_record_owner(state["name"], fqdn), parse_record_type(state["type"])

    def _wait(self, diagnostics: Diagnostics, fqdn: str) -> None:
        """Wait for the DNS. Whatever goes wrong is a warning: the records are stored."""
        try:
            found = self.client.subdomains.wait(fqdn)
        except SubletError as error:
            diagnostics.add_warning(str(error))
            return
        if found.provision_error:
            diagnostics.add_warning(f"The records of {fqdn} are not in the DNS: {found.provision_error}")


def _canonical_value(text: str, kind: str, fqdn: str) -> str:
    return _or_itself(lambda: parse_record_value(text, kind, fqdn) or text, text)


def _or_itself(parse: Any, text: str) -> str:
    try:
        return str(parse())
    except ValueError:
        return text


def _report(diagnostics: Diagnostics, attribute: str, parse: Any) -> None:
    try:
        parse()
    except ValueError as error:
        diagnostics.add_error(str(error), path=[attribute])


def _entry(planned: State, owner: str, kind: str) -> RecordSetEntry:
    return RecordSetEntry(
        name=owner, type=kind, values=tuple(sorted(planned["values"])), ttl=int(planned["ttl"])
    )


def _state(records: tuple[RecordSet, ...], owner: str, kind: str) -> State:
    """Return what the service knows of an RRset that it has."""
    found = next(each for each in records if (each.name, each.type) == (owner, kind))
    return {"values": list(found.values), "stored_values": list(found.values), "ttl": found.ttl}
