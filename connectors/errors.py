"""What can go wrong when Vigil talks to another system, as one tree (PRODUCT 4.2).

    ConnectorError
    ├── Passing          it may work later: wait and try again
    │   └── Throttled    the vendor asked for a wait; nothing was stored
    ├── Rejected         permanent for this one record
    ├── Refused          permanent for the run: a person must act
    │   ├── TokenRefused
    │   ├── ScopeMissing
    │   └── WrongAccount
    ├── InDoubt          a write may have been stored although no answer came
    └── Unreadable       an answer came that cannot be believed; nothing of it is used
        └── CursorStale  the page cursor belongs to another query: the window starts again

The class says what happens to the run; ``code`` is the stable name that page, mail, JSON and log share
(PRODUCT 9.1); the sentence is for people. Neither ever holds a secret, an address or a payload.
"""

from datetime import timedelta


class ConnectorError(Exception):
    """Base of the tree. ``code`` is stable, ``sentence`` says what happened and what to do."""

    code = "connector_error"

    def __init__(self, sentence: str, *, code: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code or type(self).code


class Passing(ConnectorError):
    """Not stored, or not read, for a reason that passes by itself: outage, time-out before sending, lock."""

    code = "unavailable"


class Throttled(Passing):
    """The vendor refused the call for its rate limit. ``wait`` is the time it asked for, None when it named none."""

    code = "throttled"

    def __init__(self, sentence: str, *, wait: timedelta | None = None, code: str | None = None) -> None:
        super().__init__(sentence, code=code)
        self.wait = wait


class Rejected(ConnectorError):
    """The destination will never take this record as it is. Other records are not concerned."""

    code = "rejected"


class Refused(ConnectorError):
    """The other system refuses the whole run. It ends at once and is not tried again (PRODUCT 4.2)."""

    code = "refused_by_vendor"


class TokenRefused(Refused):
    """401: the token or key is wrong, expired or revoked."""

    code = "token_refused"


class ScopeMissing(Refused):
    """The token works, and may not do what the sync needs."""

    code = "scope_missing"


class WrongAccount(Refused):
    """The credential belongs to another account than the one that was published (PRODUCT 6.3)."""

    code = "wrong_account"


class InDoubt(ConnectorError):
    """The call left the house and no believable answer came back. It may have been stored (PRODUCT 2.4)."""

    code = "in_doubt"


class Unreadable(ConnectorError):
    """A source's answer that cannot be believed. The read fails, nothing is sent, the cursor stays (PRODUCT 5.1)."""

    code = "unreadable"


class CursorStale(Unreadable):
    """The page cursor was made under another query. The read starts its window again (PRODUCT 1.7)."""

    code = "cursor_stale"
