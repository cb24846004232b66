"""Delivery keys that survive the crash: claim before the call, settle after it (PRODUCT 2.1 to 2.7).

Four statements carry it. `remember` asks what is known of a page's objects. `claim` takes the whole page at once, under
the lease. `step` does three things in one commit: it settles what has landed, proves that the run may still call, and
marks what goes out as *sending*. `note_refused` keeps the evidence of refusals when the cursor moves.

Settling is guarded by the claim alone (its fence and state), so that what landed is recorded as landed even by an owner
that has since lost the lease (PRODUCT 3.3). After a crash only what was *sending* is in doubt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from connectors.protocol import EffectKind
from syncs.domain.lifecycle import DeliveryState
from syncs.engine.database import Cursor, Database, Row, json_array, text_array
from syncs.engine.lease import HELD, HELD_L, Lease, lost

FAILED_MEMORY = timedelta(hours=24)
"""How long a rejected content is not sent again by itself (PRODUCT 4.4)."""

_OPEN = "state IN ('claimed', 'in_doubt', 'sending')"


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of one object before it is claimed.

    ``seq`` 0 means never delivered. ``open_digest`` is set while an earlier claim is open: then what the destination
    holds is not known. ``rejected_digest`` is the content last rejected or set aside, while that is remembered.
    """

    object: str
    seq: int
    payload_digest: str
    delivery_key: str
    read_no: int
    address_key: str
    destination_id: str
    granted_at: datetime | None
    withdrawn_at: datetime | None
    settled_at: datetime | None
    open_digest: str | None
    open_state: str | None
    open_address_key: str | None
    rejected_digest: str | None
    rejected_state: str | None
    rejected_code: str | None
    rejected_sentence: str | None

    @property
    def may_have_landed(self) -> bool:
        """Whether an open claim's call may have reached the destination."""
        return self.open_state in (DeliveryState.SENDING, DeliveryState.IN_DOUBT)

    @property
    def may_be_granted(self) -> bool:
        """Whether this person is on the list through us, for all we know."""
        return self.granted_at is not None or self.may_have_landed

    @property
    def known_address_key(self) -> str:
        """The keyed hash of the address we wrote to, or may have."""
        return self.address_key or (self.open_address_key or "" if self.may_have_landed else "")


REMEMBER = f"""
SELECT p.object, coalesce(t.seq, 0) AS seq, coalesce(t.payload_digest, '') AS payload_digest,
       coalesce(t.delivery_key, '') AS delivery_key, coalesce(t.read_no, 0) AS read_no,
       coalesce(t.address_key, '') AS address_key,
       coalesce(nullif(t.destination_id, ''), o.destination_id, '') AS destination_id,
       t.granted_at, t.withdrawn_at, t.settled_at, o.payload_digest AS open_digest,
       o.state AS open_state, o.address_key AS open_address_key,
       r.payload_digest AS rejected_digest, r.state AS rejected_state, r.code AS rejected_code,
       r.sentence AS rejected_sentence
FROM unnest(%(objects)s::text[]) AS p (object)
LEFT JOIN syncs_tombstone t ON t.sync_id = %(sync)s AND t.object = p.object
LEFT JOIN syncs_delivery o ON o.sync_id = %(sync)s AND o.object = p.object AND o.{_OPEN}
LEFT JOIN LATERAL (
    SELECT * FROM (
        SELECT d.payload_digest, d.state, d.code, d.sentence, d.settled_at
        FROM syncs_delivery d WHERE d.sync_id = %(sync)s AND d.object = p.object ORDER BY d.id DESC LIMIT 1
    ) last
    WHERE last.state = 'set_aside' AND last.code <> 'retry_asked' OR last.state = 'failed'
      AND last.settled_at > greatest(vigil_now() - %(memory)s, coalesce(%(changed_at)s, '-infinity'::timestamptz))
) r ON true
"""


async def remember(
    database: Database, *, sync_id: int, objects: Sequence[str], changed_at: datetime | None
) -> dict[str, Memory]:
    """What is known of ``objects``, by object. One query for a page."""
    values = {"sync": sync_id, "objects": text_array(objects), "memory": FAILED_MEMORY, "changed_at": changed_at}
    return {row["object"]: Memory(**row) for row in await database.rows(REMEMBER, values)}


async def suppressed(database: Database, *, workspace_id: int, address_keys: Sequence[str]) -> frozenset[str]:
    """The keys among ``address_keys`` of people who must never be created again (PRODUCT 3.7)."""
    rows = await database.rows(
        "SELECT address_key FROM syncs_suppression WHERE workspace_id = %s AND address_key = ANY(%s)",
        [workspace_id, list(address_keys)],
    )
    return frozenset(row["address_key"] for row in rows)


OBJECTIONS = """
SELECT DISTINCT ON (address_key) address_key, code FROM syncs_objection
WHERE sync_id = %(sync)s AND address_key = ANY(%(keys)s) AND NOT record = ANY(%(records)s)
ORDER BY address_key, record
"""
HOLDERS = f"""
SELECT address_key, array_agg(DISTINCT object ORDER BY object) AS objects FROM (
    SELECT address_key, object FROM syncs_tombstone
    WHERE sync_id = %(sync)s AND address_key = ANY(%(keys)s) AND granted_at IS NOT NULL
      AND NOT coalesce(withdrawn_at > granted_at, false)
    UNION ALL
    SELECT address_key, object FROM syncs_delivery
    WHERE sync_id = %(sync)s AND {_OPEN} AND address_key = ANY(%(keys)s) AND kind = 'contact'
) holding
WHERE NOT object = ANY(%(own)s) GROUP BY address_key
"""


async def others_of_addresses(
    database: Database, *, sync_id: int, address_keys: Sequence[str], telling: Sequence[str], page: Sequence[str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """By address key: the code of another record's "no", and the contacts that are on the list under that address,
    or may be. ``telling`` records are judged by what they say now; those of the ``page`` leave by themselves."""
    values = {
        "sync": sync_id,
        "keys": list(address_keys),
        "records": list(telling),
        "own": [f"{EffectKind.CONTACT}:{record}" for record in page],
    }
    objections = await database.rows(OBJECTIONS, values)
    holders = await database.rows(HOLDERS, values)
    return (
        {row["address_key"]: row["code"] for row in objections},
        {row["address_key"]: tuple(row["objects"]) for row in holders},
    )


OBJECTIONS_OF_SHOP = """
SELECT o.address_key, o.record, o.code FROM syncs_objection o JOIN syncs_sync other ON other.id = o.sync_id
JOIN syncs_sync mine ON mine.source_id = other.source_id AND mine.destination_id = other.destination_id
WHERE mine.id = %(sync)s AND o.address_key = ANY(%(keys)s) ORDER BY o.record
"""


async def objections_of_shop(database: Database, *, sync_id: int, address_keys: Sequence[str]) -> list[Row]:
    """Who says "no" for these addresses to any sync between the same two accounts: address_key, record, code."""
    return await database.rows(OBJECTIONS_OF_SHOP, {"sync": sync_id, "keys": list(address_keys)})


SIBLING_TARGETS = """
SELECT other.target FROM syncs_sync other
JOIN syncs_sync mine ON mine.source_id = other.source_id AND mine.destination_id = other.destination_id
WHERE mine.id = %s AND other.first_published_at IS NOT NULL
"""


async def lists_of_shop(database: Database, *, sync_id: int) -> tuple[int, ...]:
    """The destination's lists that syncs between the same two accounts put people on."""
    targets = [row["target"] for row in await database.rows(SIBLING_TARGETS, [sync_id])]
    return tuple(sorted({int(target.rpartition(":list:")[2]) for target in targets if ":list:" in target}))


@dataclass(frozen=True, slots=True)
class Objection:
    """A customer record that says "no" for an address, by its keyed hash; ``code`` is the reason it is refused for."""

    record: str
    address_key: str
    code: str


OBJECT = """
INSERT INTO syncs_objection (sync_id, record, address_key, code, seen_at)
SELECT %(sync)s, o.record, o.address_key, o.code, vigil_now()
FROM unnest(%(record)s::text[], %(address_key)s::text[], %(code)s::text[]) AS o (record, address_key, code)
ON CONFLICT (sync_id, record) DO UPDATE SET address_key = EXCLUDED.address_key, code = EXCLUDED.code
WHERE (syncs_objection.address_key, syncs_objection.code) <> (EXCLUDED.address_key, EXCLUDED.code)
"""
WILLING = "DELETE FROM syncs_objection WHERE sync_id = %s AND record = ANY(%s)"


async def note_objections(database: Database, *, sync_id: int, objections: Sequence[Objection]) -> None:
    """Remember who says "no", before anything of their page goes out: a page that is never decided has said it too."""
    if objections:
        names = ("record", "address_key", "code")
        columns = {name: [getattr(one, name) for one in objections] for name in names}
        await database.rows(OBJECT, {"sync": sync_id, **columns})


async def drop_objections(cursor: Cursor, *, sync_id: int, willing: Sequence[str]) -> None:
    """Forget the "no" of records that say "yes" now, in the transaction that decides their page."""
    if willing:
        await cursor.execute(WILLING, [sync_id, list(willing)])


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed for one effect. Keys and digests are hexadecimal text."""

    object: str
    kind: EffectKind
    append: bool
    effect_key: str
    delivery_key: str
    payload_digest: str
    seq: int
    record: str = ""
    address_key: str = ""
    destination_id: str = ""
    event_name: str = ""
    event_at: datetime | None = None
    evidence: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim that is ours now. ``taken`` says that it was open before: an earlier owner's, or an earlier attempt's.

    ``effect_key`` is the one to send under: an append in doubt keeps the key it may already have landed with.
    ``call_ends_at`` and ``seconds_left`` bound the earlier call, which may still be out.
    """

    id: int
    object: str
    effect_key: str
    state: DeliveryState
    taken: bool
    sending_at: datetime | None
    event_at: datetime | None
    seconds_left: float


CLAIM = f"""
WITH held AS MATERIALIZED (SELECT 1 FROM syncs_lease WHERE {HELD} FOR SHARE),
page AS MATERIALIZED (
    SELECT * FROM unnest(%(object)s::text[], %(kind)s::text[], %(append)s::bool[], %(effect_key)s::text[],
        %(delivery_key)s::text[], %(payload_digest)s::text[], %(seq)s::bigint[], %(address_key)s::text[],
        %(destination_id)s::text[], %(event_name)s::text[], %(event_at)s::timestamptz[], %(record)s::text[],
        %(evidence)s::jsonb[])
    AS p (object, kind, append, effect_key, delivery_key, payload_digest, seq, address_key, destination_id, event_name,
        event_at, record, evidence)
)
INSERT INTO syncs_delivery AS d (sync_id, run_id, lane, object, kind, append, effect_key, delivery_key, payload_digest,
    seq, read_no, fence, state, calls, code, sentence, evidence, address_key, destination_id, subject, record,
    event_name, event_at, granted, claimed_at)
SELECT %(sync)s, %(run)s, %(lane)s, p.object, p.kind, p.append, p.effect_key, p.delivery_key, p.payload_digest, p.seq,
    %(read_no)s, %(fence)s, 'claimed', 0, '', '', p.evidence, p.address_key, p.destination_id, '', p.record,
    p.event_name, p.event_at, false, vigil_now()
FROM page p CROSS JOIN held ORDER BY p.object
ON CONFLICT (sync_id, object) WHERE {_OPEN} DO UPDATE SET
    state = CASE d.state WHEN 'claimed' THEN 'claimed' ELSE 'in_doubt' END,
    effect_key = CASE WHEN d.append AND d.state <> 'claimed' THEN d.effect_key ELSE EXCLUDED.effect_key END,
    payload_digest = CASE WHEN d.append AND d.state <> 'claimed' THEN d.payload_digest ELSE EXCLUDED.payload_digest END,
    event_at = CASE WHEN d.append AND d.state <> 'claimed' THEN d.event_at ELSE EXCLUDED.event_at END,
    kind = EXCLUDED.kind, delivery_key = EXCLUDED.delivery_key, seq = EXCLUDED.seq, read_no = EXCLUDED.read_no,
    fence = EXCLUDED.fence, run_id = EXCLUDED.run_id, lane = EXCLUDED.lane, evidence = EXCLUDED.evidence,
    address_key = EXCLUDED.address_key, event_name = EXCLUDED.event_name,
    record = EXCLUDED.record
    WHERE d.fence <= EXCLUDED.fence AND d.read_no <= EXCLUDED.read_no
RETURNING d.id, d.object, d.effect_key, d.state, xmax <> 0 AS taken, d.sending_at, d.event_at,
    greatest(0, coalesce(extract(epoch FROM d.call_ends_at - vigil_now()), 0))::float AS seconds_left
"""


async def claim(
    database: Database, lease: Lease, claims: Sequence[Claim], *, run_id: int, lane: str, read_no: int
) -> dict[str, Claimed]:
    """Claim a page's effects under the lease, by object. Raises LeaseLost when it is not held any more.

    Objects must be distinct. An open claim of an earlier owner is taken over: what it had only claimed was never sent,
    what it had marked as sending is in doubt.
    """
    if not claims:
        return {}
    names = ("object", "kind", "effect_key", "delivery_key", "payload_digest", "address_key", "destination_id",
             "event_name", "record")  # fmt: skip
    columns: dict[str, Any] = {name: text_array([getattr(one, name) for one in claims]) for name in names}
    columns["append"] = [one.append for one in claims]
    columns["seq"] = [one.seq for one in claims]
    columns["event_at"] = [one.event_at for one in claims]
    columns["evidence"] = json_array(one.evidence for one in claims)
    rows = await database.rows(CLAIM, {**lease.held, **columns, "run": run_id, "lane": lane, "read_no": read_no})
    if len(rows) != len(claims):
        raise lost(lease)
    return {row["object"]: Claimed(**{**row, "state": DeliveryState(row["state"])}) for row in rows}


@dataclass(frozen=True, slots=True)
class Settlement:
    """How one claimed effect ended, or that it goes back to *claimed* (not stored) or to *in doubt*.

    ``unknown``: an earlier call of it may have landed, so whatever comes next is sent (PRODUCT 2.4)."""

    id: int
    state: DeliveryState
    code: str = ""
    sentence: str = ""
    destination_id: str = ""
    granted: bool = False
    suppress: bool = False
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Stand:
    """What the database said at a step: may this run still call, and which claims are marked as going out."""

    held: bool
    may_call: bool
    published: bool
    standing: bool
    cancelled: bool
    sending: frozenset[int]
    settled: int


STEP = f"""
WITH held AS MATERIALIZED (
    SELECT l.expires_at > vigil_now() + %(call)s AS may_call, s.published_id = %(version)s AS published,
        s.state <> 'published' AS standing, r.cancel_asked_at IS NOT NULL AS cancelled
    FROM syncs_lease l JOIN syncs_sync s ON s.id = l.sync_id JOIN syncs_run r ON r.id = %(run)s
    WHERE {HELD_L}
    FOR SHARE OF l
),
ended AS MATERIALIZED (
    SELECT * FROM unnest(%(id)s::bigint[], %(state)s::text[], %(code)s::text[], %(sentence)s::text[],
        %(destination_id)s::text[], %(granted)s::bool[], %(suppress)s::bool[], %(unknown)s::bool[])
    AS e (id, state, code, sentence, destination_id, granted, suppress, unknown)
),
settled AS (
    UPDATE syncs_delivery d SET state = e.state, code = e.code, sentence = e.sentence, granted = e.granted,
        destination_id = CASE e.destination_id WHEN '' THEN d.destination_id ELSE e.destination_id END,
        settled_at = CASE WHEN e.state IN ('claimed', 'in_doubt') THEN NULL ELSE vigil_now() END
    FROM ended e
    WHERE d.id = e.id AND d.fence = %(fence)s AND d.state IN ('sending', 'in_doubt')
    RETURNING d.*, e.suppress, e.unknown
),
remembered AS (
    INSERT INTO syncs_tombstone AS t (sync_id, object, seq, payload_digest, delivery_key, read_no, address_key,
        destination_id, granted_at, withdrawn_at, settled_at)
    SELECT sync_id, object, seq, payload_digest, delivery_key, read_no, address_key, destination_id,
        CASE WHEN granted THEN settled_at END, CASE kind WHEN 'withdrawal' THEN settled_at END, settled_at
    FROM settled WHERE state = 'written'
    ON CONFLICT (sync_id, object) DO UPDATE SET seq = EXCLUDED.seq, payload_digest = EXCLUDED.payload_digest,
        delivery_key = EXCLUDED.delivery_key, read_no = EXCLUDED.read_no, address_key = EXCLUDED.address_key,
        destination_id = CASE EXCLUDED.destination_id WHEN '' THEN t.destination_id ELSE EXCLUDED.destination_id END,
        granted_at = coalesce(EXCLUDED.granted_at, t.granted_at),
        withdrawn_at = coalesce(EXCLUDED.withdrawn_at, t.withdrawn_at), settled_at = EXCLUDED.settled_at
    WHERE t.seq < EXCLUDED.seq AND t.read_no <= EXCLUDED.read_no
),
forgotten AS (
    UPDATE syncs_tombstone t SET payload_digest = '' FROM settled s
    WHERE s.unknown AND s.state <> 'written' AND t.sync_id = s.sync_id AND t.object = s.object
),
kept_out AS (
    INSERT INTO syncs_suppression (workspace_id, address_key, reason, seen_at)
    SELECT DISTINCT ON (address_key) %(workspace)s, address_key, code, vigil_now()
    FROM settled WHERE suppress AND address_key <> ''
    ON CONFLICT (workspace_id, address_key) DO NOTHING
),
marked AS (
    UPDATE syncs_delivery d SET state = 'sending', calls = d.calls + (d.state <> 'sending')::int,
        sending_at = vigil_now(), call_ends_at = vigil_now() + %(call)s
    FROM held
    WHERE held.may_call AND held.published AND NOT held.standing AND NOT held.cancelled
        AND d.id = ANY(%(send)s::bigint[]) AND d.fence = %(fence)s
        AND d.state IN ('claimed', 'in_doubt', 'sending')
    RETURNING d.id
)
SELECT (SELECT may_call FROM held) AS may_call, (SELECT published FROM held) AS published,
    (SELECT standing FROM held) AS standing,
    (SELECT cancelled FROM held) AS cancelled, (SELECT count(*) FROM settled) AS settled,
    ARRAY(SELECT id FROM marked) AS sending
"""


async def step(
    database: Database,
    lease: Lease,
    *,
    run_id: int,
    version_id: int,
    workspace_id: int,
    settle: Sequence[Settlement],
    send: Sequence[int],
    call: timedelta,
) -> Stand:
    """Settle what landed, look whether the run may still call, and mark what goes out: one commit.

    ``call`` is the longest time a call of this step may take. Only ids in `Stand.sending` may go out.
    """
    columns: dict[str, Any] = {
        "id": [s.id for s in settle],
        "state": text_array(s.state for s in settle),
        "code": text_array(s.code[:60] for s in settle),
        "sentence": text_array(s.sentence[:500] for s in settle),
        "destination_id": text_array(s.destination_id for s in settle),
        "granted": [s.granted for s in settle],
        "suppress": [s.suppress for s in settle],
        "unknown": [s.unknown for s in settle],
    }
    values = {**lease.held, **columns, "run": run_id, "version": version_id, "workspace": workspace_id}
    row = await database.row(STEP, {**values, "send": list(send), "call": call})
    assert row is not None  # noqa: S101 - the statement always answers one row
    held = row["may_call"] is not None
    if not held:
        lease.lost = True
    return Stand(
        held=held,
        may_call=bool(row["may_call"]),
        published=bool(row["published"]),
        standing=bool(row["standing"]),
        cancelled=bool(row["cancelled"]),
        sending=frozenset(row["sending"]),
        settled=row["settled"],
    )


NOTE_REFUSED = """
INSERT INTO syncs_delivery (sync_id, run_id, lane, object, kind, append, effect_key, delivery_key, payload_digest, seq,
    read_no, fence, state, calls, code, sentence, evidence, address_key, destination_id, subject, record, event_name,
    granted, claimed_at, settled_at)
SELECT %(sync)s, %(run)s, %(lane)s, p.object, p.kind, false, '', p.delivery_key, '', 0, %(read_no)s, %(fence)s,
    p.state, 0, p.code, '', p.evidence, p.address_key, '', p.subject, p.record, '', false, vigil_now(),
    vigil_now() - CASE p.state WHEN 'deferred' THEN %(looked)s ELSE interval '0' END
FROM unnest(%(object)s::text[], %(kind)s::text[], %(delivery_key)s::text[], %(state)s::text[], %(code)s::text[],
    %(evidence)s::jsonb[], %(address_key)s::text[], %(subject)s::text[], %(record)s::text[])
AS p (object, kind, delivery_key, state, code, evidence, address_key, subject, record)
"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that was refused or deferred before any call, with the evidence for it."""

    object: str
    kind: EffectKind
    delivery_key: str
    state: DeliveryState
    code: str
    evidence: dict[str, Any] | None
    address_key: str
    subject: str
    record: str


async def note_refused(
    cursor: Cursor,
    lease: Lease,
    refusals: Sequence[Refusal],
    *,
    run_id: int,
    lane: str,
    read_no: int,
    looked: timedelta = timedelta(0),
) -> None:
    """Keep the evidence of refusals, in the transaction that moves the cursor over them (PRODUCT 3.6).

    ``looked`` is how long ago the destination was asked, its cache included: a contact that landed since is newer than
    the deferral, and makes it ripe.
    """
    if not refusals:
        return
    names = ("object", "kind", "delivery_key", "state", "code", "address_key", "subject", "record")
    columns: dict[str, Any] = {name: text_array([getattr(one, name) for one in refusals]) for name in names}
    columns["evidence"] = json_array(one.evidence for one in refusals)
    values = {**lease.held, **columns, "run": run_id, "lane": lane, "read_no": read_no, "looked": looked}
    await cursor.execute(NOTE_REFUSED, values)


OUTLIVED = """
UPDATE syncs_delivery d SET state = 'superseded'
WHERE d.sync_id = %(sync)s AND d.state IN ('deferred', 'set_aside') AND d.record = ANY(%(records)s)
  AND d.read_no < %(read_no)s AND d.fence <= %(fence)s
"""


async def close_outlived(cursor: Cursor, lease: Lease, records: Sequence[str], *, read_no: int) -> None:
    """Close what earlier readings had deferred or set aside of ``records``, which this page decides anew."""
    if records:
        await cursor.execute(OUTLIVED, {**lease.held, "records": list(records), "read_no": read_no})


DROP = """
UPDATE syncs_delivery d SET state = CASE o.code WHEN '' THEN 'superseded' ELSE 'refused' END, code = o.code,
    settled_at = vigil_now()
FROM unnest(%(object)s::text[], %(code)s::text[]) AS o (object, code)
WHERE d.sync_id = %(sync)s AND d.object = o.object AND d.state = 'claimed' AND d.fence <= %(fence)s
"""


async def drop(cursor: Cursor, lease: Lease, unwanted: Mapping[str, str]) -> None:
    """Close claims that were never sent and are not wanted any more, in the transaction that decides their page.

    ``unwanted``: object -> the code it is refused for, "" when its record has a row that says so."""
    if unwanted:
        columns = {"object": list(unwanted), "code": list(unwanted.values())}
        await cursor.execute(DROP, {**lease.held, **columns})


SET_ASIDE = """
UPDATE syncs_delivery d SET state = 'set_aside'
FROM unnest(%(object)s::text[], %(digest)s::text[]) AS a (object, digest)
WHERE d.sync_id = %(sync)s AND d.object = a.object AND d.payload_digest = a.digest AND d.state = 'failed'
"""


async def set_aside(cursor: Cursor, lease: Lease, rejected: Sequence[tuple[str, str]]) -> None:
    """Make dead letters of rejected objects, each with its payload's digest, in the transaction that decides them."""
    if rejected:
        objects, digests = zip(*rejected, strict=True)
        await cursor.execute(SET_ASIDE, {**lease.held, "object": list(objects), "digest": list(digests)})


TAKE_OPEN = f"""
UPDATE syncs_delivery d SET fence = %(fence)s, run_id = %(run)s,
    state = CASE d.state WHEN 'claimed' THEN 'claimed' ELSE 'in_doubt' END
WHERE d.sync_id = %(sync)s AND d.{_OPEN} AND d.record = ANY(%(records)s)
  AND d.fence <= %(fence)s AND EXISTS (SELECT 1 FROM syncs_lease WHERE {HELD} FOR SHARE)
RETURNING d.id, d.record, d.object, d.state, d.append, d.effect_key, d.destination_id, d.event_name, d.event_at,
    d.sending_at, greatest(0, coalesce(extract(epoch FROM d.call_ends_at - vigil_now()), 0))::float AS seconds_left
"""


async def take_open(database: Database, lease: Lease, *, run_id: int, records: Sequence[str]) -> list[Row]:
    """The claims of ``records`` that earlier readings left open, ours to close now."""
    return await database.rows(TAKE_OPEN, {**lease.held, "run": run_id, "records": list(records)})


PRUNE = """
WITH old AS (
    SELECT d.id FROM syncs_delivery d
    WHERE d.settled_at < vigil_now() - %(age)s AND d.state NOT IN ('deferred', 'set_aside')
      AND NOT EXISTS (SELECT 1 FROM syncs_cursor c
                      WHERE c.sync_id = d.sync_id AND c.lane = d.lane AND c.until IS NOT NULL)
    ORDER BY d.settled_at LIMIT %(most)s FOR UPDATE SKIP LOCKED
)
DELETE FROM syncs_delivery d USING old WHERE d.id = old.id RETURNING d.id
"""
PRUNE_CHUNK = 5_000


async def prune(database: Database, *, age: timedelta) -> int:
    """Delete completed rows older than ``age`` that no open read needs, in chunks; the number deleted (PRODUCT 2.5)."""
    deleted = 0
    while True:
        rows = await database.rows(PRUNE, {"age": age, "most": PRUNE_CHUNK})
        deleted += len(rows)
        if len(rows) < PRUNE_CHUNK:
            return deleted
