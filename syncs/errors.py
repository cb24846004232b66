"""What can go wrong inside Vigil itself, as one tree. What other systems do wrong is in `connectors.errors`.

    VigilError
    ├── Stopped                 a run must start no further write; what it has sent is settled as what it is
    │   ├── LeaseLost           another run owns the sync now (PRODUCT 3.2)
    │   ├── Superseded          another version was published meanwhile (PRODUCT 6.4)
    │   ├── Cancelled           a person ended the run (PRODUCT 9.3)
    │   └── Paused              the sync was paused meanwhile (PRODUCT 4.3)
    ├── Collided                the sync is owned by a run that is still going on (PRODUCT 3.4)
    ├── RuleInvalid             a draft that cannot become a rule; ``field`` says where (PRODUCT 6.1)
    ├── PublicationInvalid      what is published does not fit the connections, or nothing is published (PRODUCT 6.4)
    ├── Faulty                  a fault in Vigil's own code ended the run (PRODUCT 4.2: it stays until it is mended)
    ├── DraftChanged            somebody else saved or published first (PRODUCT 6.5)
    ├── PermissionMissing       the person may see this and not do it (PRODUCT 10.1)
    ├── NameTaken               something of that name is there already
    ├── ZoneUnknown             no such IANA time zone
    └── NotFound                no such thing, or none that this person may know of (PRODUCT 10.1)

``code`` is the stable name that page, mail, JSON and log share (PRODUCT 9.1); the sentence is for people. Neither ever
holds a secret, an address or a payload.
"""


class VigilError(Exception):
    """Base of the tree. ``code`` is stable, ``sentence`` says what happened and what to do."""

    code = "vigil_error"

    def __init__(self, sentence: str, code: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code or type(self).code


class Stopped(VigilError):
    """Base of what makes a run start no further write. None of them is a failure and none is tried again."""

    code = "stopped"


class LeaseLost(Stopped):
    """The lease could not be proved: it ran out, or another owner has it."""

    code = "lost_lease"


class Superseded(Stopped):
    """The publication changed under the run. The next run proves the new one and reads the open page again."""

    code = "superseded"


class Cancelled(Stopped):
    """A person cancelled the run."""

    code = "cancelled"


class Paused(Stopped):
    """The sync stands still until somebody publishes again."""

    code = "paused"


class Collided(VigilError):
    """A run met the lease of another one. Not queued, not retried, not a failure."""

    code = "collided"


class RuleInvalid(VigilError):
    """The draft breaks a rule of rules. ``field`` is the path of what to change ("mapping.1.to"), "" for the whole."""

    code = "rule_invalid"

    def __init__(self, sentence: str, code: str | None = None, *, field: str = "") -> None:
        super().__init__(sentence, code)
        self.field = field


class PublicationInvalid(VigilError):
    """The run is not the published version with the published connections: it ends before it changes anything."""

    code = "version_mismatch"


class Faulty(VigilError):
    """A fault of ours. The run ends at once: trying it again would meet the same fault."""

    code = "internal_fault"


class DraftChanged(VigilError):
    """The draft is not the one the person looked at any more. Their text is kept."""

    code = "draft_changed"


class PermissionMissing(VigilError):
    """The person's role does not allow the act."""

    code = "permission_missing"


class NameTaken(VigilError):
    """Something of that name is there already."""

    code = "name_taken"


class ZoneUnknown(VigilError):
    """Not a time zone that the pinned zone data knows."""

    code = "zone_unknown"


class NotFound(VigilError):
    """Nothing by that name in this workspace."""

    code = "not_found"
