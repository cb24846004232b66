"""What only the database can hold: its clock, read numbers, rows that never change, room for updates in place."""

from typing import ClassVar

from django.db import migrations

CLOCK = """
CREATE TABLE vigil_clock (single boolean PRIMARY KEY DEFAULT true CHECK (single), shift interval NOT NULL DEFAULT '0');
COMMENT ON TABLE vigil_clock IS 'Moved by tests only. One row: what vigil_now() adds to the wall clock.';
INSERT INTO vigil_clock DEFAULT VALUES;
CREATE FUNCTION vigil_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT clock_timestamp() + coalesce((SELECT shift FROM vigil_clock), interval ''0'')';
"""
CLOCK_BACK = "DROP FUNCTION vigil_now(); DROP TABLE vigil_clock;"

APPEND_ONLY = """
CREATE FUNCTION vigil_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or deleted', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER version_never_changes BEFORE UPDATE OR DELETE ON syncs_version
    FOR EACH ROW EXECUTE FUNCTION vigil_refuse_change();
CREATE TRIGGER audit_never_changes BEFORE UPDATE OR DELETE ON syncs_auditentry
    FOR EACH ROW EXECUTE FUNCTION vigil_refuse_change();
"""
APPEND_ONLY_BACK = """
DROP TRIGGER audit_never_changes ON syncs_auditentry;
DROP TRIGGER version_never_changes ON syncs_version;
DROP FUNCTION vigil_refuse_change();
"""

ROOM = """
ALTER TABLE syncs_lease SET (fillfactor = 50);
ALTER TABLE syncs_cursor SET (fillfactor = 50);
ALTER TABLE syncs_run SET (fillfactor = 70);
ALTER TABLE syncs_delivery SET (fillfactor = 80);
"""
ROOM_BACK = """
ALTER TABLE syncs_lease RESET (fillfactor);
ALTER TABLE syncs_cursor RESET (fillfactor);
ALTER TABLE syncs_run RESET (fillfactor);
ALTER TABLE syncs_delivery RESET (fillfactor);
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("syncs", "0001_initial")]

    operations: ClassVar = [
        migrations.RunSQL(CLOCK, CLOCK_BACK),
        migrations.RunSQL("CREATE SEQUENCE vigil_read_no", "DROP SEQUENCE vigil_read_no"),
        migrations.RunSQL(APPEND_ONLY, APPEND_ONLY_BACK),
        migrations.RunSQL(ROOM, ROOM_BACK),
    ]
