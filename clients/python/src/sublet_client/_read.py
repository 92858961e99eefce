"""From the answer to a call to its result; pages and entity tags."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import msgspec

from sublet_client._core import Call, Reply
from sublet_client._secret import decode
from sublet_client._transport import AsyncTransport, SyncTransport
from sublet_client.exceptions import UnexpectedAnswer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the cursor of the next page; None on the last one."""

    items: tuple[T, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Tagged(Generic[T]):
    """A result with its entity tag: a change with `if_match=etag` is refused if the
    object has changed since.
    """

    value: T
    etag: str


class PageInfo(msgspec.Struct, frozen=True):
    """Where a list goes on."""

    next_cursor: str | None


def whole(kind: type[T]) -> Callable[[Reply], T]:
    """Return the reader of an answer whose members are the result."""
    decoder = msgspec.json.Decoder(kind, dec_hook=decode)
    return lambda reply: decoder.decode(reply.content)


def member(kind: type[T], name: str) -> Callable[[Reply], T]:
    """Return the reader of an answer with one member, which is the result."""
    read = whole(msgspec.defstruct("Answer", [(name, kind)]))
    return lambda reply: getattr(read(reply), name)


def member_or_null(kind: type[T], name: str) -> Callable[[Reply], T | None]:
    """Return the reader of an answer with one member, which is the result, or null."""
    return member(kind | None, name)  # type: ignore[arg-type] # a union isn't a `type`


def page(kind: type[T], name: str) -> Callable[[Reply], Page[T]]:
    """Return the reader of a page, whose items are the member `name`."""
    items = tuple[kind, ...]  # type: ignore[valid-type] # the kind is known at run time
    read = whole(msgspec.defstruct("Answer", [(name, items), ("page", PageInfo)]))

    def read_page(reply: Reply) -> Page[T]:
        answer: Any = read(reply)
        return Page(getattr(answer, name), answer.page.next_cursor)

    return read_page


def tagged(call: Call[T]) -> Call[Tagged[T]]:
    """Return a call whose result has the entity tag of the answer."""

    def read(reply: Reply) -> Tagged[T]:
        etag = reply.headers.get("etag")
        if etag is None:
            raise UnexpectedAnswer(
                "The answer has no ETag, without which a change could overwrite another one. Perhaps a proxy "
                "removes it."
            )
        return Tagged(call.read(reply), etag)

    return replace(call, read=read)  # type: ignore[return-value,arg-type] # another T


def pages(transport: SyncTransport, ask: Callable[[str | None], Call[Page[T]]]) -> Iterator[T]:
    """Yield the items of a list; each page is asked for when it is needed."""
    cursor = None
    while True:
        found = transport.run(ask(cursor))
        yield from found.items
        cursor = found.next_cursor
        if cursor is None:
            return


async def async_pages(
    transport: AsyncTransport, ask: Callable[[str | None], Call[Page[T]]]
) -> AsyncIterator[T]:
    """Yield the items of a list; each page is asked for when it is needed."""
    cursor = None
    while True:
        found = await transport.run(ask(cursor))
        for item in found.items:
            yield item
        cursor = found.next_cursor
        if cursor is None:
            return
