"""Arguments and options that several commands share, and their parsers."""

from ipaddress import ip_address
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from sublet.config import SettingsError, parse_listen
from sublet.dns.names import InvalidName, parse_host_name, shown
from sublet.dns.types import Secondary
from sublet.errors import FieldError, ValidationFailed, validation_failed
from sublet.ids import MAX_ID

Domain = Annotated[str, Argument(metavar="DOMAIN", help="The platform domain's name or id.")]
OnlyDomain = Annotated[
    str | None, Option("--domain", metavar="DOMAIN", help="Only this platform domain: name or id.")
]
User = Annotated[
    str, Argument(metavar="USER", help="E-mail address or id; organization:ID for an organization's account.")
]
OnlyUser = Annotated[
    str | None, Option("--user", metavar="USER", help="Only this user: e-mail address or id.")
]
OrganizationName = Annotated[
    str, Argument(metavar="ORGANIZATION", help="The organization's name, slug or id.")
]
SubdomainName = Annotated[str, Argument(metavar="NAME", help="The full name, or the subdomain's id.")]
INSTANT_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]
SEARCH_CHARACTERS_MAX = 254
Limit = Annotated[int, Option(metavar="N", min=1, max=100_000, help="The maximum number of rows.")]
Reason = Annotated[str | None, Option("--reason", metavar="TEXT", help="The reason, for the audit.")]
ReasonForUser = Annotated[
    str | None, Option("--reason", metavar="TEXT", help="The reason, for the audit. The user sees it too.")
]


def id_argument(meaning: str) -> Any:
    """Return an argument with an id. The databases can't compare larger numbers."""
    return Argument(metavar="ID", min=1, max=MAX_ID, help=meaning)


def containing_option(meaning: str) -> Any:
    """Return an option with a text to search for. SQLite can't search for very long ones."""
    return Option("--containing", metavar="TEXT", callback=_refuse_long, help=meaning)


def _refuse_long(text: str | None) -> str | None:
    if text is not None and len(text) > SEARCH_CHARACTERS_MAX:
        raise BadParameter(f"The text has {len(text)} characters. Give at most {SEARCH_CHARACTERS_MAX}.")
    return text


def invalid_option(field: str, sentence: str) -> ValidationFailed:
    """Return the refusal of an option's value."""
    return validation_failed([FieldError(field, "value_invalid", sentence)])


def parse_server_address(field: str, text: str) -> tuple[str, int]:
    """Return the address and port of `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`. The default port is 53.

    Raises:
        ValidationFailed: the text has another form, or other hosts can't reach the address (port 0,
            `0.0.0.0`, `::`, a zone id such as `%eth0`).
    """
    host, port = text, 53
    try:
        ip_address(host)
    except ValueError:
        try:
            host, port = parse_listen(field, text)
            ip_address(host)
        except (SettingsError, ValueError):
            sentence = (
                f"`{shown(text)}` is not an IP address with an optional port. Give an address such as "
                "192.0.2.53 or [2001:db8::53]:53."
            )
            raise invalid_option(field, sentence) from None
    if port == 0 or "%" in host or ip_address(host).is_unspecified:
        raise invalid_option(
            field, f"Other hosts can't reach `{shown(text)}`. Give the server's own address."
        )
    return str(ip_address(host)), port


def parse_secondary(text: str) -> Secondary:
    """Return the secondary server of `HOST=ADDRESS[:PORT]`.

    Raises:
        ValidationFailed: the text has another form; the host is not a host name; the address is invalid
            (`parse_server_address`).
    """
    host, equals, place = text.partition("=")
    if not equals:
        sentence = (
            f"`{shown(text)}` is not HOST=ADDRESS[:PORT]. Give a value such as ns2.example.net=192.0.2.54."
        )
        raise invalid_option("secondary", sentence)
    try:
        return Secondary(parse_host_name(host), *parse_server_address("secondary", place))
    except InvalidName as error:
        raise invalid_option("secondary", str(error)) from None
