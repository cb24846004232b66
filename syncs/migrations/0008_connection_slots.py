"""The second slot of a connection, its last test, and since when it holds no credential."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("syncs", "0007_staff"),
    ]

    operations = [
        migrations.AddField(
            model_name="connection",
            name="disconnected_at",
            field=models.DateTimeField(editable=False, help_text="Since when it holds no credential.", null=True),
        ),
        migrations.AddField(
            model_name="connection",
            name="entered_at",
            field=models.DateTimeField(editable=False, help_text="When the credential was entered.", null=True),
        ),
        migrations.AddField(
            model_name="connection",
            name="last_test",
            field=models.JSONField(
                editable=False, help_text="The last test: at, ok, scopes wanted and given, checks.", null=True
            ),
        ),
        migrations.AddField(
            model_name="connection",
            name="next_at",
            field=models.DateTimeField(editable=False, help_text="When the credential to come was entered.", null=True),
        ),
        migrations.AddField(
            model_name="connection",
            name="next_key_id",
            field=models.CharField(default="", editable=False, help_text="Which key keeps that one.", max_length=40),
        ),
        migrations.AddField(
            model_name="connection",
            name="next_sealed",
            field=models.BinaryField(default=b"", help_text="The sealed credential to come."),
        ),
        migrations.AddField(
            model_name="connection",
            name="next_test",
            field=models.JSONField(
                editable=False, help_text="Its last test, with the account that was proved.", null=True
            ),
        ),
    ]
