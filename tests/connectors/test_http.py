"""What a call may do, and what its failure means."""

import asyncio
import gzip
import inspect
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from connectors import errors, http
from connectors.http import Fate

NOW = datetime(2026, 10, 12, 10, 0, tzinfo=UTC)
SHARED = Path(__file__).resolve().parents[3] / "shared"
SECRET = "xkeysib-0123456789abcdef"


def client(handler: Callable[[httpx.Request], Any], **options: Any) -> http.Client:
    return http.Client(
        "https://api.example.com",
        {"api-key": SECRET},
        allowed_hosts=("api.example.com",),
        transport=httpx.MockTransport(handler),
        **options,
    )


def answering(status: int, body: Any = b"", **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx.Response(status, content=content, headers=named)


def ask(client_: http.Client, *, writes: bool = False, seconds: float = 5.0, **options: Any) -> http.Answer:
    async def asked() -> http.Answer:
        try:
            method = options.pop("method", "POST" if writes else "GET")
            by = time.monotonic() + seconds
            return await client_.request(method, options.pop("path", "/v3/things"), by=by, writes=writes, **options)
        finally:
            await client_.close()

    return asyncio.run(asked())


def failing(client_: http.Client, **options: Any) -> errors.ConnectorError:
    with pytest.raises(errors.ConnectorError) as caught:
        ask(client_, **options)
    return caught.value


# --- the table of exceptions ------------------------------------------------------------------------------------


def defined_exceptions(module: Any) -> list[type[Exception]]:
    found = [value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert len(found) > 15
    return found


NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout"}
IN_DOUBT = {"ReadTimeout", "WriteTimeout", "ReadError", "WriteError", "RemoteProtocolError"}


def test_every_exception_of_the_library_is_in_the_table() -> None:
    unmapped = {kind.__name__ for kind in defined_exceptions(httpx) if kind not in http.EXCEPTIONS}

    assert unmapped == set()


def test_every_exception_of_the_library_is_caught() -> None:
    assert [kind for kind in defined_exceptions(httpx) if not issubclass(kind, http.CAUGHT)] == []


def test_every_client_exception_of_the_transport_is_mapped_and_caught() -> None:
    kinds = [kind for kind in defined_exceptions(aiohttp) if issubclass(kind, aiohttp.ClientError)]

    assert len(kinds) > 15
    assert [kind for kind in kinds if not issubclass(kind, http.CAUGHT)] == []
    assert [kind for kind in kinds if not any(base in http.EXCEPTIONS for base in kind.__mro__)] == []


@pytest.mark.parametrize("name", sorted(NOT_SENT))
def test_what_never_connected_was_not_sent(name: str) -> None:
    assert http.fate_of(getattr(httpx, name)("x")) is Fate.NOT_SENT


@pytest.mark.parametrize("name", sorted(IN_DOUBT))
def test_what_broke_after_connecting_is_in_doubt(name: str) -> None:
    assert http.fate_of(getattr(httpx, name)("x")) is Fate.IN_DOUBT


def test_nothing_but_a_missing_connection_counts_as_not_sent() -> None:
    """A class added to the table as not sent must be named here."""
    not_sent = {kind.__name__ for kind, fate in http.EXCEPTIONS.items() if fate is Fate.NOT_SENT}

    assert not_sent == NOT_SENT | {"ClientConnectorError", "ConnectionTimeoutError"}


def test_a_lost_connection_dressed_up_as_a_connect_timeout_is_in_doubt() -> None:
    """The transport gives `ConnectTimeout` for a server that hung up after it had read the request."""
    dressed = httpx.ConnectTimeout("x")
    dressed.__cause__ = aiohttp.ServerDisconnectedError()

    assert http.fate_of(dressed) is Fate.IN_DOUBT


EXCEPTION_OUTCOMES = [
    (kind, {Fate.NOT_SENT: errors.Passing, Fate.MISUSED: errors.Refused}.get(fate, errors.InDoubt))
    for kind, fate in http.EXCEPTIONS.items()
    if kind.__module__.startswith("httpx")
]


def raised(kind: type[BaseException]) -> BaseException:
    if kind is httpx.HTTPStatusError:
        request = httpx.Request("GET", "https://api.example.com")
        return httpx.HTTPStatusError("x", request=request, response=httpx.Response(500))
    takes_none = kind in (httpx.StreamConsumed, httpx.StreamClosed, httpx.ResponseNotRead, httpx.RequestNotRead)
    return kind() if takes_none else kind("anna@example.com")


@pytest.mark.parametrize(("kind", "expected"), EXCEPTION_OUTCOMES, ids=lambda value: value.__name__)
def test_a_write_that_raises_ends_as_its_row_says(kind: type[BaseException], expected: type[Exception]) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise raised(kind)

    error = failing(client(handler), writes=True, json={})

    assert type(error) is expected
    assert "anna" not in str(error)


@pytest.mark.parametrize(("kind", "expected"), EXCEPTION_OUTCOMES, ids=lambda value: value.__name__)
def test_a_read_that_raises_is_never_in_doubt(kind: type[BaseException], expected: type[Exception]) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise raised(kind)

    error = failing(client(handler))

    wanted = {httpx.DecodingError: errors.Unreadable}.get(kind, errors.Passing)
    assert type(error) is (errors.Refused if expected is errors.Refused else wanted)


# --- the tables of statuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, errors.Refused, "bad_request"),
        (401, errors.TokenRefused, "token_refused"),
        (402, errors.Refused, "account_frozen"),
        (403, errors.Refused, "forbidden"),
        (404, errors.Refused, "not_found"),
        (408, errors.Passing, "unavailable"),
        (409, errors.Refused, "refused_by_vendor"),
        (423, errors.Refused, "account_locked"),
        (425, errors.Passing, "too_early"),
        (429, errors.Throttled, "throttled"),
        (430, errors.Refused, "security_rejection"),
        (500, errors.Passing, "unavailable"),
        (502, errors.Passing, "unavailable"),
        (503, errors.Passing, "unavailable"),
        (530, errors.Passing, "unavailable"),
        (540, errors.Passing, "unavailable"),
    ],
)
def test_a_read_ends_as_its_status_says(status: int, kind: type[Exception], code: str) -> None:
    error = failing(client(answering(status, {"errors": "Not now"})))

    assert (type(error), error.code) == (kind, code)
    assert str(status) in error.sentence


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (408, errors.InDoubt),
        (425, errors.Passing),
        (429, errors.Throttled),
        (500, errors.InDoubt),
        (502, errors.InDoubt),
        (503, errors.InDoubt),
        (504, errors.InDoubt),
        (307, errors.Refused),
    ],
)
def test_a_write_ends_as_its_status_says(status: int, kind: type[Exception]) -> None:
    assert type(failing(client(answering(status, b"<html>")), writes=True, json={})) is kind


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 422, 451])
def test_a_refused_write_is_given_back_to_the_connector(status: int) -> None:
    answer = ask(client(answering(status, {"code": "x"})), writes=True, json={})

    assert (answer.status, answer.json) == (status, {"code": "x"})


def test_a_read_gives_back_the_statuses_it_expects() -> None:
    answer = ask(client(answering(404, {"code": "document_not_found"})), expects=frozenset({404}))

    assert (answer.status, answer.json) == (404, {"code": "document_not_found"})


BODIES = [(502, b"<html><title>Bad gateway</title></html>"), (200, b"<html>Soon</html>"), (200, b"<!DOCTYPE html>")]


@pytest.mark.parametrize(("status", "body"), [*BODIES, (200, b"")])
def test_a_page_that_is_no_json_is_tried_again_by_a_read(status: int, body: bytes) -> None:
    """Case HTTP-04."""
    error = failing(client(answering(status, body, content_type="text/html")))

    assert type(error) is errors.Passing
    assert str(status) in error.sentence


@pytest.mark.parametrize(("status", "body"), [*BODIES, (200, b""), (201, b"")])
def test_a_write_whose_answer_is_no_json_is_in_doubt(status: int, body: bytes) -> None:
    """Case HTTP-04."""
    error = failing(client(answering(status, body, content_type="text/html")), writes=True, json={})

    assert type(error) is errors.InDoubt


def test_a_body_that_is_not_utf8_is_unreadable() -> None:
    """Case HTTP-10."""
    error = failing(client(answering(200, b'{"name":"Jo\xebl"}')))

    assert (type(error), error.code) == (errors.Unreadable, "bad_encoding")


def test_an_answer_without_a_body_is_none() -> None:
    assert ask(client(answering(204)), writes=True, json={}).json is None


# --- redirects and hosts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "location", "host"),
    [
        (301, "https://www.brevo.example/v3/contacts?key=1", "www.brevo.example"),
        (302, "https://login.shop.example/anna", "login.shop.example"),
        (308, "/v4/contacts", "api.example.com"),
    ],
)
@pytest.mark.parametrize("writes", [False, True])
def test_a_redirect_is_refused_and_names_only_the_host(status: int, location: str, host: str, writes: bool) -> None:
    """Case HTTP-08."""
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(status, headers={"location": location})

    error = failing(client(handler), writes=writes)

    assert (type(error), error.code, seen) == (errors.Refused, "redirected", ["api.example.com"])
    assert host in error.sentence
    assert "key=1" not in error.sentence and "anna" not in error.sentence


@pytest.mark.parametrize(
    "base_url",
    [
        "http://api.example.com",
        "https://api.example.com.evil.example",
        "https://evil.example",
        "https://api.example.com:8443",
        "https://user@api.example.com",
        "https://a.b.myshopify.com",
        "https://myshopify.com",
        "https://-.myshopify.com",
        "http://127.0.0.1:80",
        "ftp://api.example.com",
        "https://",
        "https://[",
    ],
)
def test_a_host_that_is_not_declared_is_refused_before_anything_leaves(base_url: str) -> None:
    with pytest.raises(http.HostRefused):
        http.Client(base_url, {}, allowed_hosts=("api.example.com", "*.myshopify.com"))


def test_only_loopback_may_be_called_without_https() -> None:
    with pytest.raises(http.HostRefused):
        http.Client("http://10.0.0.1", {}, allowed_hosts=(), allow_http_hosts=("10.0.0.1",))
    local = http.Client(
        "http://127.0.0.1:8123",
        {},
        allowed_hosts=(),
        allow_http_hosts=("127.0.0.1",),
        transport=httpx.MockTransport(answering(200, {})),
    )

    assert ask(local).status == 200


@pytest.mark.parametrize("path", ["https://evil.example/", "//evil.example/x", "@evil.example", ".evil.example", ""])
def test_a_path_cannot_change_the_host(path: str) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    with pytest.raises(http.HostRefused):
        ask(client(handler), path=path, label="x")
    assert seen == []


# --- waits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", timedelta(seconds=120)),
        ("Mon, 12 Oct 2026 10:02:00 GMT", timedelta(seconds=120)),
        ("Mon, 12 Oct 2026 09:58:00 GMT", timedelta(0)),
        ("1.5", timedelta(seconds=1.5)),
        (None, None),
        ("", None),
        ("abc", None),
        ("-5", None),
        ("0", timedelta(0)),
        ("99999999999", http.LONGEST_WAIT),
        ("Fri, 31 Dec 9999 23:59:59 GMT", http.LONGEST_WAIT),
        ("9" * 5000, None),
        ("NaN", None),
        ("1e3", None),
        ("٣", timedelta(seconds=3)),
        ("Mon, 99 Oct 2026 10:02:00 GMT", None),
    ],
)
def test_the_wait_is_what_the_header_says_and_nonsense_is_none(value: str | None, expected: timedelta | None) -> None:
    """Case HTTP-01."""
    assert http.asked_wait(value, now=NOW) == expected


@pytest.mark.parametrize(("status", "code"), [(429, "throttled"), (503, "unavailable")])
def test_a_date_to_wait_for_is_counted_on_the_vendors_clock(status: int, code: str) -> None:
    """Case HTTP-01."""
    handler = answering(status, date="Mon, 12 Oct 2026 10:00:00 GMT", retry_after="Mon, 12 Oct 2026 10:02:00 GMT")

    error = failing(client(handler))

    assert isinstance(error, errors.Throttled)
    assert (error.wait, error.code) == (timedelta(seconds=120), code)


def test_throttling_without_a_time_keeps_the_status_and_a_short_reason() -> None:
    """Case HTTP-02."""
    error = failing(client(answering(429, b"slow down " * 200)), writes=True, json={})

    assert isinstance(error, errors.Throttled)
    assert error.wait is None
    assert "429" in error.sentence and "slow down" in error.sentence
    assert len(error.sentence) < http.EXCERPT_LENGTH + 100


def test_the_vendors_own_wait_header_is_read_first() -> None:
    handler = answering(429, x_sib_ratelimit_reset="7", retry_after="60")

    error = failing(client(handler, wait_headers=("x-sib-ratelimit-reset", "retry-after")))

    assert isinstance(error, errors.Throttled)
    assert error.wait == timedelta(seconds=7)


# --- words ------------------------------------------------------------------------------------------------------


def test_a_sentence_holds_no_address_token_or_markup() -> None:
    body = f"<b>No</b>\x00 anna.b@example.com bob%40example.com key {SECRET} shpat_0123456789abcdef +4915112345678 end"

    error = failing(client(answering(403, body.encode())))

    assert error.sentence.endswith("(No *** *** key *** *** *** end).")


def test_an_excerpt_is_short() -> None:
    assert len(http.clean("word " * 500)) <= http.EXCERPT_LENGTH


def test_calls_are_counted_by_endpoint_also_when_they_fail() -> None:
    answers = iter([httpx.Response(204), httpx.Response(500)])
    one = client(lambda request: next(answers))

    async def twice() -> None:
        by = time.monotonic() + 5
        await one.request("PUT", "/v3/contacts/anna", by=by, writes=True, label="PUT /contacts/{id}")
        with pytest.raises(errors.InDoubt):
            await one.request("PUT", "/v3/contacts/bob", by=by, writes=True, label="PUT /contacts/{id}")

    asyncio.run(twice())

    assert {label: tally.count for label, tally in one.calls.items()} == {"PUT /contacts/{id}": 2}
    assert one.calls["PUT /contacts/{id}"].milliseconds > 0


def test_the_server_time_is_the_date_header_or_unreadable() -> None:
    dated = ask(client(answering(200, {}, date="Mon, 12 Oct 2026 10:00:00 GMT")))

    assert dated.server_time() == NOW
    for headers in ({}, {"date": "yesterday"}):
        with pytest.raises(errors.Unreadable):
            http.Answer(200, headers, None).server_time()


# --- bodies -----------------------------------------------------------------------------------------------------


def test_a_request_carries_prepared_headers_and_compact_json() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(204)

    ask(client(handler), writes=True, json={"a": [1, "ü"]}, params={"q": "a b&c"})

    assert seen[0].content == b'{"a":[1,"\\u00fc"]}'
    assert seen[0].url.query == b"q=a+b%26c"
    assert seen[0].headers["accept-encoding"] == "gzip, identity"
    assert (seen[0].headers["api-key"], seen[0].headers["content-type"]) == (SECRET, "application/json")


def test_a_decimal_is_written_with_exactly_its_digits() -> None:
    body = {"amount": Decimal("231.10"), "big": Decimal("12345678901234567890.12"), "small": Decimal("1E-7"), "n": 1}

    assert http.encode({"orders": [body, True, None, ("x",)]}) == (
        b'{"orders":[{"amount":231.10,"big":12345678901234567890.12,"small":0.0000001,"n":1},true,null,["x"]]}'
    )


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), Decimal("1e999999"), float("nan")])
def test_a_number_that_is_none_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError):
        http.encode({"a": value, "b": Decimal(1)})


def test_numbers_are_read_as_decimal_or_whole_numbers_and_never_as_floats() -> None:
    read = http.parse_json(b'{"a":231.10,"b":1e2,"c":123456789012345678901234567890}')

    assert read == {"a": Decimal("231.10"), "b": Decimal("1E+2"), "c": 123456789012345678901234567890}
    assert (str(read["a"]), type(read["b"]), type(read["c"])) == ("231.10", Decimal, int)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "not_json"),
        (b"<html>", "not_json"),
        (b'{"data":{"customers":{"nodes":[{"id":1}', "not_json"),
        (b'{"a":1} x', "not_json"),
        (b'\xef\xbb\xbf{"a":1}', "not_json"),
        (b'{"a":NaN}', "bad_number"),
        (b'{"a":-Infinity}', "bad_number"),
        (b'{"a":1e999999999}', "bad_number"),
        (b'{"a":1e99999999999999999999999}', "bad_number"),
        (b"9" * 10_000, "bad_number"),
        (b'{"a":1,"a":2}', "duplicate_key"),
        (b'{"a":{"b":1,"b":1}}', "duplicate_key"),
        (b'{"a":"\xff"}', "bad_encoding"),
        (b'{"a":"\\ud800"}', "bad_encoding"),
        (b"[" * 65 + b"]" * 65, "too_deep"),
        (b"[" * 100_000, "too_deep"),
        (b'{"a":' * 100_000, "too_deep"),
        (b"[" * 1_000 + b"{}" * 5, "too_deep"),
    ],
)
def test_a_body_that_cannot_be_believed_is_unreadable(body: bytes, code: str) -> None:
    with pytest.raises(errors.Unreadable) as caught:
        http.parse_json(body)

    assert caught.value.code == code


def test_depth_counts_structure_and_not_what_text_holds() -> None:
    deepest = b"[" * 64 + b"]" * 64
    text = b'{"a":"' + b"[{" * 500 + b'\\"[[["}'
    wide = b"[" + b",".join([b"{}"] * 1000) + b"]"

    assert http.parse_json(text)["a"].startswith("[{[{")
    assert len(http.parse_json(wide)) == 1000
    assert http.parse_json(deepest)


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert http.parse_json(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_nothing_in_the_json_test_suite_gets_past_or_crashes_the_reader() -> None:
    folder = SHARED / "data" / "json-test-suite" / "test_parsing"
    if not folder.is_dir():
        pytest.skip("The JSON test suite is not beside this repository (../shared/data/json-test-suite).")
    believed = set()
    for path in sorted(folder.glob("*.json")):
        try:
            http.parse_json(path.read_bytes())
            believed.add(path.name)
        except errors.Unreadable:
            pass

    must = {path.name for path in folder.glob("y_*.json")}
    stricter = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
    assert {name for name in believed if name.startswith("n_")} == set()
    assert must - believed <= stricter


@pytest.mark.parametrize("writes", [False, True])
def test_a_body_over_the_cap_ends_the_call(writes: bool) -> None:
    error = failing(client(answering(200, b"[" + b"1," * 600 + b"1]"), byte_cap=1000), writes=writes)

    assert (type(error), error.code) == (errors.InDoubt if writes else errors.Unreadable, "oversized")


def test_a_body_that_unpacks_beyond_the_cap_ends_the_call() -> None:
    bomb = gzip.compress(b'"' + b"a" * 5_000_000 + b'"', mtime=0)
    assert len(bomb) < 10_000

    error = failing(client(packed(bomb), byte_cap=10_000))

    assert (type(error), error.code) == (errors.Unreadable, "oversized")


def packed(content: bytes, encoding: str = "gzip") -> Callable[[httpx.Request], httpx.Response]:
    headers = {"content-encoding": encoding}
    return lambda request: httpx.Response(200, headers=headers, stream=httpx.ByteStream(content))


def test_a_packed_body_is_unpacked() -> None:
    assert ask(client(packed(gzip.compress(b'{"a":1}', mtime=0)))).json == {"a": 1}


@pytest.mark.parametrize(
    ("content", "encoding", "kind"),
    [
        (gzip.compress(b'{"a":1}', mtime=0)[:-6], "gzip", errors.Passing),
        (b"not packed at all", "gzip", errors.Unreadable),
        (b"x", "br", errors.Unreadable),
    ],
)
def test_a_broken_packing_is_not_believed(content: bytes, encoding: str, kind: type[Exception]) -> None:
    assert type(failing(client(packed(content, encoding)))) is kind


# --- on the wire ------------------------------------------------------------------------------------------------

Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def speaking(speak: Speak, **options: Any) -> AsyncIterator[http.Client]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await speak(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    local = http.Client(
        f"http://127.0.0.1:{port}",
        {"api-key": SECRET},
        allowed_hosts=(),
        allow_http_hosts=("127.0.0.1",),
        **options,
    )
    try:
        yield local
    finally:
        await local.close()
        server.close()
        await server.wait_closed()


def call(speak: Speak, *, writes: bool, seconds: float = 5.0) -> http.Answer | errors.ConnectorError:
    async def called() -> http.Answer | errors.ConnectorError:
        async with speaking(speak) as local:
            try:
                by = time.monotonic() + seconds
                method = "POST" if writes else "GET"
                return await local.request(method, "/x", json={"a": 1} if writes else None, by=by, writes=writes)
            except errors.ConnectorError as error:
                return error

    return asyncio.run(called())


async def request_read(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    await reader.readexactly(length)


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_read(reader)
    writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\nSet-Cookie: a=b\r\n\r\n" + b'{"id":21}')
    await writer.drain()


async def closes_after_the_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_read(reader)


async def resets_after_the_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_read(reader)
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_read(reader)
    await asyncio.sleep(0.5)


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_read(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n")
    for _ in range(40):
        writer.write(b"1")
        await writer.drain()
        await asyncio.sleep(0.02)


async def stops_short(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_read(reader)
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"customers":[')
    await writer.drain()


async def ends_without_a_length(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_read(reader)
    writer.write(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"data":{"customers":{"nodes":[{"id":1}')
    await writer.drain()


async def talks_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_read(reader)
    writer.write(b"220 mail.example.com ready\r\n\r\n")
    await writer.drain()


BROKEN = [
    closes_after_the_request,
    resets_after_the_request,
    says_nothing,
    drips,
    stops_short,
    ends_without_a_length,
    talks_nonsense,
]


def test_an_answer_comes_over_the_wire() -> None:
    answer = call(answers, writes=True)

    assert isinstance(answer, http.Answer)
    assert (answer.status, answer.json) == (201, {"id": 21})


@pytest.mark.parametrize("speak", BROKEN, ids=lambda speak: speak.__name__)
def test_a_write_whose_connection_breaks_after_the_request_is_in_doubt(speak: Speak) -> None:
    """Cases HTTP-05, HTTP-07, HTTP-09."""
    started = time.monotonic()

    error = call(speak, writes=True, seconds=0.2)

    assert type(error) is errors.InDoubt
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("speak", BROKEN, ids=lambda speak: speak.__name__)
def test_a_read_whose_connection_breaks_is_tried_again(speak: Speak) -> None:
    """Cases HTTP-05, HTTP-07."""
    assert type(call(speak, writes=False, seconds=0.2)) is errors.Passing


def test_a_refused_connection_was_not_sent() -> None:
    """Case HTTP-09."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    local = http.Client(f"http://127.0.0.1:{port}", {}, allowed_hosts=(), allow_http_hosts=("127.0.0.1",))

    error = failing(local, writes=True, json={})

    assert (type(error), error.code) == (errors.Passing, "not_sent")


def test_a_deadline_that_has_passed_sends_nothing() -> None:
    seen: list[bytes] = []

    async def notes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(100))

    error = call(notes, writes=True, seconds=-0.01)

    assert isinstance(error, errors.Passing)
    assert (error.code, seen) == ("not_sent", [])


def test_a_process_that_stood_still_before_the_first_byte_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between the proof of the lease and the send, and continued after somebody took over (PRODUCT 3.2)."""
    seen: list[bytes] = []
    connect = http._Connector.connect

    async def notes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(100))

    async def connects_and_stands_still(self: Any, *arguments: Any, **named: Any) -> Any:
        connection = await connect(self, *arguments, **named)
        time.sleep(0.1)  # noqa: ASYNC251 (the whole process stands still)
        return connection

    monkeypatch.setattr(http._Connector, "connect", connects_and_stands_still)

    error = call(notes, writes=True, seconds=0.08)

    assert isinstance(error, errors.Passing)
    assert (error.code, seen) == ("not_sent", [b""])


def test_a_kept_connection_serves_the_next_call_after_the_first_ones_deadline() -> None:
    connections: list[int] = []

    async def serves_two(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await answers(reader, writer)
        await answers(reader, writer)

    async def twice() -> list[int]:
        async with speaking(serves_two) as local:
            first = await local.request("POST", "/x", json={}, by=time.monotonic() + 0.05, writes=True)
            await asyncio.sleep(0.06)
            second = await local.request("POST", "/x", json={}, by=time.monotonic() + 5, writes=True)
            return [first.status, second.status]

    assert asyncio.run(twice()) == [201, 201]
    assert connections == [1]


def test_a_cookie_is_not_kept() -> None:
    heads: list[bytes] = []

    async def notes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 204 No Content\r\nSet-Cookie: a=b\r\n\r\n")

    async def twice() -> None:
        async with speaking(notes) as local:
            for _ in range(2):
                await local.request("GET", "/x", by=time.monotonic() + 5, writes=False)

    asyncio.run(twice())

    assert len(heads) == 2
    assert b"cookie" not in heads[1].lower()


def test_a_cancelled_call_gives_its_connection_up() -> None:
    async def cancelled() -> bool:
        async with speaking(says_nothing) as local:
            task = asyncio.create_task(local.request("GET", "/x", by=time.monotonic() + 5, writes=False))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return task.cancelled()

    assert asyncio.run(cancelled())


def test_the_environment_gives_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    answer = call(answers, writes=True)

    assert isinstance(answer, http.Answer)
