"""Opening and closing findings in the transaction of the change they tell of (PRODUCT 5.6).

The engine knows nothing of e-mail: telling people is a later step over these rows.
"""

from collections.abc import Sequence

from syncs.engine.database import Cursor

OPEN = """
INSERT INTO syncs_finding (workspace_id, sync_id, code, subject, sentence, state, opened_at, seen_at)
VALUES (%(workspace)s, %(sync)s, %(code)s, %(subject)s, %(sentence)s, 'open', vigil_now(), vigil_now())
ON CONFLICT (workspace_id, sync_id, code, subject) WHERE resolved_at IS NULL
DO UPDATE SET seen_at = vigil_now(), sentence = EXCLUDED.sentence
"""

RESOLVE = """
UPDATE syncs_finding SET state = 'resolved', resolved_at = vigil_now()
WHERE sync_id = %(sync)s AND code = ANY(%(codes)s) AND resolved_at IS NULL
"""


async def open_finding(
    cursor: Cursor, *, workspace_id: int, sync_id: int, code: str, sentence: str, subject: str = ""
) -> None:
    """Open a finding, or see the open one again."""
    values = {"workspace": workspace_id, "sync": sync_id, "code": code, "subject": subject}
    await cursor.execute(OPEN, {**values, "sentence": sentence[:500]})


RESOLVE_SUBJECTS = """
UPDATE syncs_finding SET state = 'resolved', resolved_at = vigil_now()
WHERE sync_id = %(sync)s AND code = %(code)s AND subject = ANY(%(subjects)s) AND resolved_at IS NULL
"""


async def resolve_subjects(cursor: Cursor, *, sync_id: int, code: str, subjects: Sequence[str]) -> None:
    """Close the findings of one code about ``subjects``: they are right again."""
    if subjects:
        await cursor.execute(RESOLVE_SUBJECTS, {"sync": sync_id, "code": code, "subjects": list(subjects)})


async def resolve(cursor: Cursor, *, sync_id: int, codes: list[str]) -> None:
    """Close what is no longer true."""
    await cursor.execute(RESOLVE, {"sync": sync_id, "codes": codes})
