"""What all modules share: the options of the registry, its client, and refusals as failures of the task."""

from ansible.module_utils.basic import AnsibleModule, env_fallback, missing_required_lib

try:
    import msgspec

    from sublet_client import ApiError, Client, GlueEntry, SubdomainNotFound, SubletError
    from sublet_client.spelling import parse_address, parse_ds, parse_host, parse_name
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
    """Return a name in the user's trash; None if it isn't there."""
    wanted = parse_name(fqdn)
    trash = client.subdomains.list(status="trashed", q=wanted)
    return next((each for each in trash if each.fqdn == wanted), None)


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


def normal_delegation(given):
    """Return the delegation in the options of a module as the API spells it, sorted, without what isn't given."""
    normal = {}
    if given["nameservers"] is not None:
        normal["nameservers"] = sorted(parse_host(each) for each in given["nameservers"])
    if given["glue"] is not None:
        glue = {}
        for host, addresses in given["glue"].items():
            glue.setdefault(parse_host(host), set()).update(map(parse_address, addresses))
        normal["glue"] = {host: sorted(addresses) for host, addresses in sorted(glue.items())}
    if given["ds_records"] is not None:
        normal["ds_records"] = sorted({parse_ds(each, given["fqdn"]) for each in given["ds_records"]})
    return normal


def arguments_of(delegation):
    """Return a normal delegation as the arguments of the client."""
    arguments = dict(delegation)
    if "glue" in arguments:
        arguments["glue"] = [
            GlueEntry(host=host, ipv6=each) if ":" in each else GlueEntry(host=host, ipv4=each)
            for host, addresses in delegation["glue"].items()
            for each in addresses
        ]
    return arguments
