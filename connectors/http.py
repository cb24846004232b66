"""The one HTTP client: deadlines, size and host limits, and one table that says what a failed call means.

Nothing else of Vigil imports an HTTP library. A call ends in exactly one of three ways (PRODUCT 2.4, 4.2, 10.2):

    an Answer            the vendor answered, and the answer is for the connector to read
    a ConnectorError     what it means for the run is decided by `EXCEPTIONS`, `READ_STATUS` and `WRITE_STATUS`
    asyncio.CancelledError

Whether a failed write may have been stored is decided by evidence, not by the name of an exception: the socket notes
whether a byte of the request left the house, and refuses to let one leave after the call's deadline (PRODUCT 3.2).
The library beneath reports a connection that was reset *after* the request as a connect time-out, so its names alone
would turn "may have been stored" into "not sent".
"""

import asyncio
import contextlib
import contextvars
import json as jsonlib
import re
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, NoReturn, cast
from urllib.parse import urlencode, urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from connectors import errors

Transport = httpx.AsyncBaseTransport

BYTE_CAP = 32 * 1024 * 1024
DEPTH_CAP = 64
CONNECT_TIMEOUT = timedelta(seconds=10)
CLOSE_TIMEOUT = timedelta(seconds=1)
KEEP_ALIVE = timedelta(seconds=10)
CONNECTIONS = 32
EXCERPT_LENGTH = 200
SHORTEST_SECRET = 6
LONGEST_WAIT = timedelta(days=7)
LONGEST_WAIT_TEXT = 40
LONGEST_LENGTH_TEXT = 20
DECIMAL_EXPONENT_CAP = 400
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


# --- What a failed call means -----------------------------------------------------------------------------------


class Fate(StrEnum):
    """What an exception says about the request it ended."""

    NOT_SENT = "not_sent"
    IN_DOUBT = "in_doubt"
    GARBLED = "garbled"
    MISUSED = "misused"


EXCEPTIONS: Mapping[type[BaseException], Fate] = {
    httpx.ConnectError: Fate.NOT_SENT,
    httpx.ConnectTimeout: Fate.NOT_SENT,
    httpx.PoolTimeout: Fate.NOT_SENT,
    httpx.ReadTimeout: Fate.IN_DOUBT,
    httpx.WriteTimeout: Fate.IN_DOUBT,
    httpx.ReadError: Fate.IN_DOUBT,
    httpx.WriteError: Fate.IN_DOUBT,
    httpx.CloseError: Fate.IN_DOUBT,
    httpx.ProxyError: Fate.IN_DOUBT,
    httpx.RemoteProtocolError: Fate.IN_DOUBT,
    httpx.LocalProtocolError: Fate.IN_DOUBT,
    httpx.TooManyRedirects: Fate.IN_DOUBT,
    httpx.HTTPStatusError: Fate.IN_DOUBT,
    httpx.TimeoutException: Fate.IN_DOUBT,
    httpx.NetworkError: Fate.IN_DOUBT,
    httpx.ProtocolError: Fate.IN_DOUBT,
    httpx.TransportError: Fate.IN_DOUBT,
    httpx.RequestError: Fate.IN_DOUBT,
    httpx.HTTPError: Fate.IN_DOUBT,
    httpx.StreamConsumed: Fate.IN_DOUBT,
    httpx.StreamClosed: Fate.IN_DOUBT,
    httpx.ResponseNotRead: Fate.IN_DOUBT,
    httpx.RequestNotRead: Fate.IN_DOUBT,
    httpx.StreamError: Fate.IN_DOUBT,
    httpx.CookieConflict: Fate.IN_DOUBT,
    httpx.DecodingError: Fate.GARBLED,
    httpx.UnsupportedProtocol: Fate.MISUSED,
    httpx.InvalidURL: Fate.MISUSED,
    # The transport maps some of these by name and lets the others through as they are; they are looked at first.
    aiohttp.ClientConnectorError: Fate.NOT_SENT,
    aiohttp.ConnectionTimeoutError: Fate.NOT_SENT,
    aiohttp.InvalidURL: Fate.MISUSED,
    aiohttp.NonHttpUrlClientError: Fate.MISUSED,
    aiohttp.ServerTimeoutError: Fate.IN_DOUBT,
    aiohttp.ServerConnectionError: Fate.IN_DOUBT,
    aiohttp.ClientPayloadError: Fate.IN_DOUBT,
    aiohttp.ClientResponseError: Fate.IN_DOUBT,
    aiohttp.ClientConnectionError: Fate.IN_DOUBT,
    aiohttp.ClientError: Fate.IN_DOUBT,
    TimeoutError: Fate.IN_DOUBT,
    OSError: Fate.IN_DOUBT,
}
CAUGHT: tuple[type[Exception], ...] = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.CookieConflict,
    httpx.StreamError,
    aiohttp.ClientError,
    OSError,
)

Raised = tuple[type[errors.ConnectorError], str, str]

READ_STATUS: Mapping[int, Raised] = {
    400: (errors.Refused, "bad_request", "refused the question as malformed"),
    401: (errors.TokenRefused, "token_refused", "refused the token: put a valid one into the connection"),
    402: (errors.Refused, "account_frozen", "has frozen this account for an unpaid bill: its owner must settle it"),
    403: (errors.Refused, "forbidden", "forbids this: check what the token may do"),
    404: (errors.Refused, "not_found", "knows no such address: check shop and version in the connection"),
    408: (errors.Passing, "unavailable", "gave up waiting"),
    423: (errors.Refused, "account_locked", "has locked this account: its owner must ask the vendor"),
    425: (errors.Passing, "too_early", "is not ready for this yet"),
    430: (errors.Refused, "security_rejection", "rejected the call for security reasons: ask the vendor"),
}
WRITE_STATUS: Mapping[int, Raised] = {
    408: (errors.InDoubt, "in_doubt", "gave up waiting; it may have stored the write"),
    425: (errors.Passing, "too_early", "is not ready for this yet; nothing was stored"),
}
OUTAGE_READ: Raised = (errors.Passing, "unavailable", "is out of order")
OUTAGE_WRITE: Raised = (errors.InDoubt, "in_doubt", "is out of order; it may have stored the write")
OTHER_READ: Raised = (errors.Refused, "refused_by_vendor", "refused the question")
ODD_READ: Raised = (errors.Unreadable, "unreadable", "answered with a status that means nothing here")
ODD_WRITE: Raised = (errors.InDoubt, "in_doubt", "answered with a status that means nothing here")


def fate_of(error: BaseException) -> Fate:
    """The table's verdict for ``error``, by its nearest mapped class; the library's own cause is looked at first."""
    for kind in type(_root(error)).__mro__:
        if kind in EXCEPTIONS:
            return EXCEPTIONS[kind]
    return Fate.IN_DOUBT


def _root(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error.__cause__, aiohttp.ClientError) else error


# --- The socket that keeps the deadline -------------------------------------------------------------------------


class DeadlinePassed(OSError):
    """The socket refused to send: the call's deadline had passed (PRODUCT 3.2)."""


class _Call:
    """One call's allowance: until when its bytes may leave, and whether one of the request did."""

    __slots__ = ("by", "connected", "ended", "left")

    def __init__(self, by: float) -> None:
        self.by = by
        self.connected = False
        self.left = False
        self.ended = False

    def let_out(self) -> None:
        # A call that ended well no longer binds its connection, which others use after it. One that failed binds for
        # ever: what is still buffered for it must not leave when the connection is closed.
        if self.ended:
            return
        if time.monotonic() >= self.by:
            raise DeadlinePassed
        self.left = self.left or self.connected


_CALL: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("connectors.http.call", default=None)


class _Socket(socket.socket):
    """Asks the allowance of the call in whose context it sends, before every send: also after the process was stopped
    and continued between the proof of the lease and this line."""

    __slots__ = ()

    def send(self, content: Any, flags: int = 0, /) -> int:
        call = _CALL.get()
        if call is not None:
            call.let_out()
        return super().send(content, flags)

    def sendmsg(self, *arguments: Any) -> int:
        call = _CALL.get()
        if call is not None:
            call.let_out()
        return super().sendmsg(*arguments)


def _socket(address: Any) -> socket.socket:
    family, kind, protocol = address[:3]
    return _Socket(family, kind, protocol)


class _Connector(aiohttp.TCPConnector):
    """Notes when the request itself may start: what a handshake sends before that is not the request."""

    async def connect(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> Any:  # noqa: ASYNC109
        connection = await super().connect(req, traces, timeout)
        call = _CALL.get()
        if call is not None:
            call.connected = True
        return connection


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def _session() -> aiohttp.ClientSession:
    connector = _Connector(
        limit=CONNECTIONS, keepalive_timeout=KEEP_ALIVE.total_seconds(), ssl=_tls(), socket_factory=_socket
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


def wire() -> Transport:
    """The transport for real calls. Cookies, proxies and credentials of the environment are not used."""
    return AiohttpTransport(verify=_tls(), trust_env=False, client=_session)


# --- Bodies -----------------------------------------------------------------------------------------------------

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"[]{}", b"()()")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\ufffd"


def parse_json(body: bytes, *, mend: bool = False) -> Any:
    """The value of a JSON text, read strictly; raises Unreadable with a code, never anything else.

    Strict UTF-8, no NaN or Infinity, no key twice in one object, at most `DEPTH_CAP` deep. A number with a fraction
    or exponent becomes `decimal.Decimal`, every other one an int: never a float. Code ``not_json`` means that the text
    is no JSON or was cut short; the others that it is JSON which cannot be believed.

    Half a character (a lone ``\\ud800``) is JSON all the same, and a name somebody typed can hold one. ``mend`` puts
    U+FFFD in its place, so that one such name does not cost its page; an id or an address with U+FFFD in it is refused
    where ids and addresses are judged.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise errors.Unreadable("The answer is not valid UTF-8.", code="bad_encoding") from None
    if _too_deep(body):
        raise errors.Unreadable(f"The answer is nested deeper than {DEPTH_CAP} levels.", code="too_deep")
    try:
        value = _DECODER.decode(text)
    except ValueError:
        raise errors.Unreadable("The answer is not JSON, or was cut short.", code="not_json") from None
    if _SURROGATE.search(body) is None or _is_whole(value):
        return value
    if not mend:
        raise errors.Unreadable("The answer holds half a character.", code="bad_encoding")
    return _mended(value)


def _is_whole(value: Any) -> bool:
    try:
        jsonlib.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return _HALF.sub(REPLACEMENT, value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return _unique([(_mended(key), _mended(item)) for key, item in value.items()])
    return value


def _too_deep(body: bytes) -> bool:
    if body.count(b"[") + body.count(b"{") <= DEPTH_CAP:
        return False
    brackets = _STRING.sub(b"", body).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(DEPTH_CAP):  # each pass takes the innermost level away
        brackets = brackets.replace(b"()", b"")
    return b"()" in brackets or brackets.count(b"(") > DEPTH_CAP


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise errors.Unreadable("The answer names a key twice.", code="duplicate_key")
    return found


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise errors.Unreadable("The answer holds a number that cannot be held.", code="bad_number") from None
    if not -DECIMAL_EXPONENT_CAP <= number.adjusted() <= DECIMAL_EXPONENT_CAP:
        raise errors.Unreadable("The answer holds a number beyond reason.", code="bad_number")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.Unreadable("The answer holds a number beyond reason.", code="bad_number") from None


def _no_constant(text: str) -> NoReturn:
    raise errors.Unreadable(f"The answer holds {text}, which is no JSON number.", code="bad_number")


_DECODER = jsonlib.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_decimal, parse_int=_whole, parse_constant=_no_constant
)
_ENCODER = jsonlib.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode(value: Any) -> bytes:
    """Compact JSON. A `Decimal` becomes a JSON number with exactly its digits, without passing through a float."""
    try:
        return _ENCODER.encode(value).encode("ascii")
    except TypeError:
        return "".join(_parts(value)).encode("ascii")


def _parts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield "{"
        for position, (key, item) in enumerate(value.items()):
            yield ("," if position else "") + _ENCODER.encode(str(key)) + ":"
            yield from _parts(item)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for position, item in enumerate(value):
            yield "," if position else ""
            yield from _parts(item)
        yield "]"
    elif isinstance(value, Decimal):
        yield _number(value)
    else:
        yield _ENCODER.encode(value)


def _number(value: Decimal) -> str:
    if not value.is_finite() or abs(value.adjusted()) > DECIMAL_EXPONENT_CAP:
        raise ValueError("a number for the wire must be finite and of reasonable size")
    return format(value, "f")


class _Oversized(Exception):
    """The body is larger than the client's cap, on the wire or once unpacked."""


class _Garbled(Exception):
    """The body's encoding is broken or one we did not ask for."""


async def _body(response: httpx.Response, cap: int) -> bytes:
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < LONGEST_LENGTH_TEXT and int(declared) > cap:
        raise _Oversized
    chunks = cast(AsyncIterator[bytes], response.stream)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return await _plain(chunks, cap)
    if encoding == "gzip":
        return await _gunzipped(chunks, cap)
    raise _Garbled


async def _plain(chunks: AsyncIterator[bytes], cap: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > cap:
            raise _Oversized
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _gunzipped(chunks: AsyncIterator[bytes], cap: int) -> bytes:
    unpack = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    room = cap + 1
    async for chunk in chunks:
        try:
            part = unpack.decompress(chunk, room)
        except zlib.error:
            raise _Garbled from None
        room -= len(part)
        if room <= 0:
            raise _Oversized
        parts.append(part)
    if not unpack.eof:
        raise httpx.ReadError("the packed body ended early")
    return b"".join(parts)


# --- Words for people -------------------------------------------------------------------------------------------

_TAGS = re.compile(r"<[^>]*>")
_WITH_AT = re.compile(r"\S*(?:@|%40)\S*", re.IGNORECASE)
_LONG_TOKEN = re.compile(r"[A-Za-z0-9_\-]*(?:[0-9][A-Za-z_\-]|[A-Za-z_\-][0-9])[A-Za-z0-9_\-]{14,}")
_LONG_NUMBER = re.compile(r"\+?\d{7,}")


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """At most `EXCERPT_LENGTH` characters of ``text`` fit for a sentence: no address, token, long number or markup."""
    text = text[: EXCERPT_LENGTH * 20]
    for secret in secrets:
        text = text.replace(secret, "***")
    text = _WITH_AT.sub("***", _TAGS.sub(" ", text))
    text = _LONG_NUMBER.sub("***", _LONG_TOKEN.sub("***", text))
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:EXCERPT_LENGTH]


def asked_wait(value: str | None, *, now: datetime) -> timedelta | None:
    """The wait a header names: seconds (also with a fraction) or an HTTP date, else None; at most `LONGEST_WAIT`."""
    text = (value or "").strip()
    if not text or len(text) > LONGEST_WAIT_TEXT:
        return None
    seconds = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else _seconds_until(text, now)
    return None if seconds is None else timedelta(seconds=min(max(seconds, 0.0), LONGEST_WAIT.total_seconds()))


def _seconds_until(text: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds()


# --- The client -------------------------------------------------------------------------------------------------


class HostRefused(ValueError):
    """An address outside of what the connector declares (PRODUCT 10.2). The sentence names the host only."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the vendor said. ``json`` is None for an empty body, and for an error's body that is no JSON.

    ``excerpt`` is a cleaned piece of an error's body, for a sentence; empty for a success.
    """

    status: int
    headers: Mapping[str, str]
    json: Any
    excerpt: str = ""

    def server_time(self) -> datetime:
        """The vendor's own clock at the answer, from its Date header. Raises Unreadable when it sent none."""
        try:
            then = parsedate_to_datetime(self.headers["date"])
        except (KeyError, ValueError, TypeError, IndexError):
            raise errors.Unreadable("The answer carries no readable date.", code="no_date") from None
        return then.replace(tzinfo=then.tzinfo or UTC).astimezone(UTC)


@dataclass(slots=True)
class Tally:
    """How often one endpoint was called, and how many milliseconds that took altogether."""

    count: int = 0
    milliseconds: float = 0.0


class Client:
    """One long-lived client for one account of one vendor. Belongs to the event loop that first uses it.

    ``allowed_hosts`` are exact names or ``*.example.com`` (one label); every address is held against them before
    anything leaves. Only https is spoken, except with the loopback hosts in ``allow_http_hosts``. ``wait_headers``
    are where this vendor says how long to wait. ``calls`` counts per endpoint label.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        allowed_hosts: Sequence[str],
        allow_http_hosts: Sequence[str] = (),
        transport: Transport | None = None,
        byte_cap: int = BYTE_CAP,
        wait_headers: Sequence[str] = ("retry-after",),
    ) -> None:
        self._base = base_url.rstrip("/")
        self.host = _checked_host(self._base, allowed_hosts, allow_http_hosts)
        self._secrets = tuple(value for value in headers.values() if len(value) >= SHORTEST_SECRET)
        self._headers = httpx.Headers({"accept": "application/json", **headers, "accept-encoding": "gzip, identity"})
        self._headers.setdefault("user-agent", "Vigil")
        self._headers_with_body = httpx.Headers({**self._headers, "content-type": "application/json"})
        self._watched = transport is None
        self._transport = transport or wire()
        self._cap = byte_cap
        self._wait_headers = tuple(wait_headers)
        self._url = lru_cache(maxsize=256)(self._made_url)
        self.calls: dict[str, Tally] = {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        by: float,
        writes: bool,
        label: str | None = None,
        expects: frozenset[int] = frozenset(),
    ) -> Answer:
        """Ask, and wait for the whole answer until ``by`` (a `time.monotonic()` instant); no byte leaves after it.

        ``writes`` chooses the side of the tables. For writes every 4xx but 408, 425 and 429 is given back; for reads
        only what ``expects`` names. ``label`` is the endpoint's name for the counter, without ids.

        Raises Passing (a write was not sent or not stored), Throttled, Refused, Unreadable (reads), InDoubt (writes).
        """
        request = self._request(method, path, params, json, by)
        started = time.perf_counter()
        try:
            status, headers, body = await self._exchange(request, by, writes)
        finally:
            self._count(label or f"{method} /{path.split('/', 2)[1]}", started)
        return self._answer(status, headers, body, writes, expects)

    async def close(self) -> None:
        """Close the connections. The client cannot be used afterwards."""
        await self._transport.aclose()

    def _made_url(self, target: str) -> httpx.URL:
        if not target.startswith("/") or target.startswith("//"):
            raise HostRefused("A path must start with one slash.")
        url = httpx.URL(self._base + target)
        if url.host != self.host:
            raise HostRefused(f"Refused to call {url.host}: the connector declares {self.host}.")
        return url

    def _request(self, method: str, path: str, params: Mapping[str, str] | None, json: Any, by: float) -> httpx.Request:
        url = self._made_url(f"{path}?{urlencode(params)}") if params else self._url(path)
        left = max(by - time.monotonic(), 0.0)
        times = {"connect": min(left, CONNECT_TIMEOUT.total_seconds()), "read": left, "write": left, "pool": left}
        content = b"" if json is None else encode(json)
        request = httpx.Request(
            method,
            url,
            headers=self._headers if json is None else self._headers_with_body,
            stream=httpx.ByteStream(content),
            extensions={"timeout": times},
        )
        request.read()
        return request

    async def _exchange(self, request: httpx.Request, by: float, writes: bool) -> tuple[int, httpx.Headers, bytes]:
        call = _Call(by)
        token = _CALL.set(call)
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + by - time.monotonic()):
                exchanged = await self._sent(request, call)
            call.ended = True
            return exchanged
        except _Oversized:
            raise self._unbelievable("is too large", "oversized", writes) from None
        except _Garbled:
            raise self._unbelievable("is packed in a way that cannot be read", "bad_encoding", writes) from None
        except CAUGHT as error:
            # The library's own message names the address asked for, which may be a person's: it is not passed on.
            raise self._failure(error, call, writes) from None
        finally:
            _CALL.reset(token)

    async def _sent(self, request: httpx.Request, call: _Call) -> tuple[int, httpx.Headers, bytes]:
        if time.monotonic() >= call.by:
            raise httpx.ConnectTimeout("the deadline had passed")
        response = await self._transport.handle_async_request(request)
        try:
            body = await _body(response, self._cap)
        except BaseException:
            await _abandon(response)
            raise
        await response.stream.aclose()  # type: ignore[union-attr]
        return response.status_code, response.headers, body

    def _failure(self, error: Exception, call: _Call, writes: bool) -> errors.ConnectorError:
        fate = self._evident(fate_of(error), call)
        late = time.monotonic() >= call.by
        what = "no answer within the deadline" if late else f"the connection failed ({type(_root(error)).__name__})"
        if fate is Fate.MISUSED:
            return errors.Refused(f"{self.host} cannot be called: its address is not valid.", code="bad_address")
        if fate is Fate.GARBLED:
            return self._unbelievable("is packed in a way that cannot be read", "bad_encoding", writes)
        if not writes:
            return errors.Passing(f"{self.host}: {what}.", code="deadline" if late else None)
        if fate is Fate.NOT_SENT:
            return errors.Passing(f"{self.host}: {what}; nothing was sent.", code="not_sent")
        return errors.InDoubt(f"{self.host}: {what}; it may have stored the write.")

    def _evident(self, fate: Fate, call: _Call) -> Fate:
        """What the socket saw overrules the exception's name, in both directions."""
        if not self._watched or fate not in (Fate.NOT_SENT, Fate.IN_DOUBT):
            return fate
        return Fate.IN_DOUBT if call.left else Fate.NOT_SENT

    def _unbelievable(self, what: str, code: str, writes: bool) -> errors.ConnectorError:
        if writes:
            return errors.InDoubt(f"The answer of {self.host} {what}; the write may have been stored.", code=code)
        return errors.Unreadable(f"The answer of {self.host} {what}; nothing of it was used.", code=code)

    def _answer(
        self, status: int, headers: httpx.Headers, body: bytes, writes: bool, expects: frozenset[int]
    ) -> Answer:
        if 200 <= status < 300:
            return Answer(status, headers, self._value(status, headers, body, writes))
        if 300 <= status < 400:
            raise self._redirected(status, headers)
        excerpt = clean(body[: EXCERPT_LENGTH * 20].decode("utf-8", "replace"), self._secrets)
        if status == 429 or (status == 503 and not writes and self._wait(headers) is not None):
            raise self._throttled(status, headers, excerpt)
        raised = self._raised(status, writes)
        if status in expects or raised is None:
            return Answer(status, headers, _json_or_none(body), excerpt)
        kind, code, words = raised
        raise kind(f"{self.host} answered {status} and {words}{_quoted(excerpt)}.", code=code)

    def _raised(self, status: int, writes: bool) -> Raised | None:
        """The table's row for a status that is no success; None for an answer the connector is to read itself."""
        if status >= 500:
            return OUTAGE_WRITE if writes else OUTAGE_READ
        if status < 400:
            return ODD_WRITE if writes else ODD_READ
        return WRITE_STATUS.get(status) if writes else READ_STATUS.get(status, OTHER_READ)

    def _value(self, status: int, headers: httpx.Headers, body: bytes, writes: bool) -> Any:
        if status in (204, 205):
            return None
        try:
            # What a read answers is people's text. A write's answer is the vendor's own: garbled, it is in doubt.
            return parse_json(body, mend=not writes)
        except errors.Unreadable as error:
            # Markup says what stood in the way; what began as JSON holds people's names, which no message may repeat.
            start = body[: EXCERPT_LENGTH * 20].decode("utf-8", "replace") if body.lstrip().startswith(b"<") else ""
            shown = _quoted(clean(start, self._secrets))
            kind = clean(headers.get("content-type", "no content type"))
            sentence = f"{self.host} answered {status} ({kind}): {error.sentence.rstrip('.')}{shown}."
            if writes:
                raise errors.InDoubt(f"{sentence} It may have stored the write.", code=error.code) from None
            if error.code == "not_json":
                raise errors.Passing(sentence, code="not_json") from None
            raise errors.Unreadable(sentence, code=error.code) from None

    def _redirected(self, status: int, headers: httpx.Headers) -> errors.Refused:
        target = urlsplit(headers.get("location", "")).hostname or self.host
        sentence = f"{self.host} answered {status} and sends callers to {clean(target)}; redirects are not followed."
        return errors.Refused(f"{sentence} Correct the address in the connection.", code="redirected")

    def _throttled(self, status: int, headers: httpx.Headers, excerpt: str) -> errors.Throttled:
        wait = self._wait(headers)
        words = "no time named" if wait is None else f"asks for {wait.total_seconds():g} s"
        sentence = f"{self.host} answered {status}, {words}{_quoted(excerpt)}."
        return errors.Throttled(sentence, wait=wait, code="throttled" if status == 429 else "unavailable")

    def _wait(self, headers: httpx.Headers) -> timedelta | None:
        now = asked_now(headers)
        waits = (asked_wait(headers.get(name), now=now) for name in self._wait_headers)
        return next((wait for wait in waits if wait is not None), None)

    def _count(self, label: str, started: float) -> None:
        tally = self.calls.setdefault(label, Tally())
        tally.count += 1
        tally.milliseconds += (time.perf_counter() - started) * 1000


def asked_now(headers: Mapping[str, str]) -> datetime:
    """The vendor's clock where it sent one, else this host's: a wait until a date is counted on the vendor's."""
    with contextlib.suppress(ValueError, TypeError, IndexError, KeyError):
        then = parsedate_to_datetime(headers["date"])
        return then.replace(tzinfo=then.tzinfo or UTC)
    return datetime.now(UTC)


async def _abandon(response: httpx.Response) -> None:
    """Give the connection up without waiting for a peer that no longer reads."""
    with contextlib.suppress(*CAUGHT):
        async with asyncio.timeout(CLOSE_TIMEOUT.total_seconds()):
            await response.stream.aclose()  # type: ignore[union-attr]


def _json_or_none(body: bytes) -> Any:
    try:
        return parse_json(body, mend=True)
    except errors.Unreadable:
        return None


def _quoted(excerpt: str) -> str:
    return f" ({excerpt})" if excerpt else ""


def _checked_host(base_url: str, allowed: Sequence[str], http_hosts: Sequence[str]) -> str:
    if not LOOPBACK.issuperset(http_hosts):
        raise HostRefused("Only loopback hosts may be called without https.")
    try:
        parts = urlsplit(base_url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise HostRefused("The address is not valid.") from None
    if parts.username is not None or parts.query or parts.fragment:
        raise HostRefused("The address must hold nothing but https:// and a host.")
    if parts.scheme == "http" and host in http_hosts:
        return host
    if parts.scheme != "https" or port not in (None, 443):
        raise HostRefused(f"Only https on its usual port is spoken with {host or 'a vendor'}.")
    if not any(_matches(host, pattern) for pattern in allowed):
        raise HostRefused(f"The host {host or '(none)'} is not one this connector may call.")
    return host


def _matches(host: str, pattern: str) -> bool:
    if not pattern.startswith("*."):
        return host == pattern
    label, _, rest = host.partition(".")
    return rest == pattern[2:] and re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", label) is not None
