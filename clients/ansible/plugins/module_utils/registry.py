"""What all modules share: the options of the registry, its client, and refusals as failures of the task."""

from ansible.module_utils.basic import AnsibleModule, env_fallback, missing_required_lib

try:
    import msgspec

    from sublet_client import (
        ApiError,
        Client,
        RecordSetEntry,
        SubdomainNotFound,
        SubletError,
        spelling,
    )
except ImportError as error:
    MISSING = str(error)
else:
    MISSING = ""


def run(options, act, **settings):
    """Run a module: `act(module, client)` returns what it tells Ansible."""
    module = AnsibleModule(
        {
            "url": {"type": "str", "required": True, "fallback": (env_fallback, ["SUBLET_URL"])},
            "token": {
                "type": "str",
                "required": True,
                "no_log": True,
                "fallback": (env_fallback, ["SUBLET_TOKEN"]),
            },
            **options,
        },
        supports_check_mode=True,
        **settings,
    )
    if MISSING:
        module.fail_json(msg=missing_required_lib("sublet-client"), exception=MISSING)
    try:
        with Client(module.params["url"], module.params["token"]) as client:
            told = act(module, client)
    except ApiError as refusal:
        fields = [
            {"field": each.field, "code": each.code, "message": each.message} for each in refusal.errors
        ]
        module.fail_json(msg=refusal.message, code=refusal.code, errors=fields, request_id=refusal.request_id)
    except (SubletError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**told)


def plain(result):
    """Return a result of the client as JSON has it."""
    return msgspec.to_builtins(result)


def find(client, fqdn):
    """Return a name that the user holds; None if it doesn't."""
    try:
        return client.subdomains.get(fqdn)
    except SubdomainNotFound:
        return None


def find_trashed(client, fqdn):
    """Return a name in the user's trash; None if it isn't there. `fqdn` is canonical."""
    trash = client.subdomains.list(status="trashed", q=fqdn)
    return next((each for each in trash if each.fqdn == fqdn), None)


def parse_option(option, value, parse):
    """Return the canonical form of a value of an option, or raise ValueError with the name of the option."""
    if not isinstance(value, str):
        raise ValueError(f"{option}: {value!r} is no text. Write a text, or leave it out.")  # noqa: TRY004 - reported like other wrong values
    try:
        return parse(value)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def parse_options(option, values, parse):
    """Return the canonical forms of a list, sorted and each once."""
    return sorted({parse_option(option, each, parse) for each in values})


def parse_price(option, value):
    """Return a number of credits, or raise ValueError with the name of the option."""
    return parse_option(option, str(value), spelling.parse_price)


def delegation_of(name):
    """Return the delegation of a name as `normal_delegation` has it."""
    glue = {}
    for each in name.glue:
        glue.setdefault(each.host, []).extend(one for one in (each.ipv4, each.ipv6) if one)
    return {
        "nameservers": sorted(name.nameservers),
        "glue": {host: sorted(addresses) for host, addresses in sorted(glue.items())},
        "ds_records": sorted(map(str, name.ds_records)),
    }


def normal_delegation(fqdn, given):
    """Return the delegation in the options of a module as the API spells it, sorted, without what isn't
    given.

    `fqdn` is canonical.
    """
    normal = {}
    if given["nameservers"] is not None:
        hosts = [parse_option("nameservers", each, spelling.parse_host) for each in given["nameservers"]]
        twice = next((each for each in hosts if hosts.count(each) > 1), None)
        if twice is not None:
            raise ValueError(f"nameservers: {twice} is given twice. Remove one of the two.")
        normal["nameservers"] = sorted(hosts)
    if given["glue"] is not None:
        glue = {}
        for host, addresses in given["glue"].items():
            if not isinstance(addresses, list):
                raise ValueError(f"glue: {host} has no list of addresses. Write one, such as [192.0.2.1].")  # noqa: TRY004
            parsed = parse_options("glue", addresses, spelling.parse_address)
            glue.setdefault(parse_option("glue", host, spelling.parse_host), set()).update(parsed)
        normal["glue"] = {host: sorted(addresses) for host, addresses in sorted(glue.items()) if addresses}
    if given["ds_records"] is not None:
        normal["ds_records"] = parse_options(
            "ds_records", given["ds_records"], lambda text: spelling.parse_ds(text, fqdn)
        )
    return normal


def arguments_of(delegation):
    """Return a normal delegation as the arguments of the client."""
    arguments = dict(delegation)
    if "glue" in arguments:
        arguments["glue"] = [
            spelling.glue_entry(host, each)
            for host, addresses in delegation["glue"].items()
            for each in addresses
        ]
    return arguments


def record_entry(place, wanted):
    """Return an entry of a change of records at a place, which is an owner and a type.

    Without `wanted` it removes the records.
    """
    given = {"values": (), "ttl": None} if wanted is None else wanted
    return RecordSetEntry(name=place[0], type=place[1], values=tuple(given["values"]), ttl=given["ttl"])
