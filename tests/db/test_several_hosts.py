"""An address with several hosts: one refuses connections, one is silent, one has a name.

Every kind of connection finds the writable one.
"""

import asyncio
import socket
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import literal, select

from sublet.db import Query, find_replication
from sublet.db.connect import libpq_address
from sublet.db.postgresql import PostgresqlDatabase
from sublet.migrations import upgrade
from support.free_ports import free_port
from support.postgresql import fresh_database
from support.postgresql_table import add, ids, tell
from support.waiting import wait_until

PASSWORD = "a p/ss:w@rd%,"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """The port of a host that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_the_password_is_kept_in_an_address_with_several_hosts() -> None:
    address = libpq_address(f"postgresql://ada:{quote(PASSWORD, safe='')}@db1:5432,db2:5433/registry")
    given = conninfo_to_dict(address)
    assert (given["password"], given["host"], given["port"]) == (PASSWORD, "db1,db2", "5432,5433")
    assert given["target_session_attrs"] == "read-write"


def test_every_connection_finds_the_writable_host(postgresql_server: str, silent_port: int) -> None:
    with fresh_database(postgresql_server) as url:
        given = conninfo_to_dict(url)
        hosts = f"127.0.0.1:{free_port()},127.0.0.1:{silent_port},localhost:{given['port']}"
        address = f"postgresql://{given['user']}@{hosts}/{given['dbname']}?connect_timeout=5"
        upgrade(url)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE things (id int GENERATED ALWAYS AS IDENTITY, name text UNIQUE)")

        async def story(database: PostgresqlDatabase) -> None:
            query = Query(select(literal(7)), lambda rows: rows[0][0])
            listening = asyncio.create_task(database.changed(60))  # all connect at once
            written, fetched, found = await asyncio.gather(
                database.write(add), database.fetch(query), database.read(find_replication)
            )
            assert (written, fetched) == (1, 7)
            assert found is not None
            assert found.primary == f"localhost:{given['port']}"
            await listening  # its result depends on which connection opens first
            await asyncio.to_thread(wait_until, lambda: database._announcements.is_listening)

        tell(address, story)
        assert ids(url) == [1]
