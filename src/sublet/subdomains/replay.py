"""Replay a name's life from its audit events, and compare the result with its row.

    unborn ──register──▶ live ◀──restore── trashed ──purge──▶ purged ──release──▶ released
                          └───delete, trash───▲

In each state a name is suspended or not. It is a fault if a state doesn't allow the next event, or if the row
differs from the result of the events.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from sublet.structs import replace

TRANSITIONS: dict[str, dict[str, str]] = {
    "unborn": {"register": "live"},
    "live": {
        "update_nameservers": "live",
        "update_records": "live",
        "follow_child": "live",
        "follow_csync": "live",
        "undelegate": "live",
        "set_automatic_ds": "live",
        "nameserver_notice": "live",
        "remove_nameservers": "live",
        "retry": "live",
        "renew": "live",
        "transfer": "live",
        "receive": "live",
        "set_auto_renew": "live",
        "suspend": "live",
        "unsuspend": "live",
        "open_renewal": "live",
        "remind": "live",
        "expire": "live",
        "auto_renew_failed": "live",
        "delete": "trashed",
        "trash": "trashed",
    },
    "trashed": {
        "nameserver_notice": "trashed",
        "remove_nameservers": "trashed",
        "suspend": "trashed",
        "unsuspend": "trashed",
        "renew": "trashed",
        "remind": "trashed",
        "extend": "trashed",
        "restore": "live",
        "purge": "purged",
    },
    "purged": {"release": "released"},
    "released": {},
}
"""The state after each step, by the state before it. `extend` is the paid part of a restore."""

WHILE_SUSPENDED = {
    "operator": frozenset({"renew", "delete", "unsuspend", "restore", "purge", "release"}),
    "system": frozenset({"release", "nameserver_notice", "remove_nameservers"}),
    "user": frozenset[str](),
}
"""The steps that each kind of actor may take with a suspended name."""

EMPTY_DELEGATION: dict[str, list[object]] = {"nameservers": [], "glue": [], "ds_records": []}
_CHANGES = ("update_nameservers", "remove_nameservers", "follow_child", "follow_csync", "undelegate")
_TERM_STEPS = {"register": "register", "renew": "renew", "extend": "restore"}


class Event(Struct, frozen=True):
    """An audit event of a name.

    `action` lacks the prefix `subdomain.`; `before` and `after` are the stored values.
    """

    id: int
    at: datetime
    actor_kind: str
    action: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    user_id: int | None = None
    """The id of the actor, if the actor is a user."""

    @property
    def step(self) -> str:
        """The event's step in `TRANSITIONS`.

        The first event of a paid restore adds the term, and is `extend`.
        """
        return "extend" if self.action == "restore" and "expires_at" in self.after else self.action


class PastTerm(Struct, frozen=True):
    """A stored term of a name."""

    id: int
    action: str
    ends_at: datetime
    charged_credits: int
    created_at: datetime


class RowFields(Struct, frozen=True):
    """The fields of a name's row that its events and terms determine.

    `delegation` has the three columns of the delegation.

    `records` are the RRsets, sorted by owner and type; None if they are unknown, because the events were
    erased.
    """

    fqdn: str = ""
    registration_type: str = ""
    registered_at: datetime | None = None
    expires_at: datetime | None = None
    last_renewed_at: datetime | None = None
    suspended_at: datetime | None = None
    trashed_at: datetime | None = None
    purged_at: datetime | None = None
    released_at: datetime | None = None
    delegation: Mapping[str, Any] | None = None
    user_id: int | None = None
    records: list[Mapping[str, Any]] | None = field(default_factory=list)


class Fault(Struct, frozen=True):
    """A broken invariant in a name's life, and a sentence about it."""

    invariant: str
    message: str


def replay(events: Sequence[Event], terms: Sequence[PastTerm], row: RowFields) -> list[Fault]:
    """Return the faults of a name's row, events and terms. Events and terms are given oldest first.

    Invariants: `audited` (there are events), `edges_only` (each state allows the next event),
    `term_is_audited` (each term matches its event), `row_is_replayed` (the row equals the result of the
    events).
    """
    if not events:
        return [Fault("audited", "no audit event records the registration")]
    state, replayed, faults = "unborn", RowFields(), list[Fault]()
    unpaired = list(terms)
    for event in events:
        reason = _refusal(state, replayed, event)
        if reason is not None:
            faults.append(Fault("edges_only", f"event {event.id}: {reason}"))
        term = None
        if event.step in _TERM_STEPS:
            term = unpaired.pop(0) if unpaired else None
            faults += _term_faults(replayed, event, term)
        state = TRANSITIONS[state].get(event.step, state)
        replayed = _apply(replayed, event, term)
    faults += [
        Fault("term_is_audited", f"no event records the term {term.id} from {term.created_at:%Y-%m-%d}")
        for term in unpaired
    ]
    return faults + _differences(replayed, row)


def _refusal(state: str, replayed: RowFields, event: Event) -> str | None:
    suspended = replayed.suspended_at is not None
    if event.step not in TRANSITIONS[state]:
        return f"{event.action} is not allowed for a name that is {state}"
    if event.step == "unsuspend" and not suspended:
        return "the name was unsuspended, but was not suspended"
    if suspended and event.step not in WHILE_SUSPENDED.get(event.actor_kind, frozenset()):
        return f"{event.action} by the {event.actor_kind} is not allowed for a suspended name"
    if event.step == "transfer" and event.before.get("user_id") != replayed.user_id:
        return "the name was transferred from a user who didn't hold it"
    if event.step in _CHANGES and dict(event.before) != replayed.delegation:
        return "the delegation before the change differs from the result of the earlier events"
    return None


def _term_faults(replayed: RowFields, event: Event, term: PastTerm | None) -> list[Fault]:
    if term is None:
        return [Fault("term_is_audited", f"event {event.id}: {event.action} added no term")]
    found = []
    if (term.action, term.created_at) != (_TERM_STEPS[event.step], event.at):
        found.append(f"the term {term.id} doesn't belong to this {event.action}")
    elif event.after.get("charged_credits") != term.charged_credits:
        found.append(f"the term {term.id} has another price than this {event.action}")
    elif event.step != "register":
        if not _is_instant(event.after.get("expires_at"), term.ends_at):
            found.append(f"the term {term.id} does not end at the expiry of this {event.action}")
        if replayed.expires_at is not None and not _is_instant(
            event.before.get("expires_at"), replayed.expires_at
        ):
            found.append(f"this {event.action} did not start from the expiry before it")
        if replayed.expires_at is not None and term.ends_at <= replayed.expires_at:
            found.append(f"this {event.action} moved the expiry back")
    return [Fault("term_is_audited", f"event {event.id}: {each}") for each in found]


def _is_instant(text: object, instant: datetime) -> bool:
    return isinstance(text, str) and datetime.fromisoformat(text) == instant


def _apply(replayed: RowFields, event: Event, term: PastTerm | None) -> RowFields:
    match event.step:
        case "register":
            return RowFields(
                user_id=event.after.get("user_id", event.user_id),
                fqdn=str(event.after.get("fqdn")),
                registration_type=str(event.after.get("registration_type")),
                registered_at=event.at,
                expires_at=term.ends_at if term is not None else None,
                delegation={name: event.after.get(name) for name in EMPTY_DELEGATION},
                records=list(event.after.get("records", ())),
            )
        case "renew" | "extend":
            expires_at = term.ends_at if term is not None else replayed.expires_at
            return replace(replayed, expires_at=expires_at, last_renewed_at=event.at)
        case "transfer":
            return replace(replayed, user_id=event.after.get("user_id"))
        case step if step in _CHANGES:
            return replace(replayed, delegation=dict(event.after))
        case "update_records":
            return replace(replayed, records=_changed_records(replayed.records, event))
        case "delete" | "trash" | "restore":
            return replace(replayed, trashed_at=None if event.step == "restore" else event.at)
        case "suspend" | "unsuspend":
            return replace(replayed, suspended_at=event.at if event.step == "suspend" else None)
        case "purge":
            return replace(replayed, purged_at=event.at, delegation=EMPTY_DELEGATION, records=[])
        case "release":
            return replace(replayed, released_at=event.at)
    return replayed


def _changed_records(before: list[Mapping[str, Any]] | None, event: Event) -> list[Mapping[str, Any]] | None:
    """Return the RRsets after a change. The event has only those that changed."""
    if before is None or "records" not in event.before or "records" not in event.after:
        return None
    kept = [each for each in before if each not in event.before["records"]]
    return sorted([*kept, *event.after["records"]], key=lambda each: (each["name"], each["type"]))


def _differences(replayed: RowFields, row: RowFields) -> list[Fault]:
    return [
        Fault(
            "row_is_replayed", f"{name} is {_text(getattr(row, name))}, but by the events {_text(expected)}"
        )
        for name in RowFields.__struct_fields__
        if (expected := getattr(replayed, name)) != getattr(row, name)
        and not (name == "records" and expected is None)
    ]


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
