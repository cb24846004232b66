"""Two slots, tests with their checks, and what a connection takes with it when it goes (PRODUCT 3.10, 6.3, 10.2)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from connectors.errors import TokenRefused
from connectors.protocol import Identity
from syncs import services
from syncs.domain.sealing import SealBroken
from syncs.errors import NameTaken, NotFound, PermissionMissing, PublicationInvalid
from syncs.models import AuditEntry, Connection, Sync
from syncs.models.workspaces import Role
from syncs.services import connections
from tests import factories
from tests.factories import NOW, SOURCE_ACCOUNT

SECRETS = ("the-next-credential", "not-a-real-credential", "shpat_next")
READ = ("read_customers", "read_orders")


@pytest.fixture
def actor() -> services.Actor:
    return services.vigil("an operator")


@pytest.fixture
def sync(db: None) -> Sync:
    """Published, with a source that was proved as what was published."""
    factories.clock_stands_at()
    made = factories.published()
    _proved(made.source)
    made.refresh_from_db()
    return made


def _proved(connection: Connection) -> None:
    Connection.objects.filter(pk=connection.pk).update(
        account=SOURCE_ACCOUNT,
        label="ACME Shop",
        scopes=["read_customers"],
        proved_at=NOW,
        proved_fingerprint=connection.fingerprint,
    )


def answering(monkeypatch: pytest.MonkeyPatch, by_token: Mapping[str, Identity | Exception]) -> None:
    async def identify(kind: str, options: Mapping[str, Any], secrets: Mapping[str, str]) -> Identity:
        answer = by_token[secrets["token"]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(connections, "_identify", identify)


def identity(*scopes: str, account: str = SOURCE_ACCOUNT) -> Identity:
    return Identity(account, "ACME Shop", scopes, NOW)


def is_now(at: datetime | None) -> bool:
    """The tests' clock goes on from `NOW`."""
    return at is not None and NOW <= at < NOW + timedelta(minutes=1)


def row(sync: Sync) -> Connection:
    return Connection.objects.get(pk=sync.source_id)


def verdicts(test: Mapping[str, Any] | None) -> dict[str, bool]:
    assert test is not None
    return {one["name"]: one["ok"] for one in test["checks"]}


# --- Tests ------------------------------------------------------------------------------------------------------------
def test_a_test_is_kept_with_its_checks(sync: Sync, actor: services.Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {"not-a-real-credential": identity("read_customers", "write_orders")})
    services.connection_test(actor, sync.source)
    kept = row(sync).last_test
    assert kept is not None
    assert kept == {
        "at": kept["at"],
        "ok": False,
        "wanted": ["read_customers", "read_orders"],
        "given": ["read_customers", "write_orders"],
        "checks": kept["checks"],
    }
    assert is_now(datetime.fromisoformat(kept["at"]))
    assert [(one["name"], one["ok"], one["tone"], one["sentence"]) for one in kept["checks"]] == [
        ("answers", True, "ok", f"Shopify answers: ACME Shop ({SOURCE_ACCOUNT})."),
        ("scopes", False, "bad", "It lacks read_orders. Grant it at the vendor, then test again."),
        ("read_only", False, "warn", "This token can write (write_orders); give it read-only scopes."),
    ]
    entry = AuditEntry.objects.latest("pk")
    checks = {"answers": True, "scopes": False, "read_only": False}
    assert (entry.action, entry.after) == ("connection.tested", {"ok": False, "checks": checks})


def test_a_credential_that_can_write_is_a_warning_only(
    sync: Sync, actor: services.Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PRODUCT 3.10."""
    answering(monkeypatch, {"not-a-real-credential": identity(*READ, "write_orders")})
    services.connection_test(actor, sync.source)
    kept = row(sync).last_test
    assert kept is not None and kept["ok"] is True
    assert verdicts(kept) == {"answers": True, "scopes": True, "read_only": False}


def test_a_failed_test_is_kept_too_and_proves_nothing(
    sync: Sync, actor: services.Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {"not-a-real-credential": TokenRefused("Shopify refused the token.")})
    before = row(sync)
    with pytest.raises(TokenRefused):
        services.connection_test(actor, sync.source)
    after = row(sync)
    assert after.last_test is not None and after.last_test["checks"][0]["sentence"] == "Shopify refused the token."
    assert (after.last_test["ok"], after.account, after.proved_at) == (False, before.account, before.proved_at)


def test_a_test_of_a_credential_that_was_replaced_meanwhile_is_not_kept(
    sync: Sync, actor: services.Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {"not-a-real-credential": identity(*READ)})
    stale = row(sync)
    services.connection_update(actor, row(sync), secrets={"token": "shpat_next"})
    services.connection_test(actor, stale)
    after = row(sync)
    assert (after.last_test, after.is_proved) == (None, False)


def test_a_name_is_used_once(sync: Sync, actor: services.Actor) -> None:
    given: dict[str, Any] = {"kind": "brevo", "options": {}, "secrets": {"api_key": "not-a-real-credential"}}
    with pytest.raises(NameTaken, match="choose another name"):
        services.connection_create(actor, sync.workspace, name=sync.source.name, **given)


def test_a_domain_is_kept_in_one_spelling(sync: Sync, actor: services.Actor) -> None:
    made = services.connection_create(
        actor,
        sync.workspace,
        name="Pasted",
        kind="shopify",
        options={"domain": "https://ACME.myshopify.com/admin"},
        secrets={"token": "shpat_pasted"},
    )
    assert (made.options, is_now(made.entered_at)) == ({"domain": "acme.myshopify.com"}, True)


# --- Two slots --------------------------------------------------------------------------------------------------------
def test_the_next_credential_stands_beside_the_one_in_use(sync: Sync, actor: services.Actor) -> None:
    services.connection_next_set(actor, sync.source, secrets={"token": "shpat_next"})
    found = row(sync)
    assert (found.secrets(), found.next_secrets()) == ({"token": "not-a-real-credential"}, {"token": "shpat_next"})
    assert found.is_proved
    assert b"shpat" not in bytes(found.next_sealed)


def test_a_seal_of_one_slot_does_not_open_in_the_other(sync: Sync, actor: services.Actor) -> None:
    found = services.connection_next_set(actor, sync.source, secrets={"token": "shpat_next"})
    found.sealed, found.key_id = found.next_sealed, found.next_key_id
    with pytest.raises(SealBroken):
        found.secrets()


@pytest.mark.parametrize(
    ("answer", "same", "expected"),
    [
        (identity("read_customers"), False, {"same_account": True, "same_scopes": True, "scopes": False}),
        (identity(account="other"), False, {"same_account": False, "same_scopes": False, "scopes": False}),
        (identity(*READ), False, {"same_account": True, "same_scopes": True, "scopes": True, "more_scopes": False}),
    ],
)
def test_what_the_next_credential_lacks_is_said_exactly(
    sync: Sync,
    actor: services.Actor,
    monkeypatch: pytest.MonkeyPatch,
    answer: Identity,
    same: bool,
    expected: dict[str, bool],
) -> None:
    answering(monkeypatch, {"shpat_next": answer})
    found = services.connection_next_set(actor, sync.source, secrets={"token": "shpat_next"})
    assert services.connection_next_test(actor, found) is same
    found = row(sync)
    assert found.next_test is not None
    assert {name: ok for name, ok in verdicts(found.next_test).items() if name in expected} == expected
    assert found.next_test["account"] == answer.account
    assert (found.account, found.scopes) == (SOURCE_ACCOUNT, ["read_customers"])


def test_the_same_account_and_scopes_switch_without_a_publication(sync: Sync, actor: services.Actor) -> None:
    """Case PUB-07."""
    factories.next_credential(sync.source)
    before = row(sync)
    assert services.connection_switch(actor, sync.source) == ()
    found = row(sync)
    assert found.secrets() == {"token": "the-next-credential"}
    assert (found.fingerprint != before.fingerprint, found.is_proved, found.entered_at) == (True, True, NOW)
    assert (bytes(found.next_sealed), found.next_key_id, found.next_test) == (b"", "", None)
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision) == ("published", 1)
    assert AuditEntry.objects.latest("pk").action == "connection.switched"


@pytest.mark.parametrize(
    "other", [{"account": "other"}, {"scopes": ()}, {"scopes": ("read_customers", "write_orders")}]
)
def test_another_account_or_other_scopes_switch_only_when_it_is_confirmed(
    sync: Sync, actor: services.Actor, other: dict[str, Any]
) -> None:
    factories.next_credential(sync.source, **other)
    before = row(sync)
    with pytest.raises(PublicationInvalid, match="needs a new publication"):
        services.connection_switch(actor, sync.source)
    assert row(sync).fingerprint == before.fingerprint
    sync.refresh_from_db()
    assert sync.state == "published"

    still = services.connection_switch(actor, sync.source, confirmed=True)
    assert still == (sync,)
    sync.refresh_from_db()
    assert (sync.state, sync.draft_revision, is_now(sync.draft_at)) == ("edited", 2, True)
    assert row(sync).secrets() == {"token": "the-next-credential"}
    assert row(sync).account == other.get("account", SOURCE_ACCOUNT)
    assert [one.action for one in AuditEntry.objects.order_by("-pk")[:2]] == [
        "sync.must_publish",
        "connection.switched",
    ]


def test_a_next_credential_that_was_not_proved_does_not_take_over(sync: Sync, actor: services.Actor) -> None:
    services.connection_next_set(actor, sync.source, secrets={"token": "shpat_next"})
    with pytest.raises(PublicationInvalid, match="not proved"):
        services.connection_switch(actor, sync.source, confirmed=True)


def test_a_proof_of_the_next_credential_ages(sync: Sync, actor: services.Actor) -> None:
    factories.next_credential(sync.source)
    factories.clock_stands_at(NOW + timedelta(minutes=61))
    with pytest.raises(PublicationInvalid, match="too old"):
        services.connection_switch(actor, sync.source)


def test_the_proof_of_one_credential_is_none_of_the_one_entered_after_it(sync: Sync, actor: services.Actor) -> None:
    factories.next_credential(sync.source)
    found = services.connection_next_set(actor, row(sync), secrets={"token": "shpat_next"})
    assert found.next_test is None
    with pytest.raises(PublicationInvalid, match="not proved"):
        services.connection_switch(actor, found)


def test_a_test_of_a_next_credential_that_was_replaced_meanwhile_is_not_kept(
    sync: Sync, actor: services.Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {"shpat_next": identity("read_customers")})
    stale = services.connection_next_set(actor, sync.source, secrets={"token": "shpat_next"})
    services.connection_next_set(actor, row(sync), secrets={"token": "shpat_other"})
    services.connection_next_test(actor, stale)
    assert row(sync).next_test is None


def test_dropping_the_next_one_leaves_the_one_in_use(sync: Sync, actor: services.Actor) -> None:
    factories.next_credential(sync.source)
    services.connection_next_drop(actor, sync.source)
    found = row(sync)
    assert (bytes(found.next_sealed), found.next_at, found.secrets()) == (b"", None, {"token": "not-a-real-credential"})
    for act in (services.connection_next_drop, services.connection_switch, services.connection_next_test):
        with pytest.raises(NotFound, match="no next credential"):
            act(actor, found)


# --- Disconnecting ----------------------------------------------------------------------------------------------------
def test_disconnecting_wipes_the_secrets_pauses_and_keeps_the_row(sync: Sync, actor: services.Actor) -> None:
    preview = factories.preview(sync)
    factories.next_credential(sync.source)
    assert services.connection_disconnect(actor, sync.source, reason="The shop moves.") == (sync,)
    found = row(sync)
    assert (bytes(found.sealed), bytes(found.next_sealed), found.fingerprint, found.key_id) == (b"", b"", "", "")
    assert (is_now(found.disconnected_at), found.account, found.is_proved) == (True, SOURCE_ACCOUNT, False)
    with pytest.raises(SealBroken, match="holds no credential"):
        found.secrets()
    sync.refresh_from_db()
    assert (sync.state, sync.pause_code) == ("paused", "by_person")
    assert sync.pause_sentence == f"an operator disconnected {found.name}."
    preview.refresh_from_db()
    assert preview.valid_until == found.disconnected_at
    with pytest.raises(NotFound):
        services.connection_disconnect(actor, found)


def test_a_disconnected_connection_is_connected_again_through_the_next_slot(sync: Sync, actor: services.Actor) -> None:
    services.connection_disconnect(actor, sync.source)
    factories.next_credential(row(sync))
    services.connection_switch(actor, row(sync))
    found = row(sync)
    assert (found.disconnected_at, found.is_proved) == (None, True)
    sync.refresh_from_db()
    assert sync.state == "paused"


# --- Who may, and what is written down --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lacks", "act"),
    [
        (Role.VIEWER, services.connection_test),
        (Role.EDITOR, lambda actor, one: services.connection_next_set(actor, one, secrets={"token": "shpat_next"})),
        (Role.EDITOR, services.connection_next_test),
        (Role.EDITOR, services.connection_switch),
        (Role.EDITOR, services.connection_next_drop),
        (Role.EDITOR, services.connection_disconnect),
    ],
)
def test_who_lacks_the_role_changes_nothing(sync: Sync, lacks: Role, act: Any) -> None:
    factories.next_credential(sync.source)
    before = Connection.objects.filter(pk=sync.source_id).values().get()
    with pytest.raises(PermissionMissing):
        act(services.person(factories.member(sync.workspace, lacks)), sync.source)
    assert Connection.objects.filter(pk=sync.source_id).values().get() == before


def test_no_secret_is_written_down(sync: Sync, actor: services.Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {"shpat_next": identity("read_customers")})
    found = services.connection_next_set(actor, sync.source, secrets={"token": "shpat_next"})
    services.connection_next_test(actor, found)
    services.connection_switch(actor, found)
    services.connection_disconnect(actor, found)
    written = [str(value) for entry in AuditEntry.objects.values() for value in entry.values()]
    assert len(AuditEntry.objects.all()) == 5
    assert not [text for text in written if any(secret in text for secret in SECRETS)]
