"""A few connections for many runs in one event loop.

Django's connections belong to threads and speak synchronously; the engine's hot statements are awaited. Connections
are opened inside the loop that uses them and closed with it, so that none survives a fork of the queue's workers.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row

Row = DictRow
Cursor = psycopg.AsyncCursor[DictRow]

CONNECTIONS = 4
APPLICATION = "vigil-engine"
"""How the engine's connections are told from the web's in the server's own list."""
STATEMENT_OPTIONS = "-c plan_cache_mode=force_custom_plan -c lock_timeout=10s -c timezone=UTC"
"""Plans made on an empty ledger would keep a sequential scan; a settle behind a lock must not wait for ever."""


def parameters(settings: dict[str, Any]) -> dict[str, Any]:
    """psycopg's keywords from one of Django's ``DATABASES``."""
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    found = {key: settings[name] for key, name in named.items() if settings.get(name)}
    extra = dict(settings.get("OPTIONS", {}))
    options = f"{extra.pop('options', '')} {STATEMENT_OPTIONS}".strip()
    return {"application_name": APPLICATION, **found, **extra, "options": options}


def text_array(values: Iterable[str | None]) -> str:
    """``values`` as the text of a PostgreSQL array, to be cast to the array's type.

    The driver does the same for every list, value by value in Python: it was a fifth of the engine's own time.
    """
    return "{" + ",".join(map(_quoted, values)) + "}"


def json_array(values: Iterable[Any]) -> str:
    """The same of values that are to be jsonb; None is no value."""
    return text_array(None if value is None else json.dumps(value) for value in values)


def _quoted(value: str | None) -> str:
    if value is None:
        return "NULL"
    if value.isalnum():
        return f'"{value}"'
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Database:
    """Hands out connections in autocommit. A broken one is dropped and opened anew at the next use."""

    def __init__(self, keywords: dict[str, Any], size: int = CONNECTIONS) -> None:
        self.keywords = keywords
        self._free: asyncio.LifoQueue[psycopg.AsyncConnection[DictRow] | None] = asyncio.LifoQueue()
        for _ in range(size):
            self._free.put_nowait(None)
        self._size = size
        self._opened: dict[int, int] = {}
        self._generation = 0

    async def _open(self) -> psycopg.AsyncConnection[DictRow]:
        return await psycopg.AsyncConnection.connect(
            **self.keywords, autocommit=True, row_factory=dict_row, connect_timeout=10
        )

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[DictRow]]:
        connection = await self._free.get()
        try:
            connection = await self._usable(connection)
            yield connection
        finally:
            if connection is not None and connection.broken:
                # What broke one connection, a restart of the server, has broken the idle ones with it.
                self._generation += 1
                await self._shut(connection)
                connection = None
            self._free.put_nowait(connection)

    async def _usable(self, connection: psycopg.AsyncConnection[DictRow] | None) -> psycopg.AsyncConnection[DictRow]:
        if connection is not None and not connection.closed and self._opened[id(connection)] == self._generation:
            return connection
        if connection is not None:
            await self._shut(connection)
        opened = await self._open()
        self._opened[id(opened)] = self._generation
        return opened

    async def _shut(self, connection: psycopg.AsyncConnection[DictRow]) -> None:
        self._opened.pop(id(connection), None)
        with suppress(psycopg.Error):
            await connection.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Cursor]:
        """One transaction: committed at the end of the block, rolled back when it raises."""
        async with self._connection() as connection, connection.transaction(), connection.cursor() as cursor:
            yield cursor

    async def rows(self, statement: str, values: dict[str, Any] | Sequence[Any] = ()) -> list[Row]:
        """All rows of one statement, committed at once."""
        async with self._connection() as connection, connection.cursor() as cursor:
            await cursor.execute(statement.encode(), values)
            return await cursor.fetchall() if cursor.description else []

    async def row(self, statement: str, values: dict[str, Any] | Sequence[Any] = ()) -> Row | None:
        """The first row, or None."""
        found = await self.rows(statement, values)
        return found[0] if found else None

    async def close(self) -> None:
        """Close every free connection; called when no run uses one any more."""
        for _ in range(self._size):
            connection = await self._free.get()
            if connection is not None:
                await self._shut(connection)
