"""What is true of every request and every answer: what may come in at all, and a strict Content-Security-Policy."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.db import DataError
from django.http import HttpRequest, HttpResponse, QueryDict, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

# Named like the policy that newer Djangos bring.
MERCHANT = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self'; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# The admin theme evaluates expressions in the browser and sets styles from scripts.
ADMIN = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; connect-src 'self'; font-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

NUL: Final = "\0"
LOOKUP_DIGITS: Final = 18
"""Digits of a whole number that every column of whole numbers can be compared with."""
NEWEST_YEAR: Final = 9999
"""The last year that has dates; the first one is 1."""
READ_ONLY: Final = frozenset({"GET", "HEAD"})
_WHOLE_NUMBER: Final = re.compile(r"\s*[+-]?(\d+)\s*")


class ContentSecurityPolicy:
    """Adds the header to every answer that does not bring its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        policy = ADMIN if request.path.startswith("/admin/") else MERCHANT
        response.headers.setdefault("Content-Security-Policy", policy)
        return response


class PlainInput:
    """Answers 400 with one sentence to what no page could make sense of, before any page has to (PRODUCT 10.4).

    Stands before everything that looks at cookies, addresses or forms: PostgreSQL keeps no NUL in a text, and a form
    that cannot be read must not break the very code that reports it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        fault = _fault_of(request)
        return self.get_response(request) if fault is None else refused(fault)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A page that only reads, and a value out of its address that the database cannot compare."""
        if isinstance(exception, DataError) and request.method in READ_ONLY and request.GET:
            return refused(_unknowable())
        return None


def refused(sentence: str) -> HttpResponse:
    """A page that needs neither session nor database."""
    return HttpResponse(render_to_string("400.html", {"sentence": sentence}), status=400)


def _fault_of(request: HttpRequest) -> str | None:
    """What is wrong with the request, in one sentence; None when nothing is."""
    if not _is_utf8(request.content_params):
        return _("This request says that it is in another encoding than UTF-8, so nothing was done: send it in UTF-8.")
    try:
        # By whatever name it goes: Django wants it spelled this way.
        request.encoding = "utf-8"
        texts = [request.path, *request.COOKIES.values(), *_texts_of(request.GET)]
        texts += [*_texts_of(request.POST), *request.FILES]
    except (BadRequest, SuspiciousOperation, MultiPartParserError, UnreadablePostError, UnicodeError):
        return _(
            "This request cannot be read, so nothing was done: go back, load the page again and send it once more."
        )
    if any(NUL in text for text in texts):
        return _("This request holds a character that no text may hold, so nothing was done: leave the NUL out.")
    return _unknowable() if any(_misfits(name, text) for name, text in _pairs(request.GET)) else None


def _is_utf8(parameters: dict[str, str] | None) -> bool:
    """Whether the content type names UTF-8, no encoding, or one that nobody knows, which Django takes for UTF-8."""
    try:
        return codecs.lookup((parameters or {}).get("charset", "utf-8")).name == "utf-8"
    except (LookupError, ValueError):
        return True


def _unknowable() -> str:
    return _("A value in this address is out of range: correct it, or leave it out.")


def _pairs(values: QueryDict) -> Iterator[tuple[str, str]]:
    for name, several in values.lists():
        for text in several:
            yield name, str(text)


def _texts_of(values: QueryDict) -> Iterable[str]:
    for pair in _pairs(values):
        yield from pair


def _misfits(name: str, text: str) -> bool:
    """Whether a lookup of the staff's lists (``id__exact=5``, ``created_at__year=2026``) names an impossible number."""
    _field, *lookups = name.split("__")
    of_years = not {"year", "iso_year"}.isdisjoint(lookups)
    for part in text.split(",") if lookups else ():
        number = _WHOLE_NUMBER.fullmatch(part)
        if number and (len(number[1]) > LOOKUP_DIGITS or (of_years and not _is_year(part))):
            return True
    return False


def _is_year(text: str) -> bool:
    return 1 <= int(text) <= NEWEST_YEAR
