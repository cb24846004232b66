"""What the merchant's pages look up of large tables, each by an index of its own; built without locking writers out."""

import django.db.models.deletion
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("syncs", "0005_objections"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="auditentry",
            index=models.Index(fields=["workspace", "subject", "-at"], name="audit_by_subject"),
        ),
        AddIndexConcurrently(
            model_name="delivery",
            index=models.Index(fields=["run", "state", "id"], name="delivery_of_run"),
        ),
        # The index above begins with the run, so the run needs none of its own.
        migrations.AlterField(
            model_name="delivery",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="deliveries",
                to="syncs.run",
            ),
        ),
        AddIndexConcurrently(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state__in", ["failed"])), fields=["sync", "id"], name="delivery_failed"
            ),
        ),
        AddIndexConcurrently(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("kind", "withdrawal")), fields=["sync", "settled_at"], name="delivery_withdrawn"
            ),
        ),
    ]
