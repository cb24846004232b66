"""Brevo as a destination. Every request leaves through `BrevoDestination._call`, which no resubscription passes.

Where a write needs several calls, only the call that stores can be in doubt; a read that failed means that nothing
was stored, and the write is tried again later (PRODUCT 2.4).
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from connectors import errors, http, protocol
from connectors.brevo import payloads
from connectors.protocol import EffectKind, Landing, Receipt

KIND: Final = "brevo"
URL = "https://api.brevo.com"
ALLOWED_HOSTS = ("api.brevo.com",)
WAIT_HEADERS = ("x-sib-ratelimit-reset", "retry-after")
READ_DEADLINE = timedelta(seconds=30)
CALL_DEADLINE = timedelta(seconds=30)
ORDER_DEADLINE = timedelta(seconds=60)
EVENT_SETTLE = timedelta(seconds=5)
LOOK_TTL = timedelta(seconds=30)
LOOKS_AT_ONCE = 10
LOOKS_KEPT = 10_000
ORDER_BATCH = 100
HISTORY_CALLS = 20
BATCH_REFUSED = "batch_refused"
READ_BACK_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
READ_BACK_LONGEST = 3.2
# 408, 425 and 429 keep their meaning of "later".
CLIENT_ERRORS = frozenset(range(400, 500)) - {408, 425, 429}

# The words of metadata.duplicate_identifiers, in lower case.
ALREADY_THERE = "email"
PHONE = "sms"
EXTERNAL = "ext_id"


def client(api_key: str, *, base_url: str | None = None, transport: http.Transport | None = None) -> http.Client:
    """The client for one account; ``base_url`` stands in for https://api.brevo.com on loopback (the sandbox)."""
    return http.Client(
        base_url or URL,
        {"api-key": api_key},
        allowed_hosts=ALLOWED_HOSTS,
        allow_http_hosts=tuple(http.LOOPBACK) if base_url else (),
        transport=transport,
        wait_headers=WAIT_HEADERS,
    )


def traits(event_settle: timedelta = EVENT_SETTLE) -> Mapping[EffectKind, protocol.EffectTraits]:
    """How Brevo takes each kind of effect; ``event_settle`` is how long its own list of events may lag."""
    contact = protocol.EffectTraits(
        batch=1, concurrency=10, deadline=CALL_DEADLINE, idempotent=True, settle=timedelta(0), looks=False
    )
    return MappingProxyType(
        {
            EffectKind.CONTACT: contact,
            EffectKind.WITHDRAWAL: contact,
            EffectKind.ORDER: replace(contact, batch=ORDER_BATCH, concurrency=2, deadline=ORDER_DEADLINE, looks=True),
            EffectKind.EVENT: replace(contact, idempotent=False, settle=event_settle, looks=True),
        }
    )


@dataclass(frozen=True, slots=True)
class _Looked:
    """A contact as it was seen at a monotonic instant."""

    contact: protocol.Contact | None
    at: float


class _Refusal(Exception):
    """Ends one write with a receipt from deep inside."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__()
        self.receipt = receipt


class BrevoDestination:
    """One Brevo account through one client. See `protocol.Destination` for what each method promises."""

    def __init__(self, client: http.Client, *, event_settle: timedelta = EVENT_SETTLE) -> None:
        self.kind: str = KIND
        self.traits = traits(event_settle)
        self._client = client
        self._looked: dict[str, _Looked] = {}

    # -- asking ------------------------------------------------------------------------------------------------------

    async def identify(self) -> protocol.Identity:
        answer = await self._read(payloads.Request("GET", f"{payloads.BASE}/account", "GET /account"))
        account = answer.json if isinstance(answer.json, Mapping) else {}
        company = account.get("companyName")
        if not isinstance(company, str):
            raise errors.Unreadable("Brevo's answer names no account. Nothing of it was used.")
        return protocol.Identity(
            account=_account_id(account), label=company, scopes=("account:read",), server_time=answer.server_time()
        )

    async def attributes(self) -> Mapping[str, str]:
        path = f"{payloads.BASE}/contacts/attributes"
        answer = await self._read(payloads.Request("GET", path, "GET /contacts/attributes"))
        listed = answer.json.get("attributes") if isinstance(answer.json, Mapping) else None
        if not isinstance(listed, list):
            raise errors.Unreadable("Brevo's answer holds no list of attributes. Nothing of it was used.")
        named = (item for item in listed if isinstance(item, Mapping) and "name" in item)
        return {str(item["name"]): _attribute_type(item) for item in named}

    async def list_name(self, list_id: int) -> str | None:
        answer = await self._read(_get_list(list_id), expects=frozenset({404}))
        if answer.status == 404:
            return None
        return str(answer.json.get("name", "")) if isinstance(answer.json, Mapping) else ""

    async def look(self, subject_ids: Sequence[str]) -> Mapping[str, protocol.Contact | None]:
        return await self._look_all(subject_ids, self._look_subject)

    async def look_address(self, addresses: Sequence[str]) -> Mapping[str, protocol.Contact | None]:
        return await self._look_all(addresses, lambda address: self._look_one(address, "email_id"))

    async def find(self, doubts: Sequence[protocol.Doubt], *, by: float) -> frozenset[str]:
        """One windowed read per event name. Raises Passing and the like: then nothing is known about any of them."""
        found: set[str] = set()
        names = sorted({doubt.event_name for doubt in doubts})
        for name in names:
            found |= await self._found([doubt for doubt in doubts if doubt.event_name == name], name, by)
        return frozenset(found)

    async def close(self) -> None:
        await self._client.close()

    # -- writing -----------------------------------------------------------------------------------------------------

    async def write(self, writes: Sequence[protocol.Write], *, by: float) -> Sequence[Receipt]:
        if not writes:
            return ()
        kind = writes[0].kind
        if any(write.kind is not kind for write in writes) or len(writes) > self.traits[kind].batch:
            raise ValueError("write takes writes of one kind, at most as many as the traits say")
        if kind is EffectKind.WITHDRAWAL and writes[0].list_id is None:
            raise ValueError("a withdrawal names the list it takes somebody off")
        if kind is EffectKind.ORDER:
            return await self._write_orders(writes, by)
        return (await self._settled(writes[0], self._one[kind](self, writes[0], by)),)

    async def _settled(self, write: protocol.Write, writing: Awaitable[Receipt]) -> Receipt:
        """The receipt of one write, whatever way it ended but a refusal of the run."""
        try:
            return await writing
        except _Refusal as ended:
            return ended.receipt
        except errors.Refused:
            raise
        except errors.ConnectorError as error:
            return _receipt_of(error, write)
        finally:
            self._forget(write)

    async def _write_contact(self, write: protocol.Write, by: float) -> Receipt:
        if write.known:
            return await self._update(write, await self._held(payloads.get_known(write), write, by), by)
        answer = await self._call(payloads.create_contact(write), by, writes=True)
        if answer.status == 201:
            return _landed(write, _made_id(answer.json), grants=write.list_id is not None)
        if answer.status < 400:
            raise _unexpected(answer)
        owner = _owner_request(write, _duplicates(answer.json))
        if owner is None:
            raise await self._refusal(answer, write, by)
        return await self._update(write, await self._held(owner, write, by), by)

    async def _update(self, write: protocol.Write, held: payloads.Held, by: float) -> Receipt:
        _check_side(write, held)
        contact = held.contact
        grant = payloads.may_grant(write, contact)
        request = payloads.update_contact(write, contact, grant=grant)
        if request is not None:
            await self._put_surely(request, write, contact, by)
        member = write.list_id is not None and write.list_id in contact.lists
        receipt = _landed(write, contact.id, grants=grant or (member and write.granted_at is None))
        if write.list_id is None or grant or member:
            return receipt
        sentence = "Somebody took this person off the list at Brevo; the attributes were updated, the list was not."
        return replace(receipt, code="left_off_list", sentence=sentence)

    async def _put_surely(
        self, request: payloads.Request, write: protocol.Write, contact: protocol.Contact, by: float
    ) -> None:
        """As `_put`. Whom a call was about is told even when its answer is lost: a contact that another system made
        does not bear our id, and could not be found again to be taken off the list."""
        try:
            await self._put(request, write, contact, by)
        except errors.InDoubt as error:
            raise _Refusal(replace(_receipt_of(error, write), destination_id=contact.id)) from None

    async def _put(
        self, request: payloads.Request, write: protocol.Write, contact: protocol.Contact, by: float
    ) -> None:
        answer = await self._call(request, by, writes=True)
        if answer.status == 204:
            return
        if answer.status < 400:
            raise _unexpected(answer)
        if answer.status == 404:
            raise _Refusal(_gone(write))
        if _duplicates(answer.json) & {EXTERNAL, ALREADY_THERE}:
            raise _Refusal(_address_changed(write, contact.id))
        raise await self._refusal(answer, write, by)

    async def _held(self, request: payloads.Request, write: protocol.Write, by: float) -> payloads.Held:
        """The contact a write is about; a refusal when Brevo holds nobody."""
        answer = await self._call(request, by, writes=False, expects=frozenset({404}))
        if answer.status != 404:
            return payloads.contact(answer.json)
        if write.known:
            raise _Refusal(_gone(write))
        raise errors.Passing(
            "Brevo called this contact a duplicate and then held none; it is tried again.", code="contact_raced"
        )

    async def _withdraw(self, write: protocol.Write, by: float) -> Receipt:
        answer = await self._call(payloads.take_off_list(write), by, writes=True)
        if answer.status == 201 and _taken_off(answer.json):
            return _landed(write, write.destination_id)
        if answer.status >= 400:
            refusal = await self._refusal(answer, write, by)
            if isinstance(refusal, errors.Refused):
                raise refusal
        return await self._withdrawn(write, by)

    async def _withdrawn(self, write: protocol.Write, by: float) -> Receipt:
        """What Brevo holds decides where its answer does not: it says the same of a stranger and of a non-member."""
        answer = await self._call(payloads.get_known(write), by, writes=False, expects=frozenset({404}))
        if answer.status == 404:
            return replace(_landed(write, write.destination_id), suppress=write.known)
        contact = payloads.contact(answer.json).contact
        if write.list_id not in contact.lists:
            return _landed(write, contact.id)
        raise errors.Passing("Brevo did not take this person off the list; it is tried again.", code="still_on_list")

    async def _write_event(self, write: protocol.Write, by: float) -> Receipt:
        return await self._stored(payloads.post_event(write), write, by)

    async def _stored(self, request: payloads.Request, write: protocol.Write, by: float) -> Receipt:
        """The receipt of a call that answers 204 and nothing else when it stored."""
        answer = await self._call(request, by, writes=True)
        if answer.status >= 400:
            raise await self._refusal(answer, write, by)
        if answer.status != 204:
            raise _unexpected(answer)
        return _landed(write, write.destination_id)

    _one: Mapping[EffectKind, Callable[["BrevoDestination", protocol.Write, float], Awaitable[Receipt]]] = (
        MappingProxyType(
            {EffectKind.CONTACT: _write_contact, EffectKind.WITHDRAWAL: _withdraw, EffectKind.EVENT: _write_event}
        )
    )

    # -- orders ------------------------------------------------------------------------------------------------------

    async def _write_orders(self, writes: Sequence[protocol.Write], by: float) -> Sequence[Receipt]:
        """History in one batch, then the live ones singly; what a refusal leaves undone is told as not stored."""
        receipts: dict[str, Receipt] = {}
        history = [write for write in writes if write.history]
        try:
            if history:
                receipts |= _with_progress(await self._write_history(history, by, [HISTORY_CALLS]))
            for write in writes:
                if not write.history:
                    receipts[write.effect_key] = await self._live_order(write, by)
        except errors.Refused as refusal:
            if not receipts:
                raise
            return [receipts.get(write.effect_key) or _not_stored(refusal, write) for write in writes]
        except errors.Passing as pause:
            return [receipts.get(write.effect_key) or _receipt_of(pause, write) for write in writes]
        return [receipts[write.effect_key] for write in writes]

    async def _live_order(self, write: protocol.Write, by: float) -> Receipt:
        """One order; a pause the vendor asks for is raised, since the next order would meet it too."""
        try:
            return await self._stored(payloads.post_order(write), write, by)
        except (errors.Refused, errors.Passing):
            raise
        except errors.ConnectorError as error:
            return _receipt_of(error, write)

    async def _write_history(
        self, writes: Sequence[protocol.Write], by: float, calls_left: list[int]
    ) -> dict[str, Receipt]:
        """One batch, halved while Brevo refuses it as a whole: one bad order must not stop its neighbours."""
        if calls_left[0] <= 0:
            return {write.effect_key: _refused_with_others(write) for write in writes}
        calls_left[0] -= 1
        try:
            await self._post_history(writes, by)
        except errors.Rejected as error:
            if len(writes) == 1:
                return {writes[0].effect_key: _receipt_of(error, writes[0])}
            middle = len(writes) // 2
            first = await self._write_history(writes[:middle], by, calls_left)
            return first | await self._second_half(writes[middle:], by, calls_left)
        except errors.InDoubt as error:
            return {write.effect_key: _receipt_of(error, write) for write in writes}
        return await self._read_back(writes, by)

    async def _second_half(
        self, writes: Sequence[protocol.Write], by: float, calls_left: list[int]
    ) -> dict[str, Receipt]:
        """As `_write_history`; what the first half stored must not be lost over a refusal or a pause here."""
        try:
            return await self._write_history(writes, by, calls_left)
        except (errors.Refused, errors.Passing) as error:
            return {write.effect_key: _not_stored(error, write) for write in writes}

    async def _post_history(self, writes: Sequence[protocol.Write], by: float) -> None:
        answer = await self._call(payloads.post_history(writes), by, writes=True)
        if answer.status >= 400:
            raise await self._refusal(answer, writes[0], by)
        if answer.status != 202:
            raise _unexpected(answer)

    async def _read_back(self, writes: Sequence[protocol.Write], by: float) -> dict[str, Receipt]:
        """202 says "accepted", not "stored": an order has landed once Brevo shows it as we sent it (PRODUCT 2.8)."""
        open_writes = {payloads.order_id(write): write for write in writes}
        for pause in _pauses():
            if time.monotonic() + pause >= by:
                break
            await asyncio.sleep(pause)
            try:
                await self._strike_off(open_writes, by)
            except (errors.Passing, errors.Refused, errors.Unreadable):
                break
            if not open_writes:
                break
        waiting = {write.effect_key for write in open_writes.values()}
        return {
            write.effect_key: _unconfirmed(write) if write.effect_key in waiting else _landed(write, None)
            for write in writes
        }

    async def _strike_off(self, open_writes: dict[str, protocol.Write], by: float) -> None:
        """Take out of ``open_writes`` what Brevo shows, page by page until it has no more."""
        since = min(payloads.updated_at(write) for write in open_writes.values())
        offset = 0
        while open_writes:
            answer = await self._call(payloads.get_orders(since, offset), by, writes=False)
            seen = payloads.orders_seen(answer.json)
            for order_id, updated_at in seen:
                write = open_writes.get(order_id)
                if write is not None and updated_at >= payloads.updated_at(write):
                    del open_writes[order_id]
            if len(seen) < payloads.READ_BACK_LIMIT:
                return
            offset += len(seen)

    # -- the wire ----------------------------------------------------------------------------------------------------

    async def _call(
        self, request: payloads.Request, by: float, *, writes: bool, expects: frozenset[int] = frozenset()
    ) -> http.Answer:
        """The one way out. A read's refusals are raised here; a write's 4xx are for the caller to read."""
        payloads.refuse_resubscription(request.method, request.path, request.params, request.body)
        answer = await self._client.request(
            request.method,
            request.path,
            json=request.body,
            params=request.params or None,
            by=by,
            writes=writes,
            label=request.label,
            expects=frozenset() if writes else CLIENT_ERRORS,
        )
        if not writes and answer.status >= 400 and answer.status not in expects:
            raise _refused_run(answer) or errors.Refused(
                f"Brevo answered {answer.status} to a question ({answer.excerpt}).", code="bad_request"
            )
        return answer

    async def _read(self, request: payloads.Request, expects: frozenset[int] = frozenset()) -> http.Answer:
        by = time.monotonic() + READ_DEADLINE.total_seconds()
        return await self._call(request, by, writes=False, expects=expects)

    async def _refusal(self, answer: http.Answer, write: protocol.Write, by: float) -> errors.ConnectorError:
        """What a write's 4xx means: the run's end, or the record's."""
        refused = _refused_run(answer)
        if refused is not None:
            return refused
        if write.list_id is not None and await self._list_is_missing(answer, write.list_id, by):
            return errors.Refused(
                f"The list {write.list_id} does not exist at Brevo any more: choose another one and publish again.",
                code="list_missing",
            )
        if PHONE in _duplicates(answer.json):
            return errors.Rejected(
                "Brevo refuses the phone number: it belongs to another contact.", code="phone_belongs_to_another"
            )
        return errors.Rejected(f"Brevo answered {answer.status}: {answer.excerpt or 'no reason given'}.")

    async def _list_is_missing(self, answer: http.Answer, list_id: int, by: float) -> bool:
        """Whether a refusal that speaks of a list is about ours being gone: asked, not guessed from the words."""
        if answer.status != 404 and not re.search(r"\blist", answer.excerpt, re.IGNORECASE):
            return False
        found = await self._call(_get_list(list_id), by, writes=False, expects=frozenset({404}))
        return found.status == 404

    # -- what was seen -----------------------------------------------------------------------------------------------

    async def _look_all(
        self, names: Sequence[str], look: Callable[[str], Awaitable[protocol.Contact | None]]
    ) -> Mapping[str, protocol.Contact | None]:
        wanted = list(dict.fromkeys(names))
        found: dict[str, protocol.Contact | None] = {}
        for start in range(0, len(wanted), LOOKS_AT_ONCE):
            group = wanted[start : start + LOOKS_AT_ONCE]
            found |= zip(group, await _together(look(name) for name in group), strict=True)
        return found

    async def _look_subject(self, subject_id: str) -> protocol.Contact | None:
        """As `_look_one`, kept for a while. Only by the id that every write of ours names, so that each can forget it:
        a withdrawal names no address."""
        seen = self._looked.get(subject_id)
        asked_at = time.monotonic()
        if seen is not None and asked_at - seen.at < LOOK_TTL.total_seconds():
            return seen.contact
        contact = await self._look_one(subject_id, "ext_id")
        if len(self._looked) >= LOOKS_KEPT:
            self._looked.clear()
        self._looked[subject_id] = _Looked(contact, asked_at)
        return contact

    async def _look_one(self, name: str, kind: str) -> protocol.Contact | None:
        answer = await self._read(payloads.get_contact(name, kind), expects=frozenset({404}))
        return None if answer.status == 404 else payloads.contact(answer.json).contact

    def _forget(self, write: protocol.Write) -> None:
        """What was seen of a contact before a write of ours to it is no longer what Brevo holds."""
        if write.kind in (EffectKind.CONTACT, EffectKind.WITHDRAWAL):
            self._looked.pop(write.subject_id, None)

    async def _found(self, doubts: Sequence[protocol.Doubt], name: str, by: float) -> set[str]:
        wanted = {doubt.effect_key for doubt in doubts}
        found: set[str] = set()
        offset = 0
        while found != wanted:
            answer = await self._call(payloads.get_events(name, doubts, offset), by, writes=False)
            seen = payloads.events_seen(answer.json)
            found |= wanted & set(seen)
            if len(seen) < payloads.EVENTS_LIMIT:
                break
            offset += len(seen)
        return found


# --- Reading answers --------------------------------------------------------------------------------------------


def _get_list(list_id: int) -> payloads.Request:
    return payloads.Request("GET", f"{payloads.BASE}/contacts/lists/{list_id}", "GET /contacts/lists/{id}")


def _account_id(account: Mapping[str, Any]) -> str:
    """Brevo's id of the organisation; where it sends none, a hash of the owner's address."""
    organization = account.get("organization_id")
    if organization:
        return str(organization)
    email = account.get("email")
    if not isinstance(email, str):
        raise errors.Unreadable("Brevo's answer names no account. Nothing of it was used.")
    return hashlib.sha256(email.strip().lower().encode()).hexdigest()


def _attribute_type(item: Mapping[str, Any]) -> str:
    if item.get("category") == "category":
        return "category"
    return str(item.get("type") or item.get("category") or "")


def _duplicates(body: Any) -> frozenset[str]:
    """The identifiers another contact holds already, in lower case; the error's code says it only sometimes."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    listed = metadata.get("duplicate_identifiers") if isinstance(metadata, Mapping) else None
    return frozenset(str(item).lower() for item in listed) if isinstance(listed, list) else frozenset()


def _owner_request(write: protocol.Write, duplicates: frozenset[str]) -> payloads.Request | None:
    """How to read the contact that a refused create collided with."""
    if EXTERNAL in duplicates:
        return payloads.get_contact(write.subject_id, "ext_id")
    if ALREADY_THERE in duplicates and write.address is not None:
        return payloads.get_contact(write.address, "email_id")
    return None


def _made_id(body: Any) -> str:
    made = body.get("id") if isinstance(body, Mapping) else None
    if not isinstance(made, int) or isinstance(made, bool):
        raise errors.InDoubt("Brevo says that it created the contact and names no id.", code="unexpected_answer")
    return str(made)


def _taken_off(body: Any) -> bool:
    contacts = body.get("contacts") if isinstance(body, Mapping) else None
    return isinstance(contacts, Mapping) and bool(contacts.get("success")) and not contacts.get("failure")


def _refused_run(answer: http.Answer) -> errors.Refused | None:
    """The refusals that concern every record alike, and end the run."""
    if answer.status == 401:
        if "unrecognised ip address" in _message(answer).lower():
            return errors.TokenRefused(
                "Brevo does not accept this server's IP address: add it to the authorised IPs of the account, "
                "or switch that check off, at Brevo under security.",
                code="ip_refused",
            )
        return errors.TokenRefused("Brevo refuses the API key: put a valid one into the connection.")
    row = _RUN_STATUS.get(answer.status)
    return None if row is None else errors.Refused(f"{row[1]} ({answer.excerpt or answer.status}).", code=row[0])


_RUN_STATUS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        402: ("plan_limit", "The Brevo account has reached a limit of its plan: credits or billing need attention"),
        403: ("permission_denied", "The API key may not do this: give it read and write for this resource"),
        405: ("not_supported", "Brevo does not offer this call any more"),
        406: ("not_supported", "Brevo does not accept the form of this call"),
        410: ("not_supported", "Brevo does not offer this call any more"),
        415: ("not_supported", "Brevo does not accept the form of this call"),
    }
)


def _message(answer: http.Answer) -> str:
    return str(answer.json.get("message", "")) if isinstance(answer.json, Mapping) else ""


def _unexpected(answer: http.Answer) -> errors.InDoubt:
    return errors.InDoubt(
        f"Brevo answered {answer.status}, which says neither stored nor refused.", code="unexpected_answer"
    )


# --- Receipts ---------------------------------------------------------------------------------------------------


def _landed(write: protocol.Write, destination_id: str | None, *, grants: bool = False) -> Receipt:
    return Receipt(write.effect_key, Landing.LANDED, destination_id=destination_id, grants=grants)


def _check_side(write: protocol.Write, held: payloads.Held) -> None:
    """Brevo's "no" wins (PRODUCT 3.7), judged in the order of PRODUCT 3.6."""
    contact = held.contact
    if write.list_id is not None and write.list_id in contact.left_lists:
        sentence = "This person has unsubscribed from the list at Brevo."
        raise _Refusal(_refused(write, "destination_unsubscribed", sentence, contact.id))
    if contact.blocklisted:
        sentence = "This person is on Brevo's blocklist."
        raise _Refusal(_refused(write, "destination_blocklisted", sentence, contact.id))
    if write.address is None or held.email != write.address.lower():
        raise _Refusal(_address_changed(write, contact.id))


def _refused(write: protocol.Write, code: str, sentence: str, destination_id: str | None) -> Receipt:
    return Receipt(write.effect_key, Landing.REFUSED, code, sentence, destination_id)


def _address_changed(write: protocol.Write, destination_id: str | None) -> Receipt:
    sentence = "Brevo holds this person under another address; changing it there could subscribe them again."
    return _refused(write, "address_changed", sentence, destination_id)


def _gone(write: protocol.Write) -> Receipt:
    sentence = "This person was deleted at Brevo after we delivered them, and is not created again."
    return replace(_refused(write, "suppressed", sentence, write.destination_id), suppress=True)


def _receipt_of(error: errors.ConnectorError, write: protocol.Write) -> Receipt:
    """The table from the error of one write to its receipt."""
    landing = Landing.PASSING
    if isinstance(error, errors.InDoubt):
        landing = Landing.IN_DOUBT
    elif isinstance(error, errors.Rejected):
        landing = Landing.REJECTED
    wait = error.wait if isinstance(error, errors.Throttled) else None
    return Receipt(write.effect_key, landing, error.code, error.sentence, write.destination_id, wait)


def _not_stored(error: errors.ConnectorError, write: protocol.Write) -> Receipt:
    return replace(_receipt_of(error, write), landing=Landing.PASSING)


def _refused_with_others(write: protocol.Write) -> Receipt:
    sentence = "Brevo refused a batch with this order in it, and too many others to find out which one is at fault."
    return Receipt(write.effect_key, Landing.REJECTED, BATCH_REFUSED, sentence)


def _with_progress(receipts: dict[str, Receipt]) -> dict[str, Receipt]:
    """Orders nobody tried on their own are tried again later, if others of the batch were taken: then they are fewer.
    If none was, the fault is likelier one of all, and all are told as rejected (PRODUCT 4.2)."""
    if all(receipt.landing is Landing.REJECTED for receipt in receipts.values()):
        return receipts
    return {
        key: replace(receipt, landing=Landing.PASSING) if receipt.code == BATCH_REFUSED else receipt
        for key, receipt in receipts.items()
    }


def _unconfirmed(write: protocol.Write) -> Receipt:
    sentence = "Brevo accepted the order and does not show it yet."
    return Receipt(write.effect_key, Landing.IN_DOUBT, "unconfirmed", sentence)


def _pauses() -> Iterable[float]:
    yield from READ_BACK_WAITS
    while True:
        yield READ_BACK_LONGEST


async def _together(asking: Iterable[Awaitable[Any]]) -> list[Any]:
    """All answers, in order; on the first error the others are given up."""
    tasks = [asyncio.ensure_future(one) for one in asking]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
