"""What the sandbox Brevo remembers, in one SQLite file: contacts, lists, attributes, events, orders, violations.

One commit per answered write, and no waiting for the disk: what was answered survives a kill of the process, though not
a power cut. Times are ISO 8601 in UTC with milliseconds and a Z, so that text order is time order.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PRIVATE_FILE = 0o600
BESIDE = ("-wal", "-shm", "-journal")
DEFAULT_FOLDER = 1
DEFAULT_LISTS = ((7, "Shop customers"), (8, "Newsletter"))
DEFAULT_ATTRIBUTES = (
    ("FIRSTNAME", "text"), ("LASTNAME", "text"), ("SMS", "text"), ("EXT_ID", "text"), ("LANGUAGE", "text"),
    ("COUNTRY", "text"), ("ORDER_COUNT", "float"), ("TOTAL_SPENT", "float"), ("CREATED_AT", "date"),
)  # fmt: skip

_TABLES = """
CREATE TABLE IF NOT EXISTS contacts (
  id INTEGER PRIMARY KEY AUTOINCREMENT, email TEXT UNIQUE, ext_id TEXT UNIQUE, sms TEXT UNIQUE,
  attributes TEXT NOT NULL DEFAULT '{}', email_blocked INTEGER NOT NULL DEFAULT 0,
  sms_blocked INTEGER NOT NULL DEFAULT 0, unsubscriptions TEXT NOT NULL DEFAULT '[]',
  created_at TEXT NOT NULL, modified_at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS lists (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, folder INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS members (
  contact INTEGER NOT NULL, list INTEGER NOT NULL, has_left INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (contact, list)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS members_of_list ON members (list, has_left);
CREATE TABLE IF NOT EXISTS attributes (
  place INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, contact INTEGER NOT NULL, name TEXT NOT NULL, date TEXT NOT NULL,
  body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_of_contact ON events (contact, name);
CREATE TABLE IF NOT EXISTS orders (
  place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, contact INTEGER, body TEXT NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL, triggers INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY AUTOINCREMENT, historical INTEGER NOT NULL, orders TEXT);
CREATE TABLE IF NOT EXISTS violations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, place TEXT NOT NULL, contact INTEGER, at TEXT NOT NULL);
"""
_NAMES = ("contacts", "lists", "members", "attributes", "events", "orders", "batches", "violations")
_SURPLUS_EVENTS = """
SELECT coalesce(sum(copies - 1), 0) FROM (
  SELECT count(*) AS copies, name,
         json_extract(body, '$.event_properties.order_id') AS of_order,
         json_extract(body, '$.event_properties.id') AS own
  FROM events WHERE of_order IS NOT NULL OR own IS NOT NULL GROUP BY name, of_order, own)
"""


class StateUnusable(Exception):
    """A state file that cannot be used; its text is one sentence that says what to do."""


@dataclass(slots=True)
class Contact:
    id: int
    email: str | None
    ext_id: str | None
    sms: str | None
    attributes: Json
    email_blocked: bool
    sms_blocked: bool
    unsubscriptions: list[Json]
    created_at: str
    modified_at: str


def iso(when: datetime) -> str:
    """2026-11-30T10:00:00.000Z"""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def instant(text: object) -> str | None:
    """An ISO 8601 time in the form kept here; None when it is none. Without an offset it is UTC."""
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) else None
        return None if when is None else iso(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


class State:
    """The tables, and what several endpoints do to them. Methods that write belong inside `change()`."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        try:
            self._database = _open(path)
        except (OSError, sqlite3.Error):
            raise StateUnusable(
                f"{path} cannot be used as the state: name a file that is new or a sandbox's own."
            ) from None
        self.run = self._database.execute
        self._attributes: dict[str, Json] | None = None
        if not self.run("SELECT 1 FROM lists").fetchone():
            with self.change():
                self._fill()

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction: committed at the end, undone by any exception."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK")
            self._attributes = None
            raise
        self.run("COMMIT")

    def now(self) -> str:
        return iso(datetime.fromtimestamp(self.clock(), UTC))

    def number(self, query: str, *values: object) -> int:
        """The one number a query gives."""
        return int(self.run(query, values).fetchone()[0])

    def reset(self) -> None:
        """Back to an empty account with its two lists and its attributes."""
        with self.change():
            for name in _NAMES:
                self.run(f"DELETE FROM {name}")  # noqa: S608 (our own table names)
            self.run("DELETE FROM sqlite_sequence")
            self._fill()

    def _fill(self) -> None:
        for number, name in DEFAULT_LISTS:
            self.run("INSERT INTO lists VALUES (?, ?, ?)", (number, name, DEFAULT_FOLDER))
        for name, kind in DEFAULT_ATTRIBUTES:
            self.add_attribute(name, "normal", {"type": kind})

    # -- attributes ----------------------------------------------------------------------------------------------------

    def attributes(self) -> dict[str, Json]:
        """Name -> {category, type, ...} in the order they were made."""
        if self._attributes is None:
            rows = self.run("SELECT name, category, body FROM attributes ORDER BY place")
            self._attributes = {name: {"category": category, **json.loads(body)} for name, category, body in rows}
        return self._attributes

    def add_attribute(self, name: str, category: str, body: Json) -> None:
        self.run("INSERT INTO attributes (name, category, body) VALUES (?, ?, ?)", (name, category, json.dumps(body)))
        self._attributes = None

    # -- contacts ------------------------------------------------------------------------------------------------------

    def contact(self, column: str, value: object) -> Contact | None:
        """The contact by id, email, ext_id or sms."""
        row = self.run(f"SELECT * FROM contacts WHERE {column} = ?", (value,)).fetchone()  # noqa: S608 (our own columns)
        return None if row is None else contact_of_row(row)

    def add_contact(self, email: str | None, ext_id: str | None = None, sms: str | None = None) -> Contact:
        now = self.now()
        if email is None and sms is not None:
            # Documented: who has only a number gets an address that is none.
            email = f"{sms}@mailin-sms.com"
        made = self.run(
            "INSERT INTO contacts (email, ext_id, sms, created_at, modified_at) VALUES (?, ?, ?, ?, ?)",
            (email, ext_id, sms, now, now),
        )
        return Contact(int(made.lastrowid or 0), email, ext_id, sms, {}, False, False, [], now, now)

    def save_contact(self, contact: Contact) -> None:
        contact.modified_at = self.now()
        self.run(
            "UPDATE contacts SET email = ?, ext_id = ?, sms = ?, attributes = ?, email_blocked = ?, sms_blocked = ?,"
            " unsubscriptions = ?, modified_at = ? WHERE id = ?",
            (
                contact.email,
                contact.ext_id,
                contact.sms,
                json.dumps(contact.attributes),
                contact.email_blocked,
                contact.sms_blocked,
                json.dumps(contact.unsubscriptions),
                contact.modified_at,
                contact.id,
            ),
        )

    def remove_contact(self, contact: Contact) -> None:
        self.run("DELETE FROM members WHERE contact = ?", (contact.id,))
        self.run("DELETE FROM contacts WHERE id = ?", (contact.id,))

    # -- lists ---------------------------------------------------------------------------------------------------------

    def has_list(self, number: object) -> bool:
        return self.run("SELECT 1 FROM lists WHERE id = ?", (number,)).fetchone() is not None

    def join(self, contact: int, number: int, where: str) -> bool:
        """Puts a contact on a list; False when it is on it. Who left it is taken back, which is a violation."""
        row = self.run("SELECT has_left FROM members WHERE contact = ? AND list = ?", (contact, number)).fetchone()
        if row is not None and not row[0]:
            return False
        if row is not None:
            self.violation("re-added to a list the person left", where, contact)
        self.run("INSERT OR REPLACE INTO members VALUES (?, ?, 0)", (contact, number))
        return True

    def unlink(self, contact: int, number: int) -> bool:
        """Takes a contact off a list; False when it was not on it."""
        gone = self.run("DELETE FROM members WHERE contact = ? AND list = ? AND has_left = 0", (contact, number))
        return gone.rowcount > 0

    def leave(self, contact: int, number: int) -> None:
        """The person leaves one list."""
        self.run("INSERT OR REPLACE INTO members VALUES (?, ?, 1)", (contact, number))

    def memberships(self, contacts: Iterable[int]) -> dict[int, tuple[list[int], list[int]]]:
        """Contact -> (lists it is on, lists the person left)."""
        found: dict[int, tuple[list[int], list[int]]] = {contact: ([], []) for contact in contacts}
        marks = ",".join("?" * len(found))
        rows = self.run(
            f"SELECT contact, list, has_left FROM members WHERE contact IN ({marks}) ORDER BY list",  # noqa: S608
            tuple(found),
        )
        for contact, number, has_left in rows:
            found[contact][has_left].append(number)
        return found

    # -- what must never happen, and what did --------------------------------------------------------------------------

    def violation(self, kind: str, where: str, contact: int | None = None) -> None:
        """Remembers something no writer of ours may do (PRODUCT 3.7). No address is kept, only the contact's number."""
        self.run(
            "INSERT INTO violations (kind, place, contact, at) VALUES (?, ?, ?, ?)", (kind, where, contact, self.now())
        )

    def summary(self) -> Json:
        """Counts of everything, for a glance."""
        members = self.run(
            "SELECT lists.id, count(contact) FROM lists"
            " LEFT JOIN members ON list = lists.id AND has_left = 0 GROUP BY lists.id"
        )
        return {
            "contacts": self.number("SELECT count(*) FROM contacts"),
            "list_members": {str(number): count for number, count in members},
            "orders": self.number("SELECT count(*) FROM orders"),
            "events": self.number("SELECT count(*) FROM events"),
            "duplicate_events": self.number(_SURPLUS_EVENTS),
            "violations": self.number("SELECT count(*) FROM violations"),
        }

    def violations(self) -> list[Json]:
        rows = self.run("SELECT kind, place, contact, at FROM violations ORDER BY id")
        return [{"kind": kind, "where": where, "contact_id": contact, "at": at} for kind, where, contact, at in rows]

    def contacts(self) -> list[Contact]:
        return [contact_of_row(row) for row in self.run("SELECT * FROM contacts ORDER BY id")]


def _open(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        _make_private(path)
    database = sqlite3.connect(path or ":memory:", isolation_level=None, cached_statements=256)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(_TABLES)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _make_private(path: Path) -> None:
    """For its owner only, with what SQLite keeps beside it, which takes its mode from the file itself."""
    path.touch(mode=PRIVATE_FILE)
    for file in (path, *(path.with_name(f"{path.name}{end}") for end in BESIDE)):
        if file.is_file():
            file.chmod(PRIVATE_FILE)


def contact_of_row(row: tuple[Any, ...]) -> Contact:
    """A contact from a whole row of the table."""
    number, email, ext_id, sms, attributes, email_blocked, sms_blocked, unsubscriptions, created_at, modified_at = row
    return Contact(
        number,
        email,
        ext_id,
        sms,
        json.loads(attributes),
        bool(email_blocked),
        bool(sms_blocked),
        json.loads(unsubscriptions),
        created_at,
        modified_at,
    )
