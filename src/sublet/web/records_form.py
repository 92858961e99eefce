"""Convert the forms for records to RRsets. Each form has a purpose, such as a website or a row of the table.

`check_records` checks the RRsets. These functions accept what people paste: addresses of pages, several hosts
in one field.
"""

import re
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from msgspec import Struct

from sublet.dns.names import shown
from sublet.dns.types import RecordSet, RecordSetInput
from sublet.errors import FieldError, validation_failed
from sublet.platform_domains.model import PlatformDomain
from sublet.structs import replace
from sublet.subdomains.records.rule import canonical_owner, check_records
from sublet.subdomains.records.values import InvalidValue, parse_value
from sublet.subdomains.records.zone_file import ZoneFileRecords, read_zone_file
from sublet.web.form import Form

_ENTRY = re.compile(r"records\[(\d+)\](?:\.(name|type|ttl|values))?(?:\[\d+\])?")
_WEBSITE_TYPES = ("A", "AAAA", "CNAME")
_HAS_ALIAS = (
    "The name points to a host (CNAME), so it can have no other records. Give another name, or remove its "
    "CNAME first."
)
_BOTH = ("@", "www")


class RecordsForm(Struct, frozen=True):
    """The RRsets of a form, as `ChangeRecords` takes them.

    `fields` has the form's field for the values of each entry, `owner_field` the one for all owners. `file`
    is the zone file that has the entries, if they come from one.
    """

    entries: tuple[RecordSetInput, ...]
    fields: tuple[str, ...]
    owner_field: str
    replaces_all: bool = False
    file: ZoneFileRecords | None = None

    def error_in_form(self, error: FieldError) -> FieldError:
        """Return an error of `check_records` with the form's name of the field."""
        if self.file is not None:
            return self.file.error_in_file(error)
        found = _ENTRY.fullmatch(error.field)
        if found is None:  # about a stored RRset, or about all
            message = _HAS_ALIAS if error.code == "cname_not_alone" else error.message
            return FieldError(self.fields[0], error.code, message)
        index, member = int(found[1]), found[2]
        names = {"name": self.owner_field, "ttl": "ttl", "type": "type"}
        return FieldError(names.get(member, self.fields[index]), error.code, error.message)


def check_records_form(
    form: Form, fqdn: str, stored: Sequence[RecordSet], platform_domain: PlatformDomain
) -> tuple[RecordsForm, tuple[RecordSet, ...]]:
    """Return the RRsets of a form, and all RRsets that the name would have with them.

    `stored` are those that it has.

    Raises:
        ValidationFailed: a host has one label, a TTL is no number, a line of a zone file can't be read, or
            `check_records` refuses the RRsets. The fields are those of the form.
    """
    found = PURPOSES.get(form.get("purpose", ""), _row)(form, fqdn, stored)
    kept = None if found.replaces_all else stored
    wanted, errors = check_records(fqdn, found.entries, platform_domain, stored=kept)
    if errors:
        raise validation_failed(list(dict.fromkeys(map(found.error_in_form, errors))))
    return found, wanted


def _website(form: Form, name: str, owner: str, stored: Sequence[RecordSet]) -> RecordsForm:
    """Point one owner, or two, to hosts or addresses, in place of what they point to."""
    values: dict[str, list[str]] = {}
    for word in form.get(name, "").replace(",", " ").split():
        host = _host(word)
        values.setdefault(_type_of(host), []).append(host)
    mistyped = [each for each in values.get("CNAME", ()) if _is_like_an_address(each)]
    if mistyped:
        message = f"`{mistyped[0]}` is not an IP address. Copy it from your web host again."
        raise validation_failed([FieldError(name, "record_invalid", message)])
    single = [each for each in values.get("CNAME", ()) if "." not in each.rstrip(".")]
    if single:
        message = (
            f"`{single[0]}` is not a full name. Copy it from your web host, such as my-site.netlify.app."
        )
        raise validation_failed([FieldError(name, "record_invalid", message)])
    if not values:
        values["CNAME" if name == "host" else "A"] = [""]  # the rule refuses it
    entries = []
    for each in _BOTH if owner == "both" else (owner or "@",):
        entries += [RecordSetInput(each, rdtype, tuple(texts)) for rdtype, texts in values.items()]
        entries += [
            RecordSetInput(each, old.type, ())
            for old in stored
            if old.name == each and old.type in _WEBSITE_TYPES and old.type not in values
        ]
    return RecordsForm(tuple(entries), (name,) * len(entries), f"{name}_at")


def _host_website(form: Form, _fqdn: str, stored: Sequence[RecordSet]) -> RecordsForm:
    return _website(form, "host", form.get("host_at", ""), stored)


def _address_website(form: Form, _fqdn: str, stored: Sequence[RecordSet]) -> RecordsForm:
    return _website(form, "addresses", form.get("addresses_at", ""), stored)


def _github_pages(form: Form, _fqdn: str, stored: Sequence[RecordSet]) -> RecordsForm:
    """Point an owner to `USER.github.io`, which is right for sites of users, of organizations and of
    projects.
    """
    text = form.get("github_user", "")
    host, _, path = (text.partition("://")[2] or text).lower().partition("/")
    user = path.partition("/")[0] if host in ("github.com", "www.github.com") else host
    user = user.removeprefix("@").removesuffix(".").removesuffix(".github.io")
    if " " in user:
        message = (
            f"`{shown(user)}` has a space, so it is no user name. Copy it from your page github.com/NAME."
        )
        raise validation_failed([FieldError("github_user", "record_invalid", message)])
    pages = Form([("github_user", f"{user}.github.io" if user else "")])
    return _website(pages, "github_user", form.get("github_user_at", ""), stored)


def _mail(form: Form, fqdn: str, stored: Sequence[RecordSet]) -> RecordsForm:
    """Receive mail at hosts, whose order is their preference, and publish an SPF policy."""
    lines = [each.strip() for each in re.split("[\n,;]", form.get("mail_hosts", ""))]
    hosts = [_mail_host(line, 10 * number) for number, line in enumerate(filter(None, lines), 1)]
    entries = [RecordSetInput("@", "MX", tuple(hosts) or ("",))]
    if spf := form.text("spf"):
        others = [each for each in stored if each.type != "TXT"]
        others += [_without_spf(each) for each in stored if each.type == "TXT"]
        entries.append(_with_added(fqdn, others, "@", "TXT", [spf]))
    return RecordsForm(tuple(entries), ("mail_hosts", "spf")[: len(entries)], "mail_hosts")


def _mail_host(line: str, preference: int) -> str:
    """Return the value of the MX record in a line, such as `mx1.example.com`, `10 mx1.example.com` or a line
    of a zone file. A line with several hosts is returned, and the rule refuses it.
    """
    words = line.split()
    types = [each.upper() for each in words]
    words = words[types.index("MX") + 1 :] if "MX" in types[:-1] else words
    if any("." in each for each in words[:-2]):
        return line
    return " ".join(words[-2:] if len(words) > 1 else [str(preference), *words])


def _text(form: Form, fqdn: str, stored: Sequence[RecordSet]) -> RecordsForm:
    """Add a text to those of its owner."""
    entry = _with_added(fqdn, stored, form.get("text_at", ""), "TXT", [form.get("text", "")])
    return RecordsForm((entry,), ("text",), "text_at")


def _new_row(form: Form, fqdn: str, stored: Sequence[RecordSet]) -> RecordsForm:
    """Add values to an RRset, or a new RRset."""
    values, ttl_seconds = form.lines("values") or [""], _ttl(form)
    entry = _with_added(fqdn, stored, form.get("name", ""), form.get("type", ""), values, ttl_seconds)
    return RecordsForm((entry,), ("values",), "name")


def _row(form: Form, fqdn: str, _stored: Sequence[RecordSet]) -> RecordsForm:
    """Change or remove an RRset of the table, or give it another owner."""
    old_owner, rdtype = form.get("old_name", ""), form.get("type", "")
    removal = RecordSetInput(old_owner, rdtype, ())
    owner = form.get("name", "") or "@"
    values = form.lines("values")
    if form.is_on("remove") or not values:
        entries = [removal]
    else:
        entries = [RecordSetInput(owner, rdtype, tuple(values), _ttl(form))]
        if canonical_owner(fqdn, owner) != old_owner:
            entries.append(removal)
    return RecordsForm(tuple(entries), ("values", "name")[: len(entries)], "name")


def _zone_file(form: Form, fqdn: str, _stored: Sequence[RecordSet]) -> RecordsForm:
    """Replace all records by those of a zone file."""
    found = read_zone_file(form.get("zone_file", ""), fqdn)
    fields = ("zone_file",) * len(found.entries)
    return RecordsForm(found.entries, fields, "zone_file", replaces_all=True, file=found)


PURPOSES: dict[str, Callable[[Form, str, Sequence[RecordSet]], RecordsForm]] = {
    "host": _host_website,
    "addresses": _address_website,
    "github": _github_pages,
    "mail": _mail,
    "text": _text,
    "new": _new_row,
    "zone_file": _zone_file,
}
"""The forms by their field `purpose`. Each row of the table is a form without one of these."""


def _host(word: str) -> str:
    """Return the host of a word, which may be the address of a page."""
    return (word.partition("://")[2] or word).partition("/")[0].strip("[]")


def _is_like_an_address(host: str) -> bool:
    """True if a text that isn't an address was meant as one."""
    return host.count(":") > 1 or host.rstrip(".").rpartition(".")[2].isdigit()


def _type_of(host: str) -> str:
    try:
        return "A" if ip_address(host).version == 4 else "AAAA"
    except ValueError:
        return "CNAME"


def _ttl(form: Form) -> int | None:
    seconds = form.number("ttl")
    if isinstance(seconds, str):
        message = f"`{seconds}` is no number of seconds. Give a number such as 300."
        raise validation_failed([FieldError("ttl", "value_invalid", message)])
    return seconds


def _without_spf(record_set: RecordSet) -> RecordSet:
    others = [each for each in record_set.values if not each.lower().startswith('"v=spf1')]
    return replace(record_set, values=tuple(others))


def _with_added(
    fqdn: str,
    stored: Sequence[RecordSet],
    owner: str,
    rdtype: str,
    values: Sequence[str],
    ttl_seconds: int | None = None,
) -> RecordSetInput:
    """Return the RRset of an owner with its stored values, and those of `values` that aren't among them.

    An empty owner is the name.
    """
    key = (canonical_owner(fqdn, owner or "@"), rdtype)
    old = next((each for each in stored if (each.name, each.type) == key and each.values), None)
    if old is None:
        return RecordSetInput(owner or "@", rdtype, tuple(values), ttl_seconds)

    def is_old(text: str) -> bool:
        try:
            return parse_value(fqdn, rdtype, text, accepts_private=True)[0] in old.values
        except InvalidValue:
            return False

    added = [each for each in values if not is_old(each)]
    return RecordSetInput(owner or "@", rdtype, (*old.values, *added), ttl_seconds or old.ttl_seconds)
