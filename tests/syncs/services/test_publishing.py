"""Draft, preview, publish, pause through the door, with sandbox vendors at the other end (PRODUCT 6)."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db.models import Model

from syncs import services
from syncs.domain.lifecycle import Lane
from syncs.errors import DraftChanged, PermissionMissing, PublicationInvalid, RuleInvalid
from syncs.models import AuditEntry, Delivery, Preview, Run, Sync, Version
from syncs.models.workspaces import Role
from syncs.services import Actor
from tests.children import CUSTOMERS_RULE, Shop, a_shop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with a_shop(tmp_path) as made:
        yield made


def somebody(shop: Shop, name: str, role: Role) -> Actor:
    user = User.objects.create_user(name)
    services.member_add(services.vigil(), shop.contacts.workspace, user, role)
    return services.person(user)


def counts() -> dict[type[Model], int]:
    return {model: model._default_manager.count() for model in (AuditEntry, Delivery, Preview, Run, Version)}


def edited(shop: Shop, actor: Actor, attribute: str = "LASTNAME") -> Sync:
    rule = {**CUSTOMERS_RULE, "mapping": [{"to": attribute, "source": "lastName"}]}
    return services.sync_save_draft(actor, shop.contacts, rule=rule, revision=shop.contacts.draft_revision)


def test_a_preview_writes_nothing_anywhere(shop: Shop) -> None:
    before = shop.brevo.control("dump")
    preview = services.sync_preview(services.vigil(), shop.contacts)
    assert shop.brevo.control("dump") == before
    assert Delivery.objects.count() == 0
    assert preview.result["read"] == sum(preview.result["states"].values()) == 250
    assert preview.result["counted"] == 500


def test_a_preview_shows_no_address_and_no_whole_name(shop: Shop) -> None:
    preview = services.sync_preview(services.vigil(), shop.contacts)
    text = str(preview.result)
    assert "@" not in text
    assert all("•" in cell["new"] for row in preview.result["rows"] for cell in row["fields"] if len(cell["new"]) > 1)


def test_a_change_of_content_puts_the_sync_back_and_a_save_without_one_does_not_case_pub_10(shop: Shop) -> None:
    actor = services.vigil()
    same = services.sync_save_draft(actor, shop.contacts, rule=dict(reversed(shop.contacts.draft.items())), revision=1)
    assert (same.state, same.draft_revision) == ("published", 1)
    changed = edited(shop, actor)
    assert (changed.state, changed.draft_revision) == ("edited", 2)
    with pytest.raises(PublicationInvalid, match="preview it and publish it"):
        services.run_start(actor, changed)


def test_what_was_previewed_before_somebody_else_saved_is_not_published_case_pub_05(shop: Shop) -> None:
    ann, bob = somebody(shop, "ann", Role.PUBLISHER), somebody(shop, "bob", Role.PUBLISHER)
    edited(shop, ann)
    shop.contacts.refresh_from_db()
    preview = services.sync_preview(ann, shop.contacts)
    edited(shop, bob, "FIRSTNAME")
    with pytest.raises(DraftChanged, match="Changed by bob"):
        services.sync_publish(ann, shop.contacts, digest=preview.digest)
    with pytest.raises(DraftChanged, match="bob saved this draft"):
        services.sync_save_draft(ann, shop.contacts, rule=CUSTOMERS_RULE, revision=2)
    assert Version.objects.filter(sync=shop.contacts).count() == 1


def test_only_a_digest_that_was_previewed_is_published(shop: Shop) -> None:
    with pytest.raises(PublicationInvalid, match="No preview"):
        services.sync_publish(services.vigil(), shop.contacts, digest="0" * 64)
    with pytest.raises(PublicationInvalid, match="No preview"):
        services.sync_publish(services.vigil(), shop.contacts, digest="")


def test_a_preview_runs_out(shop: Shop) -> None:
    preview = services.sync_preview(services.vigil(), shop.contacts)
    Preview.objects.update(valid_until=preview.made_at - timedelta(seconds=1))
    with pytest.raises(PublicationInvalid, match="valid until"):
        services.sync_publish(services.vigil(), shop.contacts, digest=preview.digest)


def test_an_attribute_that_does_not_exist_there_blocks_publishing_case_deliv_18(shop: Shop) -> None:
    edited(shop, services.vigil(), "Nom")
    shop.contacts.refresh_from_db()
    preview = services.sync_preview(services.vigil(), shop.contacts)
    assert preview.result["blocks"] == ["The destination has no attribute 'Nom'. Create it there or map another."]
    with pytest.raises(PublicationInvalid, match="no attribute 'Nom'"):
        services.sync_publish(services.vigil(), shop.contacts, digest=preview.digest)


def test_two_syncs_do_not_share_a_list(shop: Shop) -> None:
    twin = services.sync_create(
        services.vigil(),
        shop.contacts.workspace,
        name="Twin",
        source=shop.contacts.source,
        destination=shop.contacts.destination,
        rule=CUSTOMERS_RULE,
    )
    preview = services.sync_preview(services.vigil(), twin)
    assert preview.result["blocks"] == [
        "'Contacts' already writes to this target. Two syncs may not share one: choose another."
    ]
    Preview.objects.filter(pk=preview.pk).update(publishable=True)
    with pytest.raises(PublicationInvalid, match="already writes to this target"):
        services.sync_publish(services.vigil(), twin, digest=preview.digest)
    assert Version.objects.filter(sync=twin).count() == 0


def test_a_source_that_cannot_be_read_makes_a_preview_that_cannot_be_published(shop: Shop) -> None:
    shop.shopify.control("token", {"valid": False})
    preview = services.sync_preview(services.vigil(), shop.contacts)
    assert (preview.publishable, preview.digest) == (False, "")
    assert "401" in preview.result["blocks"][0]


def test_a_missing_scope_is_named(shop: Shop) -> None:
    shop.shopify.control("scopes", {"scopes": ["read_customers"]})
    preview = services.sync_preview(services.vigil(), shop.orders)
    assert not preview.publishable
    assert "read_orders" in " ".join(preview.result["blocks"])


def test_pause_stands_still_until_somebody_publishes_the_unchanged_rule_again(shop: Shop) -> None:
    actor = services.vigil()
    digest = shop.contacts.published.digest if shop.contacts.published else ""
    services.sync_pause(actor, shop.contacts, reason="a look")
    with pytest.raises(PublicationInvalid):
        services.run_start(actor, shop.contacts)
    preview = services.sync_preview(actor, shop.contacts)
    assert preview.digest == digest, "the same rule has the same digest"
    version = services.sync_publish(actor, shop.contacts, digest=digest)
    shop.contacts.refresh_from_db()
    assert (shop.contacts.state, version.number) == ("published", 2)


def test_publishing_ends_a_run_that_waits_and_frees_its_sync(shop: Shop) -> None:
    actor = services.vigil()
    run = services.run_start(actor, shop.contacts, lane=Lane.SCHEDULED)
    preview = services.sync_preview(actor, shop.contacts)
    services.sync_publish(actor, shop.contacts, digest=preview.digest)
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "superseded")
    assert services.run_start(actor, shop.contacts).state == "waiting"


def test_rotating_a_key_of_the_same_account_needs_no_publication_and_another_shop_does_case_pub_07(
    shop: Shop, tmp_path: Path
) -> None:
    actor = services.vigil()
    connection = services.connection_update(actor, shop.contacts.source, secrets={"token": "shpat_of_a_test"})
    assert bytes(connection.sealed) != bytes(shop.contacts.source.sealed)
    run = services.run_start(actor, shop.contacts, lane=Lane.SCHEDULED)
    services.work()
    run.refresh_from_db()
    assert run.outcome == "succeeded"


@pytest.mark.parametrize(
    ("role", "act"),
    [
        (Role.VIEWER, lambda actor, shop: services.run_start(actor, shop.contacts)),
        (Role.VIEWER, lambda actor, shop: services.sync_pause(actor, shop.contacts, reason="x")),
        (Role.OPERATOR, lambda actor, shop: services.sync_preview(actor, shop.contacts)),
        (Role.OPERATOR, lambda actor, shop: edited(shop, actor)),
        (Role.OPERATOR, lambda actor, shop: services.schedule_set(actor, shop.contacts, every_minutes=5)),
        (Role.EDITOR, lambda actor, shop: services.sync_publish(actor, shop.contacts, digest="0" * 64)),
        (Role.VIEWER, lambda actor, shop: services.connection_test(actor, shop.contacts.source)),
        (Role.OPERATOR, lambda actor, shop: services.connection_update(actor, shop.contacts.source, secrets={})),
    ],
)
def test_who_lacks_the_role_is_refused_and_nothing_changes(role: Role, act: object, shop: Shop) -> None:
    actor = somebody(shop, "mia", role)
    stranger = services.person(User.objects.create_user("stranger"))
    before, sync_before = counts(), Sync.objects.filter(pk=shop.contacts.pk).values().get()
    for one in (actor, stranger):
        with pytest.raises(PermissionMissing):
            act(one, shop)  # type: ignore[operator]
    assert counts() == before
    assert Sync.objects.filter(pk=shop.contacts.pk).values().get() == sync_before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"limits": 3}, "limits"),
        ({"ratio": 0.05}, "share"),
        ({"list_id": "seven"}, "list"),
        ({"stream": "x"}, "stream"),
    ],
)
def test_a_rule_that_cannot_be_one_says_which_part(change: dict[str, object], words: str, shop: Shop) -> None:
    with pytest.raises(RuleInvalid) as refused:
        services.sync_save_draft(services.vigil(), shop.contacts, rule={**CUSTOMERS_RULE, **change}, revision=1)
    assert words in refused.value.sentence.lower()


def test_a_credential_is_sealed_and_opens_only_in_its_own_row(shop: Shop) -> None:
    source, destination = shop.contacts.source, shop.contacts.destination
    assert b"shpat" not in bytes(source.sealed)
    assert source.secrets() == {"token": "shpat_of_a_test"}
    source.sealed, source.key_id = destination.sealed, destination.key_id
    with pytest.raises(ValueError, match="Enter it again"):
        source.secrets()


def test_every_act_is_in_the_audit_log_without_a_secret(shop: Shop) -> None:
    services.connection_update(services.vigil("an operator"), shop.contacts.source, secrets={"token": "shpat_other"})
    entry = AuditEntry.objects.latest("at")
    assert (entry.action, entry.actor_label) == ("connection.rotated", "an operator")
    assert not any("shpat" in str(value) for row in AuditEntry.objects.values() for value in row.values())


def test_a_published_sync_never_moves_to_another_list(shop: Shop) -> None:
    """What it remembers of people is of the old list: it would withdraw them from the wrong one."""
    actor = services.vigil()
    services.sync_save_draft(actor, shop.contacts, rule={**CUSTOMERS_RULE, "list_id": 8}, revision=1)
    shop.contacts.refresh_from_db()
    preview = services.sync_preview(actor, shop.contacts)
    assert not preview.publishable
    assert "make a new sync" in preview.result["blocks"][0]
    Preview.objects.filter(pk=preview.pk).update(publishable=True)
    with pytest.raises(PublicationInvalid, match="make a new sync"):
        services.sync_publish(actor, shop.contacts, digest=preview.digest)
    shop.contacts.refresh_from_db()
    assert shop.contacts.state == "edited"


def test_a_preview_shows_some_rows_of_every_outcome(shop: Shop) -> None:
    preview = services.sync_preview(services.vigil(), shop.contacts)
    states = [row["state"] for row in preview.result["rows"]]
    assert states[0] == "refused" and set(states) == set(preview.result["states"])
    assert len(states) == 20


def test_a_preview_says_what_is_probably_not_meant(shop: Shop) -> None:
    actor = services.vigil()
    rule = {**CUSTOMERS_RULE, "mapping": [{"to": "FIRSTNAME", "source": "noSuchField"}]}
    saved = services.sync_save_draft(actor, shop.contacts, rule=rule, revision=1)
    assert services.sync_preview(actor, saved).result["notes"] == [
        "FIRSTNAME was empty in all 96 records that would be written. Is it meant?"
    ]
    rule = {**CUSTOMERS_RULE, "filter": "numberOfOrders > `2`"}
    saved = services.sync_save_draft(actor, shop.contacts, rule=rule, revision=2)
    (note,) = services.sync_preview(actor, saved).result["notes"]
    assert note.startswith("The filter lets none of these 250 records through.")


def test_what_reaches_further_is_published_only_with_a_confirmation(shop: Shop) -> None:
    """UX, P6: also for whoever asks past the page."""
    actor = services.vigil()
    rule = {**CUSTOMERS_RULE, "on_rejected": "set_aside", "ratio": "1", "cap": 500}
    sync = services.sync_save_draft(actor, shop.contacts, rule=rule, revision=1)
    preview = services.sync_preview(actor, sync)
    before = counts()
    with pytest.raises(PublicationInvalid, match="reaches further than version 1") as refused:
        services.sync_publish(actor, sync, digest=preview.digest)
    assert (refused.value.code, counts()) == (services.UNCONFIRMED, before)
    assert services.sync_publish(actor, sync, digest=preview.digest, widening_confirmed=True).number == 2


def test_a_schedule_that_is_set_as_it_is_changes_nothing_and_another_is_audited(shop: Shop) -> None:
    actor = services.vigil()
    was = shop.contacts.schedule
    before = counts()
    services.schedule_set(actor, shop.contacts, every_minutes=was.every_minutes)
    assert counts() == before
    services.schedule_set(actor, shop.contacts, every_minutes=60, active=False)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.before, entry.after) == (
        "schedule.set",
        {"every_minutes": was.every_minutes, "active": True},
        {"every_minutes": 60, "active": False},
    )
