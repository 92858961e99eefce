"""What all resources share."""

from abc import abstractmethod
from typing import Any, ClassVar, Protocol

from tf.iface import (
    CreateContext,
    DeleteContext,
    ImportContext,
    PlanContext,
    ReadContext,
    Resource,
    UpdateContext,
)
from tf.schema import Attribute, Schema
from tf.types import TfType, Unknown
from tf.utils import Diagnostics

from sublet_client import ApiError, Client, TokenRestricted
from sublet_terraform.registrations import Registrations
from sublet_terraform.reporting import Reporting
from sublet_terraform.values import Spelled, report_faults, without_refinements

State = dict[str, Any]
"""Values of attributes by name: null is None, and what is not known before the apply is `Unknown`."""


class HasClient(Protocol):
    """What a resource needs of the provider."""

    client: Client | None
    registrations: Registrations


class SubletResource(Resource):
    """A resource whose methods may raise errors of the API: they become diagnostics.

    After an error Terraform keeps the state that is returned here: none after a failed creation, otherwise
    the former one.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    types: ClassVar[dict[str, TfType]]
    attributes: ClassVar[tuple[Attribute, ...]]

    def __init_subclass__(cls) -> None:
        cls.types = {each.name: each.type for each in cls.attributes}

    def __init__(self, provider: HasClient) -> None:
        self._provider = provider

    @property
    def client(self) -> Client:
        """The client of the provider, which Terraform has configured before."""
        assert self._provider.client is not None  # noqa: S101 - Terraform configures first
        return self._provider.client

    @property
    def registrations(self) -> Registrations:
        """The names of this run."""
        return self._provider.registrations

    @classmethod
    def get_name(cls) -> str:
        """Return the name without the provider's prefix."""
        return cls.name

    @classmethod
    def get_schema(cls) -> Schema:
        """Return the attributes."""
        return Schema(attributes=list(cls.attributes), description=cls.description, version=0)

    def validate(self, diags: Diagnostics, type_name: str, config: State) -> None:
        """Refuse values that the API can't parse, also without the service."""
        config = without_refinements(config)
        super().validate(diags, type_name, config)
        report_faults(diags, self.attributes, config)
        if not diags.has_errors():
            self.check(diags, config)

    def check(self, diags: Diagnostics, config: State) -> None:
        """Report what is wrong with a configuration whose values are well-formed."""

    @classmethod
    def _names(cls) -> set[str]:
        return {each.name for each in cls.attributes}

    @classmethod
    def canonical(cls, state: State, name: str) -> Any:
        """Return the value of an attribute in a form that is equal for all its spellings."""
        kind = cls.types[name]
        return kind.canonical(state[name]) if isinstance(kind, Spelled) else state[name]

    @classmethod
    def is_changed(cls, current: State, planned: State, *names: str) -> bool:
        """True if one of these attributes means something else."""
        return any(cls.canonical(current, each) != cls.canonical(planned, each) for each in names)

    @classmethod
    def keep_spelling(cls, current: State, new: State) -> State:
        """Return the new values, but the current ones of attributes that are only spelled differently."""
        return {
            name: value if current[name] is None or cls.is_changed(current, new, name) else current[name]
            for name, value in new.items()
        }

    def plan(self, ctx: PlanContext, current: State | None, planned: State, config: State) -> State:
        """Return the plan; `current` is None for a new object, and `config` has null for what is left out."""
        for each in self.attributes:
            if (
                config[each.name] is None
                and each.computed
                and (current is None or each.default is not Unknown)
            ):
                planned[each.name] = each.default
        if current is not None:
            planned = self.keep_spelling(current, planned)
        with Reporting(ctx.diagnostics, self._names()):
            if current is None:
                return self.plan_new(ctx, planned)
            return self.plan_change(ctx, current, planned, config)
        return planned

    def create(self, ctx: CreateContext, planned: State) -> State | None:
        """Create the object and return its state; None if that failed."""
        with Reporting(ctx.diagnostics, self._names()):
            made = self.create_new(ctx, planned)
            return None if made is None else settled(planned, made)
        return None

    def read(self, ctx: ReadContext, current: State) -> State | None:
        """Return the present state; None if the object is gone."""
        with Reporting(ctx.diagnostics, self._names()):
            found = self.find(current)
            return None if found is None else self.keep_spelling(current, found)
        return current

    def update(self, ctx: UpdateContext, current: State, planned: State) -> State:
        """Change the object and return its state; the former state if that failed."""
        with Reporting(ctx.diagnostics, self._names()):
            return settled(planned, self.change(ctx, current, planned))
        return current

    def delete(self, ctx: DeleteContext, current: State) -> State | None:
        """Remove the object; return its state if that failed."""
        with Reporting(ctx.diagnostics, self._names()):
            self.remove(current)
            return None
        return current

    def import_(self, ctx: ImportContext, id: str) -> State | None:  # noqa: A002 - the name is the interface's
        """Return the state of an object that exists."""
        try:
            identity = self.identify(id)
        except ValueError as error:
            ctx.diagnostics.add_error(f"A sublet_{self.name} can't be imported by `{id}`: {error}")
            return None
        with Reporting(ctx.diagnostics, self._names()):
            found = self.find({**dict.fromkeys(self._names()), **identity})
            if found is None:
                ctx.diagnostics.add_error(f"There is no sublet_{self.name} {id}. Check it, and the token.")
            return found
        return None

    def refuse_hidden(self, fqdn: str) -> None:
        """Raise `TokenRestricted` if a name was not found only because the token isn't for it."""
        try:
            self.client.subdomains.availability(fqdn)
        except TokenRestricted:
            raise
        except ApiError:
            return

    def plan_new(self, ctx: PlanContext, planned: State) -> State:  # noqa: ARG002 - for those that override it
        """Return the plan of a new object."""
        return planned

    def plan_change(self, ctx: PlanContext, current: State, planned: State, config: State) -> State:  # noqa: ARG002
        """Return the plan of a change.

        Values that are only spelled differently are the current ones already.
        """
        return planned

    @abstractmethod
    def create_new(self, ctx: CreateContext, planned: State) -> State | None:
        """Create the object and return its state; None if the diagnostics say why that failed.

        Once the object exists, no error may be raised or reported: Terraform would taint the object, and
        destroy it in the next run.
        """

    @abstractmethod
    def find(self, current: State) -> State | None:
        """Return the present state of an object; None if it is gone."""

    @abstractmethod
    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:
        """Change the object and return its state."""

    @abstractmethod
    def remove(self, current: State) -> None:
        """Remove the object; it may be gone already."""

    @abstractmethod
    def identify(self, text: str) -> State:
        """Return the attributes that identify the object of an import.

        Raises:
            ValueError: the text can't identify an object.
        """


def settled(planned: State, found: State) -> State:
    """Return the state after a change: the plan, and what it left open as it was found.

    Terraform refuses any other value, and taints a new object then. If the service has another value, the
    next plan shows it.
    """
    return {name: found[name] if value is Unknown else value for name, value in planned.items()}


def known(planned: State, name: str, default: Any = None) -> Any:
    """Return the value of an attribute; the default if it is null or not known yet."""
    value = planned[name]
    return default if value is None or value is Unknown else value
