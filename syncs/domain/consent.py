"""Who may be mailed: the one consent filter of preview, scheduled run, person's run and backfill (PRODUCT 3.6).

It errs on the side of "too careful": a word, a level or a time it does not know is a refusal. It holds no vendor's
field names, and what it hands out holds no personal data but the address in its comparable form.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

import email_validator

from connectors.protocol import ConsentEvidence, Contact, Subject

NO_CUSTOMER: Final = "no_customer"
NO_ADDRESS: Final = "no_address"
STATE_UNKNOWN: Final = "state_unknown"
LEVEL_UNKNOWN: Final = "level_unknown"
NO_DATE: Final = "no_date"
DATE_IN_FUTURE: Final = "date_in_future"
MALFORMED_ADDRESS: Final = "malformed_address"
ADDRESS_UNSUPPORTED: Final = "address_unsupported"
DATA_SALE_OPT_OUT: Final = "data_sale_opt_out"
DESTINATION_UNSUBSCRIBED: Final = "destination_unsubscribed"
DESTINATION_BLOCKLISTED: Final = "destination_blocklisted"
SUPPRESSED: Final = "suppressed"
ADDRESS_CHANGED: Final = "address_changed"

SUBSCRIBED: Final = "SUBSCRIBED"
SINGLE_OPT_IN: Final = "SINGLE_OPT_IN"
CONFIRMED_OPT_IN: Final = "CONFIRMED_OPT_IN"

REFUSING_STATES: Final = {
    "NOT_SUBSCRIBED": "not_subscribed",
    "UNSUBSCRIBED": "unsubscribed",
    "PENDING": "pending",
    "INVALID": "invalid",
    "REDACTED": "redacted",
}
"""The source's exact words that are a refusal, and their codes. Any other word but SUBSCRIBED is `state_unknown`."""

WITHDRAWN_STATES: Final = frozenset({"UNSUBSCRIBED", "REDACTED"})
"""The person said no, or is to be forgotten: carried to the destination, address or not (PRODUCT 3.8)."""

CONSENT_GONE: Final = frozenset(REFUSING_STATES.values())

CODES: Final = (
    NO_CUSTOMER,
    NO_ADDRESS,
    *REFUSING_STATES.values(),
    STATE_UNKNOWN,
    LEVEL_UNKNOWN,
    NO_DATE,
    DATE_IN_FUTURE,
    MALFORMED_ADDRESS,
    ADDRESS_UNSUPPORTED,
    DATA_SALE_OPT_OUT,
    DESTINATION_UNSUBSCRIBED,
    DESTINATION_BLOCKLISTED,
    SUPPRESSED,
    ADDRESS_CHANGED,
)
"""Every reason to refuse, in the order in which they are asked."""

LOCAL_PART_LIMIT: Final = 64
"""Characters before the @ that the destination takes."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a rule demands: the opt-in levels that count as proof, and whether an opt-out of data sale refuses."""

    levels: frozenset[str]
    refuse_data_sale_opt_out: bool


DEFAULT_POLICY: Final = Policy(frozenset({SINGLE_OPT_IN, CONFIRMED_OPT_IN}), False)


@dataclass(frozen=True, slots=True)
class Address:
    """An address in the form the destination compares: ``comparable``, or ``problem``, the code why it has none."""

    comparable: str | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict about one person. ``code`` is "" when allowed.

    ``address`` is comparable, and set for refused people too where it can be: it names the object at the destination.
    ``withdrawn`` says that this person must come off the list, whatever the code is.
    """

    allowed: bool
    code: str
    address: str | None
    withdrawn: bool


def judge(evidence: ConsentEvidence | None, address: str | None, now: datetime, policy: Policy) -> Judgement:
    """Judge the source's side, in the order of PRODUCT 3.6; the first reason that applies is the code.

    ``now`` is aware. An evidence time without a zone proves no instant and counts as none.
    """
    if address is None or not address.strip():
        return Judgement(False, NO_ADDRESS, None, _is_withdrawn(evidence, policy))
    normal = normalise_address(address)
    code = (
        _state_code(evidence)
        or _level_code(evidence, policy)
        or _date_code(evidence, now)
        or _address_code(evidence, normal)
        or _sale_code(evidence, policy)
    )
    return Judgement(not code, code, normal.comparable, _is_withdrawn(evidence, policy))


def judge_subject(subject: Subject | None, now: datetime, policy: Policy) -> Judgement:
    """Judge the person a record is about; a record without one is refused as `no_customer` (PRODUCT 3.9)."""
    if subject is None:
        return Judgement(False, NO_CUSTOMER, None, False)
    return judge(subject.consent, subject.address, now, policy)


def _state_code(evidence: ConsentEvidence | None) -> str:
    state = evidence.state if evidence else None
    if state == SUBSCRIBED:
        return ""
    return REFUSING_STATES.get(state, STATE_UNKNOWN) if isinstance(state, str) else STATE_UNKNOWN


def _level_code(evidence: ConsentEvidence | None, policy: Policy) -> str:
    known = evidence is not None and isinstance(evidence.level, str) and evidence.level in policy.levels
    return "" if known else LEVEL_UNKNOWN


def _date_code(evidence: ConsentEvidence | None, now: datetime) -> str:
    if evidence is None or evidence.given_at is None or evidence.given_at.tzinfo is None:
        return NO_DATE
    return DATE_IN_FUTURE if evidence.given_at > now else ""


def _address_code(evidence: ConsentEvidence | None, normal: Address) -> str:
    if evidence is not None and evidence.valid_format is False:
        return MALFORMED_ADDRESS
    return normal.problem or ""


def _sale_code(evidence: ConsentEvidence | None, policy: Policy) -> str:
    return DATA_SALE_OPT_OUT if _refuses_sale(evidence, policy) else ""


def _refuses_sale(evidence: ConsentEvidence | None, policy: Policy) -> bool:
    return evidence is not None and evidence.data_sale_opt_out and policy.refuse_data_sale_opt_out


def _is_withdrawn(evidence: ConsentEvidence | None, policy: Policy) -> bool:
    """An opt-out of data sale is a "no" of the person too, where the workspace chose to heed it."""
    said_no = evidence is not None and isinstance(evidence.state, str) and evidence.state in WITHDRAWN_STATES
    return said_no or _refuses_sale(evidence, policy)


def objection(judgement: Judgement) -> str:
    """The code under which a record's "no" is held against others of its address (PRODUCT 2.7); "" when it says none.

    The same words as for records of one page: a withdrawal, and what the source itself calls not subscribed.
    """
    return judgement.code if judgement.withdrawn or judgement.code in CONSENT_GONE else ""


def says_yes(subject: Subject | None) -> bool:
    """Whether the source says in so many words that this person is subscribed. Only that lifts an earlier "no"."""
    return subject is not None and subject.consent is not None and subject.consent.state == SUBSCRIBED


def must_leave(judgement: Judgement, *, granted: bool) -> bool:
    """Whether the person comes off the list (PRODUCT 3.8).

    Who withdrew leaves always. Whom we put on the list (``granted``) leaves also when the source now says in its own
    known words that it is not subscribed, or has no address of the person any more: erasure looks like that. A word we
    do not know removes nobody: a release of the source that renames one would empty the list for good.
    """
    return judgement.withdrawn or (granted and judgement.code in {*CONSENT_GONE, NO_ADDRESS})


def destination_side(contact: Contact | None, list_id: int | None, *, suppressed: bool) -> str | None:
    """The destination's "no" as a code, None where it has none (PRODUCT 3.6, 3.7). It always wins."""
    if contact is not None and list_id is not None and list_id in contact.left_lists:
        return DESTINATION_UNSUBSCRIBED
    if contact is not None and contact.blocklisted:
        return DESTINATION_BLOCKLISTED
    return SUPPRESSED if suppressed else None


def strictest(judgements: Sequence[Judgement]) -> Judgement:
    """The one that counts for records of one destination object (PRODUCT 2.7). Raises ValueError when there is none.

    A withdrawal before any refusal, a refusal before an acceptance; among refusals the one asked first.
    """
    return min(judgements, key=_leniency)


_RANK: Final = {code: rank for rank, code in enumerate(CODES)}


def _leniency(judgement: Judgement) -> tuple[bool, bool, int]:
    return not judgement.withdrawn, judgement.allowed, _RANK.get(judgement.code, len(CODES))


@lru_cache(maxsize=4096)
def normalise_address(text: str) -> Address:
    """The address trimmed, in lower case, its domain as punycode; or why it cannot be sent (Cases DATA-04, DATA-05).

    `malformed_address` is no address by syntax, or one in a domain that no mail ever reaches (`local`, `invalid`);
    `address_unsupported` is one that the destination cannot take. The names made for trials, `example` and `test`,
    pass. Dots and plus tags stay: they belong to the mailbox's owner. Nothing is looked up.
    """
    trimmed = text.strip()
    if not trimmed:
        return Address(None, NO_ADDRESS)
    plain = _PLAIN.fullmatch(trimmed)
    if plain is not None and _is_plain_domain(plain[2].lower()):
        return Address(trimmed.lower())
    try:
        parsed = email_validator.validate_email(
            trimmed,
            check_deliverability=False,
            globally_deliverable=True,
            test_environment=True,
            allow_smtputf8=True,
            allow_quoted_local=True,
            allow_domain_literal=True,
            allow_display_name=False,
            strict=False,
        )
    except email_validator.EmailNotValidError:
        return Address(None, MALFORMED_ADDRESS)
    return _supported(trimmed, parsed)


_PLAIN: Final = re.compile(r"([A-Za-z0-9_+-]{1,32}(?:\.[A-Za-z0-9_+-]{1,16}){0,2})@([A-Za-z0-9.-]{4,60})")
"""Addresses of which only the domain has to be looked at, and that many people share."""


@lru_cache(maxsize=1024)
def _is_plain_domain(domain: str) -> bool:
    """Whether an address of letters and digits in ``domain`` is one as it stands."""
    try:
        parsed = email_validator.validate_email(
            f"a@{domain}", check_deliverability=False, globally_deliverable=True, test_environment=True
        )
    except email_validator.EmailNotValidError:
        return False
    return parsed.ascii_domain == domain and "." in domain


def _supported(trimmed: str, parsed: email_validator.ValidatedEmail) -> Address:
    local, domain = parsed.local_part, parsed.ascii_domain.lower()
    if domain.startswith("["):
        return Address(None, ADDRESS_UNSUPPORTED)
    if "." not in domain:
        return Address(None, MALFORMED_ADDRESS)
    if trimmed.startswith('"') or not local.isascii() or len(local) > LOCAL_PART_LIMIT:
        return Address(None, ADDRESS_UNSUPPORTED)
    return Address(f"{local.lower()}@{domain}")
