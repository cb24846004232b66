"""What was previewed and published is what runs, and each run proves it (PRODUCT 6.2 to 6.4)."""

import json
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from connectors.errors import ScopeMissing, WrongAccount
from connectors.protocol import Destination, Identity, Source, Stream
from syncs.domain import keys
from syncs.domain import rule as rules
from syncs.domain.lifecycle import Lane
from syncs.domain.rule import ConnectionFacts, Rule
from syncs.engine.database import Database
from syncs.engine.outside import Connected, Terms
from syncs.engine.running import Facts
from syncs.errors import Cancelled, Paused, PublicationInvalid, Superseded

PUBLISH_AGAIN = "Open the draft, preview it and publish again."

FACTS = """
SELECT r.id AS run_id, r.lane, r.failures, r.proof->>'version_asked' AS version_asked,
       coalesce(r.expected, (SELECT c.counted FROM syncs_cursor c WHERE c.sync_id = r.sync_id AND c.lane = r.lane))
           AS expected, r.cancel_asked_at IS NOT NULL AS cancelled, r.force, r.created_at,
       (SELECT count(*) FROM syncs_delivery d WHERE d.sync_id = r.sync_id AND d.run_id = r.id
            AND d.state = 'set_aside') AS set_aside,
       (SELECT max(a.id) FROM syncs_attempt a WHERE a.run_id = r.id) AS attempt_id,
       s.id AS sync_id, s.name AS sync_name, s.workspace_id, s.state, s.published_id, s.changed_at,
       s.first_published_at, v.id AS version_id, v.number AS version_number, v.digest, v.digest_method, v.document,
       v.publisher_label AS publisher, v.facts AS version_facts,
       jsonb_build_object('id', a.id, 'kind', a.kind, 'fingerprint', a.fingerprint, 'account', a.account,
           'scopes', a.scopes, 'proved_fingerprint', a.proved_fingerprint,
           'age', extract(epoch FROM vigil_now() - a.proved_at)) AS source,
       jsonb_build_object('id', b.id, 'kind', b.kind, 'fingerprint', b.fingerprint, 'account', b.account,
           'scopes', b.scopes, 'proved_fingerprint', b.proved_fingerprint,
           'age', extract(epoch FROM vigil_now() - b.proved_at)) AS destination,
       vigil_now() AS now
FROM syncs_run r JOIN syncs_sync s ON s.id = r.sync_id JOIN syncs_version v ON v.id = r.version_id
JOIN syncs_connection a ON a.id = s.source_id JOIN syncs_connection b ON b.id = s.destination_id
WHERE r.id = %(run)s
"""


async def load(database: Database, run_id: int) -> Facts:
    """The run with its sync, version and connections.

    Raises Superseded when another version is published than the one it runs, Paused when the sync stands still.
    """
    row = await database.row(FACTS, {"run": run_id})
    if row is None:
        raise PublicationInvalid(f"Run {run_id} does not exist.")
    state, published, method = row.pop("state"), row.pop("published_id"), row.pop("digest_method")
    if row.pop("cancelled"):
        raise Cancelled("The run was cancelled by a person before it went on.")
    if published != row["version_id"]:
        raise Superseded("Another version was published before this run started to write.")
    if state != "published":
        raise Paused("The sync is not published any more, so the run ended before it changed anything.")
    if method != rules.DIGEST_METHOD:
        raise PublicationInvalid(f"Version {row['version_number']} was published by another method. {PUBLISH_AGAIN}")
    return Facts(**{**row, "lane": Lane(row["lane"])})


def prove_digest(facts: Facts) -> Rule:
    """The published rule, once its digest is proved to bind this document and these connections (PRODUCT 6.4).

    Raises PublicationInvalid.
    """
    rule = read_document(facts.document)
    digest = rules.publication_digest(
        rule, connection_facts(facts.version_facts["source"]), connection_facts(facts.version_facts["destination"])
    )
    if digest != facts.digest:
        raise PublicationInvalid(
            f"This run was not the published version {facts.version_number} and stopped before it changed anything. "
            f"{PUBLISH_AGAIN}"
        )
    for side, now in (("source", facts.source), ("destination", facts.destination)):
        if facts.version_facts[side]["kind"] != now["kind"]:
            raise PublicationInvalid(f"The {side} is another connection than the published one. {PUBLISH_AGAIN}")
    return rule


def read_document(document: str) -> Rule:
    """A version's rule. Raises RuleInvalid."""
    return rules.parse(json.loads(document))


def connection_facts(plain: dict[str, Any]) -> ConnectionFacts:
    return ConnectionFacts(plain["kind"], plain["account"], tuple(plain["scopes"]))


def facts_of(kind: str, identity: Identity) -> dict[str, Any]:
    """What a publication binds of a connection, as plain JSON."""
    return {"kind": kind, "account": identity.account, "scopes": sorted(set(identity.scopes)), "label": identity.label}


def is_fresh(connection: dict[str, Any], terms: Terms) -> bool:
    """Whether account and scopes were proved within the hour for this very credential (PRODUCT 5.2)."""
    age = connection["age"]
    same = connection["proved_fingerprint"] == connection["fingerprint"]
    return same and age is not None and 0 <= age <= terms.identity.total_seconds()


async def prove_connections(
    database: Database, terms: Terms, facts: Facts, connected: Connected, *, asked: bool
) -> Identity | None:
    """Prove that both credentials belong to the published accounts with the published scopes.

    ``asked`` demands a fresh answer of the source even if the last proof is young. Answers the source's identity when
    it was asked. Raises WrongAccount or ScopeMissing, and what the connectors raise.
    """
    identity: Identity | None = None
    if asked or not is_fresh(facts.source, terms):
        identity = await _ask(database, facts.source, connected.source)
        _compare(facts, "source", identity)
    else:
        _compare_plain(facts, "source", facts.source["account"], facts.source["scopes"])
    if not is_fresh(facts.destination, terms):
        _compare(facts, "destination", await _ask(database, facts.destination, connected.destination))
    else:
        _compare_plain(facts, "destination", facts.destination["account"], facts.destination["scopes"])
    return identity


async def _ask(database: Database, connection: dict[str, Any], end: Source | Destination) -> Identity:
    identity = await end.identify()
    await database.rows(
        "UPDATE syncs_connection SET account = %s, label = %s, scopes = to_jsonb(%s::text[]), proved_at = vigil_now(),"
        " proved_fingerprint = %s WHERE id = %s AND fingerprint = %s",
        [
            identity.account,
            identity.label,
            sorted(set(identity.scopes)),
            connection["fingerprint"],
            connection["id"],
            connection["fingerprint"],
        ],
    )
    return identity


def _compare(facts: Facts, side: str, identity: Identity) -> None:
    _compare_plain(facts, side, identity.account, list(identity.scopes))


def _compare_plain(facts: Facts, side: str, account: str, scopes: list[str]) -> None:
    published = facts.version_facts[side]
    name = published["kind"].capitalize()
    if account != published["account"]:
        raise WrongAccount(f"The {name} credential belongs to another account than the published one. {PUBLISH_AGAIN}")
    if sorted(set(scopes)) != sorted(published["scopes"]):
        lacking = ", ".join(sorted(set(published["scopes"]) - set(scopes)))
        change = f"lacks {lacking}" if lacking else "has more scopes than when it was published"
        raise ScopeMissing(f"The {name} credential {change}. Mend the connection or publish again.")


def missing_scopes(source: Source, stream: Stream, scopes: list[str]) -> tuple[str, ...]:
    return tuple(sorted(source.traits.needs.get(stream, frozenset()) - set(scopes)))


def target_of(rule: Rule, facts: dict[str, Any]) -> str:
    """What no two syncs may share: the list, or the orders of one shop at one account (PRODUCT 2.7)."""
    place = rules.target(rule, connection_facts(facts["destination"]))
    return place if rule.list_id is not None else f"{place}:{facts['source']['kind']}:{facts['source']['account']}"


def zone_of(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def document_text(rule: Rule) -> str:
    """The canonical text that a version keeps."""
    return keys.canonical(rules.document(rule)).decode()


def receipt(facts: Facts, at: datetime) -> dict[str, Any]:
    """What each run carries: version, digest, publisher, proof (PRODUCT 6.4)."""
    return {
        "version": facts.version_number,
        "digest": facts.digest,
        "publisher": facts.publisher,
        "source": facts.version_facts["source"]["account"],
        "destination": facts.version_facts["destination"]["account"],
        "proved_at": at.isoformat(),
    }
