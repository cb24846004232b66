"""What a run knows of itself while it works: loaded once per slice, handed from room to room."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from connectors.protocol import Stream
from syncs.domain.consent import Policy
from syncs.domain.lifecycle import Lane
from syncs.domain.mapping import Mapper
from syncs.domain.rule import Rule
from syncs.engine.lease import Lease
from syncs.engine.outside import Connected, Outside


@dataclass(frozen=True, slots=True)
class Facts:
    """One open run with its sync, version and connections, as the database has them."""

    run_id: int
    lane: Lane
    failures: int
    attempt_id: int
    sync_id: int
    sync_name: str
    workspace_id: int
    changed_at: datetime | None
    first_published_at: datetime | None
    version_id: int
    version_number: int
    digest: str
    document: str
    publisher: str
    version_facts: dict[str, Any]
    source: dict[str, Any]
    destination: dict[str, Any]
    set_aside: int
    expected: int | None
    version_asked: str | None
    force: bool
    created_at: datetime
    now: datetime


@dataclass(slots=True)
class Running:
    """A slice at work. ``ending`` is set when it should yield at the next page; ``phase`` is shown to people."""

    outside: Outside
    facts: Facts
    lease: Lease
    connected: Connected
    rule: Rule
    mapper: Mapper
    policy: Policy
    target: str
    ending: asyncio.Event
    pages: int = 0
    set_aside: int = 0
    expected: int | None = None
    lists: tuple[int, ...] = ()
    possible_duplicates: int = 0
    yielding: bool = False
    looked_at: float = 0.0
    version_served: str | None = None
    scopes_missing: tuple[str, ...] = ()
    proof: dict[str, Any] = field(default_factory=dict)

    @property
    def stream(self) -> Stream:
        return self.rule.stream

    @property
    def source_account(self) -> str:
        account: str = self.facts.version_facts["source"]["account"]
        return account
