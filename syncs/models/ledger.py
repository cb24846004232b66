"""What was sent, what may have been sent, and what must never be sent again? No personal data lives here."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from connectors.protocol import EffectKind
from syncs.domain.lifecycle import OPEN_DELIVERIES, DeliveryState, Lane
from syncs.models import fields
from syncs.models.runs import Run
from syncs.models.syncs import Sync
from syncs.models.workspaces import Workspace

UNHAPPY = (
    DeliveryState.IN_DOUBT,
    DeliveryState.REFUSED,
    DeliveryState.FAILED,
    DeliveryState.DEFERRED,
    DeliveryState.SET_ASIDE,
)
"""Where a record may be that was not simply written: what people ask for by name."""


class Delivery(models.Model):
    """One effect's way to the destination: claimed, sending, settled (PRODUCT 2.1 to 2.4).

    ``object`` names what the destination is to see (``contact:13085``): one open claim per object at a time.
    A refused record has a row too, with the evidence of its consent.
    """

    sync = models.ForeignKey(Sync, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="deliveries", db_index=False)
    lane = fields.word(Lane, "Whose read saw it.")
    object = models.CharField(max_length=200, help_text="Kind and natural id.")
    kind = fields.word(EffectKind, "What kind of effect.")
    append = models.BooleanField(default=False, help_text="Whether a repeat would be seen twice.")
    effect_key = models.CharField(max_length=64, help_text="What the destination may recognise a repeat by (2.2).")
    delivery_key = models.CharField(max_length=64, help_text="Names this reading of the record (2.1).")
    payload_digest = models.CharField(max_length=64, help_text="Of what is written.")
    seq = models.BigIntegerField(help_text="One more than the object's last settled one.")
    read_no = models.BigIntegerField(help_text="Drawn before the page was requested (2.6).")
    fence = models.BigIntegerField(help_text="Of the owner that claimed it.")
    state = fields.word(DeliveryState, "Where it is or how it ended.")
    calls = models.PositiveSmallIntegerField(default=0, help_text="How often it was marked as going out.")
    code = models.CharField(max_length=60, default="", blank=True, help_text="Reason of a refusal or failure.")
    sentence = models.CharField(max_length=500, default="", blank=True, help_text="Reason, for people.")
    evidence = models.JSONField(null=True, help_text="What the source said of the consent; no personal data.")
    address_key = models.CharField(max_length=64, default="", blank=True, help_text="Keyed hash of the address.")
    destination_id = models.CharField(max_length=100, default="", blank=True)
    subject = models.CharField(max_length=60, default="", blank=True, help_text="The source's id of the person.")
    record = models.CharField(max_length=60, default="", blank=True, help_text="The source's id of the record read.")
    event_name = models.CharField(max_length=60, default="", blank=True)
    event_at = models.DateTimeField(null=True, help_text="The event's own time: where to look for it again.")
    granted = models.BooleanField(default=False, help_text="Whether this write put the person on the list.")
    claimed_at = models.DateTimeField()
    sending_at = models.DateTimeField(null=True, help_text="When its call was about to go out.")
    call_ends_at = models.DateTimeField(null=True, help_text="After this its call can no longer be out.")
    settled_at = models.DateTimeField(null=True, help_text="When it was recorded how it ended.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["sync", "object"],
                condition=fields.one_of("state", OPEN_DELIVERIES),
                name="delivery_one_open_claim",
            ),
            models.UniqueConstraint(
                fields=["effect_key"],
                condition=models.Q(state=DeliveryState.WRITTEN.value),
                name="delivery_written_once",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["sync", "object", "-id"], name="delivery_by_object"),
            models.Index(fields=["settled_at"], condition=models.Q(settled_at__isnull=False), name="delivery_settled"),
            models.Index(
                fields=["sync", "id"],
                condition=fields.one_of("state", [DeliveryState.DEFERRED, DeliveryState.SET_ASIDE]),
                name="delivery_to_try_again",
            ),
            # Each number of a run's page is a link to its records.
            models.Index(fields=["run", "state", "id"], name="delivery_of_run"),
            models.Index(
                fields=["sync", "id"],
                condition=fields.one_of("state", [DeliveryState.FAILED]),
                name="delivery_failed",
            ),
            models.Index(
                fields=["sync", "settled_at"],
                condition=models.Q(kind=EffectKind.WITHDRAWAL.value),
                name="delivery_withdrawn",
            ),
        ]
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return f"{self.object} {self.state}"


class Tombstone(models.Model):
    """What is remembered of an object for good: what it last was at the destination (PRODUCT 2.2, 2.5)."""

    sync = models.ForeignKey(Sync, on_delete=models.CASCADE, related_name="tombstones", db_index=False)
    object = models.CharField(max_length=200, help_text="Kind and natural id.")
    seq = models.BigIntegerField(help_text="How many effects were settled.")
    payload_digest = models.CharField(max_length=64, help_text="Of what was last delivered.")
    delivery_key = models.CharField(max_length=64, help_text="The reading that delivered it.")
    read_no = models.BigIntegerField(help_text="The read that delivered it; an older one never overwrites (2.6).")
    address_key = models.CharField(max_length=64, default="", help_text="Keyed hash of the address it went to.")
    destination_id = models.CharField(max_length=100, default="")
    granted_at = models.DateTimeField(null=True, help_text="When we last put the person on the list.")
    withdrawn_at = models.DateTimeField(null=True, help_text="When we last took the person off the list.")
    settled_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["sync", "object"], name="tombstone_one_per_object"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["sync", "address_key"],
                condition=models.Q(granted_at__isnull=False),
                name="tombstone_by_address",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.object} #{self.seq}"


class Objection(models.Model):
    """Whose record at the source says "no", and for which address: no other record of that address is sent (2.7)."""

    sync = models.ForeignKey(Sync, on_delete=models.CASCADE, related_name="objections", db_index=False)
    record = models.CharField(max_length=60, help_text="The source's id of the customer.")
    address_key = models.CharField(max_length=64, help_text="Keyed hash of the address.")
    code = models.CharField(max_length=60, help_text="Why that record is refused.")
    seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["sync", "record"], name="objection_one_per_record"),
        ]
        indexes: ClassVar = [models.Index(fields=["sync", "address_key"], name="objection_by_address")]

    def __str__(self) -> str:
        return f"{self.code} {self.address_key[:12]}"


class Suppression(models.Model):
    """People who must never be created again, as keyed hashes (PRODUCT 3.7). Only a named person lifts an entry."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="suppressions")
    address_key = models.CharField(max_length=64, help_text="Keyed hash of the address.")
    reason = models.CharField(max_length=60, help_text="Reason code.")
    seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "address_key"], name="suppression_once_per_address"),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.address_key[:12]}"
