"""What staff need: the groups that give permissions (PRODUCT 10.1), and the rows by which workers show that they live.

Django makes permissions only after all migrations; the groups cannot wait for that, so theirs are made here, under the
names Django would give them. What somebody later changes in a group is left as it is.
"""

from django.db import migrations, models

LOOK = [
    "workspace",
    "membership",
    "connection",
    "sync",
    "version",
    "preview",
    "schedule",
    "occurrence",
    "run",
    "attempt",
    "cursor",
    "lease",
    "coverage",
    "delivery",
    "tombstone",
    "suppression",
    "objection",
    "finding",
    "beat",
]
SUPPORT = [
    "workspace",
    "membership",
    "connection",
    "sync",
    "version",
    "schedule",
    "occurrence",
    "run",
    "attempt",
    "finding",
    "auditentry",
]
ROLES = {
    "operate_sync": "Can run, pause, test and retry in every workspace",
    "edit_sync": "Can edit and preview drafts in every workspace",
    "publish_sync": "Can publish in every workspace",
}
VIEW_AS = {"view_as_merchant": "Can view a workspace as its merchant sees it"}


def _seen(models_seen):
    return {("syncs", name, f"view_{name}"): f"Can view {name}" for name in models_seen}


def _may(model, named, app="syncs"):
    return {(app, model, codename): name for codename, name in named.items()}


PEOPLE = {f"{verb}_user": f"Can {verb} user" for verb in ("add", "change", "view")}
MEMBERS = {f"{verb}_membership": f"Can {verb} membership" for verb in ("add", "change")}
OPERATE = _may("sync", {"operate_sync": ROLES["operate_sync"]})
GROUPS = {
    "Vigil viewers": _seen(LOOK),
    "Vigil operators": _seen([*LOOK, "auditentry"]) | OPERATE,
    "Vigil support": _seen(SUPPORT) | _may("workspace", VIEW_AS),
    "Vigil admins": _seen([*LOOK, "auditentry"])
    | _may("sync", ROLES)
    | _may("workspace", VIEW_AS | {"add_workspace": "Can add workspace"})
    | _may("membership", MEMBERS)
    | _may("user", PEOPLE, app="auth"),
}


def make_groups(apps, schema_editor):
    """Each group that is not there yet, with its permissions."""
    for name, permissions in GROUPS.items():
        group, made = _rows(apps, "auth", "Group").get_or_create(name=name)
        if made:
            group.permissions.set([_permission(apps, *key, text) for key, text in permissions.items()])


def _permission(apps, app, model, codename, text):
    kind, _ = _rows(apps, "contenttypes", "ContentType").get_or_create(app_label=app, model=model)
    named = {"content_type": kind, "codename": codename}
    return _rows(apps, "auth", "Permission").get_or_create(**named, defaults={"name": text})[0]


def _rows(apps, app, model):
    return apps.get_model(app, model).objects


class Migration(migrations.Migration):
    dependencies = [
        ("syncs", "0006_indexes_for_pages"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.CreateModel(
            name="Beat",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("worker", "worker"), ("tick", "tick")],
                        help_text="A worker process, or the tick.",
                        max_length=24,
                    ),
                ),
                ("holder", models.CharField(help_text="Which process: host, pid and its start.", max_length=200)),
                ("at", models.DateTimeField(help_text="By the database's clock.")),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("kind", "holder"), name="beat_one_per_process")],
            },
        ),
        migrations.AlterModelOptions(name="sync", options={"permissions": list(ROLES.items())}),
        migrations.AlterModelOptions(name="workspace", options={"permissions": list(VIEW_AS.items())}),
        migrations.RunPython(make_groups, migrations.RunPython.noop, elidable=False),
    ]
