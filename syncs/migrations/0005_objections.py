from django.db import migrations, models
from django.db.models.deletion import CASCADE


class Migration(migrations.Migration):
    dependencies = [("syncs", "0004_ledger_names_its_record")]

    operations = [
        migrations.CreateModel(
            name="Objection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("record", models.CharField(help_text="The source's id of the customer.", max_length=60)),
                ("address_key", models.CharField(help_text="Keyed hash of the address.", max_length=64)),
                ("code", models.CharField(help_text="Why that record is refused.", max_length=60)),
                ("seen_at", models.DateTimeField()),
                (
                    "sync",
                    models.ForeignKey(db_index=False, on_delete=CASCADE, related_name="objections", to="syncs.sync"),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="objection",
            index=models.Index(fields=["sync", "address_key"], name="objection_by_address"),
        ),
        migrations.AddConstraint(
            model_name="objection",
            constraint=models.UniqueConstraint(fields=("sync", "record"), name="objection_one_per_record"),
        ),
        migrations.AddIndex(
            model_name="tombstone",
            index=models.Index(
                condition=models.Q(("granted_at__isnull", False)),
                fields=["sync", "address_key"],
                name="tombstone_by_address",
            ),
        ),
    ]
