"""The YAML file of names of `apply`, read strictly: a mistake in it is refused before anything is changed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, TypeVar, cast

import yaml
from yaml.composer import ComposerError

from sublet_client.cli.plan import MODES, Wanted
from sublet_client.models import RecordSet
from sublet_client.spelling import (
    parse_address,
    parse_ds,
    parse_host,
    parse_name,
    parse_record_owner,
    parse_record_type,
    parse_record_value,
)

T = TypeVar("T")
FILE_CHARACTERS_MAX = 10_000_000
MEMBERS = ("nameservers", "glue", "ds_records", "mode", "records")
RECORD_MEMBERS = ("name", "type", "values", "ttl")
TTL_DEFAULT = 300


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """The safe loader, except that it refuses a key that a mapping has twice.

    PyYAML itself keeps the last one (YAML 1.2.2, section 3.2.1.1).
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return a mapping before its merge keys (`<<`) are resolved, which may give a key twice."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    problem = f"The key `{key.value}` is there twice. Keep one"
                    raise ComposerError(None, None, problem, key.start_mark)
                seen.add((key.tag, key.value))
        return node


def read_names(file: IO[str]) -> list[Wanted]:
    """Return the names of a file.

    Raises:
        ValueError: the file is too long, isn't YAML, has a key twice, a member that is not known or of the
            wrong type, a value that can't be parsed, or a name in two spellings. The sentence says where.
    """
    text = file.read(FILE_CHARACTERS_MAX + 1)
    if len(text) > FILE_CHARACTERS_MAX:
        raise ValueError("The file is longer than 10 MB. Split it.")
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - it is a safe loader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"The file isn't YAML, in line {line}: {error.problem}. Correct the line.") from None
    except yaml.YAMLError as error:
        raise ValueError(f"The file isn't YAML: {error}") from None
    except (ValueError, AttributeError, RecursionError):  # PyYAML's own, of `2026-99-99` and `!!int x` too
        raise ValueError(
            "The file has a wrong date or number, or is nested too deeply. Write texts in quotes."
        ) from None
    return parse_names(document)


def parse_names(document: object) -> list[Wanted]:
    """Return the names of a document.

    Raises:
        ValueError: as `read_names`.
    """
    entries = _mapping(document, "The file", ("names",)).get("names")
    if not isinstance(entries, dict):
        raise ValueError("The file has no names. Begin it with `names:`, and give each name its members.")
    found: dict[str, tuple[object, Wanted]] = {}
    for key, members in cast("dict[object, object]", entries).items():
        wanted = _parse(key, members)
        if wanted.fqdn in found:
            raise ValueError(f"`{found[wanted.fqdn][0]}` and `{key}` are the same name. Keep one.")
        found[wanted.fqdn] = key, wanted
    return [wanted for _, wanted in found.values()]


def _parse(key: object, members: object) -> Wanted:
    if not isinstance(key, str):
        raise ValueError(f"`{key}` is no name. Write names as text, in quotes if need be.")
    try:
        fqdn = parse_name(key)
        entry = _mapping({} if members is None else members, "It", MEMBERS)
        nameservers, glue, ds_records, mode, records = (entry.get(each) for each in MEMBERS)
        return Wanted(
            fqdn,
            None if nameservers is None else _hosts(_texts(nameservers, "nameservers")),
            None if glue is None else _glue(glue),
            None
            if ds_records is None
            else _distinct(parse_ds(each, fqdn) for each in _texts(ds_records, "ds_records")),
            None if mode is None else _mode(mode),
            None if records is None else _records(records, fqdn, nameservers),
        )
    except ValueError as error:
        raise ValueError(f"The entry of {key} is wrong: {error}") from None


def _mapping(found: object, what: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"{what} is no mapping. Write it with {', '.join(f'`{each}:`' for each in known)}.")
    members = cast("dict[str, Any]", found)
    for key in members:
        if key not in known:
            raise ValueError(f"{what} has `{key}`, which is not known. Use some of {', '.join(known)}.")
    return members


def _texts(found: object, what: str) -> list[str]:
    if isinstance(found, list):
        items = cast("list[object]", found)
        texts = [each for each in items if isinstance(each, str)]
        if len(texts) == len(items):
            return texts
    raise ValueError(f"`{what}` is no list of texts. Write it as `[a, b]`, with numbers in quotes.")


def _mode(found: object) -> str:
    if not isinstance(found, str) or found not in MODES:
        raise ValueError(f"`mode` can't be `{found}`. Use one of {', '.join(MODES)}.")
    return found


def _hosts(texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for each in texts:
        host = parse_host(each)
        if host in found:
            raise ValueError(f"the nameserver `{host}` is there twice. Keep one.")
        found[host] = each
    return tuple(found)


def _glue(found: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(found, dict):
        raise ValueError("`glue` is no mapping. Give each nameserver its addresses.")
    pairs: list[tuple[str, str]] = []
    hosts: set[str] = set()
    for key, given in cast("dict[object, object]", found).items():
        if not isinstance(key, str):
            raise ValueError(f"`glue` has `{key}`, which is no name.")
        host = parse_host(key)
        if host in hosts:
            raise ValueError(f"`glue` has {host} twice. Keep one.")
        hosts.add(host)
        addresses = [given] if isinstance(given, str) else _texts(given, f"glue of {key}")
        pairs += [(host, parse_address(each)) for each in addresses]
    return _distinct(sorted(pairs))


def _records(found: object, fqdn: str, nameservers: object) -> tuple[RecordSet, ...]:
    if found and nameservers:
        raise ValueError("it has nameservers and records. Keep one of the two.")
    if not isinstance(found, list):
        raise ValueError("`records` is no list. Give each type at an owner an entry.")
    sets: dict[tuple[str, str], RecordSet] = {}
    for each in cast("list[object]", found):
        record = _record(_mapping(each, "A record", RECORD_MEMBERS), fqdn)
        if (record.name, record.type) in sets:
            raise ValueError(
                f"`records` has {record.type} of {record.name} twice. Put all values into one entry."
            )
        sets[record.name, record.type] = record
    return tuple(sets.values())


def _record(entry: Mapping[str, Any], fqdn: str) -> RecordSet:
    name, kind, ttl = entry.get("name"), entry.get("type"), entry.get("ttl", TTL_DEFAULT)
    if not isinstance(name, str) or not isinstance(kind, str):
        raise ValueError('a record needs a `name`, such as "@" in quotes, and a `type`.')
    if not isinstance(ttl, int) or isinstance(ttl, bool):
        raise ValueError(f"the `ttl` of a record can't be `{ttl}`. Give a number of seconds.")
    values = _texts(entry.get("values"), "values")
    if not values:
        raise ValueError(f"the {kind} record of {name} has no values. Give some, or remove the entry.")
    return RecordSet(
        name=parse_record_owner(name, fqdn),
        type=parse_record_type(kind),
        ttl=ttl,
        values=_distinct(sorted(parse_record_value(each, kind, fqdn) or each for each in values)),
    )


def _distinct(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))
