"""The directions of the house, held by walking the imports of the whole tree.

Rooms may use the rooms below them and nothing beside or above (README, "Rooms"). The checker is a plain function over
a folder, so the last tests plant one fault each in a small tree and see it found: a walk that finds nothing proves
little.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = frozenset({"alerts", "bench", "config", "connectors", "local", "syncs", "tests"})
BORDER = ("connectors.protocol", "connectors.errors")


@dataclass(frozen=True)
class Room:
    """What the modules under ``prefix`` may import: ``vigil`` of ours, ``others`` of third parties (None: any)."""

    prefix: str
    vigil: tuple[str, ...]
    others: tuple[str, ...] | None
    never: tuple[str, ...] = ()


STATE = ("syncs.models", "syncs.domain", "syncs.errors", *BORDER)
DOORS = ("syncs.services", "syncs.queries", "syncs.words", "syncs.domain", "syncs.errors", *BORDER)
SHELL = (*DOORS, "syncs.models", "syncs.forms", "syncs.views", "syncs.admin")

# The longest prefix that fits a module is its room. A module in no room is a fault: rooms are named, not guessed.
ROOMS = (
    Room("connectors.sandbox", ("connectors.sandbox",), ("aiohttp", "graphql", "multidict")),
    Room("connectors.http", ("connectors.errors",), ("aiohttp", "httpx", "httpx_aiohttp")),
    Room("connectors.protocol", (), ()),
    Room("connectors.errors", (), ()),
    Room("connectors", ("connectors",), (), never=("connectors.sandbox",)),
    Room("syncs.errors", (), ()),
    Room(
        "syncs.domain",
        ("syncs.domain", "syncs.errors", *BORDER),
        ("cronsim", "cryptography", "email_validator", "jmespath", "phonenumbers", "pydantic"),
        # Deciding needs no world: what would reach for it is not even imported.
        never=("asyncio", "io", "logging", "pathlib", "random", "socket", "subprocess", "threading"),
    ),
    Room("syncs.models", STATE, ("django",), never=("django.dispatch", "django.db.models.signals")),
    Room("syncs.migrations", ("syncs.models",), ("django",)),
    Room("syncs.engine", ("syncs.engine", "syncs.domain", "syncs.errors", *BORDER), ("psycopg",)),
    Room("syncs.services", ("syncs.services", "syncs.engine", "syncs.words", "connectors.registry", *STATE), None),
    Room("syncs.queries", ("syncs.queries", "syncs.words", *STATE), ("django",)),
    Room("syncs.words", ("syncs.domain", "syncs.errors"), ("django", "django_stubs_ext")),
    Room("syncs.forms", (*DOORS, "syncs.models", "syncs.forms"), ("django",)),
    Room("syncs.admin", SHELL, None),
    Room("syncs.views", SHELL, None),
    Room("syncs.urls", ("syncs.views",), ("django",)),
    Room("syncs.templatetags", ("syncs.words", "syncs.queries", "syncs.domain"), ("django",)),
    Room("syncs.tasks", ("syncs.services",), ()),
    Room("syncs.management", (*SHELL, "syncs.management"), None),
    Room("syncs.apps", ("syncs.checks",), ("django",)),
    Room("syncs.checks", ("syncs.domain",), ("django",)),
    Room("syncs", (), ()),
    Room("alerts", ("alerts", "syncs.queries", "syncs.services", "syncs.words", *STATE), None),
    Room("config", ("config", "syncs.urls", "syncs.views", "alerts"), None),
    # Both are run before anything is installed.
    Room("local.bootstrap", (), ()),
    Room("local.postgres", (), ()),
    Room("local", ("local", "connectors.sandbox", "config", *DOORS, "syncs.models"), ("django", "psycopg")),
    # It drives the engine as a worker does, with ends that only take time.
    Room("bench", ("bench", "connectors", "local.postgres", "syncs"), ("aiohttp", "django")),
    Room("manage", (), ("django",)),
    Room("tests", tuple(OURS), None),
)

FUNCTION_LEVEL: Mapping[str, frozenset[str]] = {
    # Django reads this module before there are models; checks register themselves once there are.
    "syncs.apps": frozenset({"syncs.checks"}),
    # The demo finds its database first, and only then can Django be set up.
    "local.demo": frozenset({"local.stage"}),
    "local.house": frozenset({"local.stage", "connectors.sandbox"}),
}
"""Module -> modules of ours that it may import inside a function. Tests may do so wherever they like."""

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    (
        "syncs.management.commands.vigil_worker",
        "reads timezone.now",
    ): "the queue plans its rows by the host's clock",
    ("syncs.management.commands.vigil_worker", "calls .save()"): "a row of the queue's own timetable, no state of ours",
    ("syncs.management.commands.vigil_worker", "calls .delete()"): "a row of the queue's own timetable, too",
    ("syncs.management.commands.vigil_worker", "imports django_q.signals"): "how the queue says that a worker started",
}
"""(module, how the fault begins) -> why it may stand. What is not broken any more must be struck off."""

MAY_READ_TIME = frozenset({"syncs.domain.clock"})
CREATION_STAMPS = {
    # Filled by Django when the row is made, shown to people, and nothing is decided by them.
    ("syncs.models.workspaces", "created_at"),
    ("syncs.models.syncs", "draft_at"),
}
SAYS_TIME = frozenset(
    {
        ("datetime", "now"),
        ("datetime", "utcnow"),
        ("datetime", "today"),
        ("date", "today"),
        ("timezone", "now"),
        ("timezone", "localtime"),
        ("timezone", "localdate"),
        *(("time", name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "gmtime")),
    }
)
SQL_TIME = re.compile(r"(?<!vigil_)\bnow\(\)|\bclock_timestamp\(\)|\bCURRENT_TIMESTAMP\b", re.IGNORECASE)
WRITES = frozenset(
    {
        "abulk_create",
        "acreate",
        "adelete",
        "asave",
        "aupdate",
        "bulk_create",
        "bulk_update",
        "create",
        "delete",
        "get_or_create",
        "save",
        "select_for_update",
        "update_or_create",
    }
)
SHELLS = ("syncs.admin", "syncs.views", "syncs.tasks", "syncs.management")


# --- The walk ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Import:
    """One name that a file imports, and whether it does so inside a function."""

    name: str
    line: int
    inside: bool


def faults(root: Path) -> list[str]:
    """Every broken direction under ``root``, as sentences."""
    return [fault for path in _files(root) for fault in _of_file(root, path)]


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*.py")):
        if not any(part.startswith(".") for part in path.relative_to(root).parts):
            yield path


def _of_file(root: Path, path: Path) -> Iterator[str]:
    relative = path.relative_to(root)
    parts = relative.with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (
        *_about_imports(module, tree),
        *_about_time(module, tree),
        *_about_signals(module, tree),
        *_about_writing(module, tree),
    )
    for line, fault in sorted(set(found)):
        if _exception(module, fault) is None:
            yield f"{relative}:{line} {fault}"


def _exception(module: str, fault: str) -> tuple[str, str] | None:
    fitting = (key for key in EXCEPTIONS if key[0] == module and fault.startswith(key[1]))
    return next(fitting, None)


def _about_imports(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    room = _room(module)
    if room is None:
        yield 1, "stands in no room: name its room in tests/test_directions.py"
        return
    for one in _imports(tree):
        if one.name.startswith("."):
            yield one.line, "imports relatively: write the whole path"
        elif not _may(room, one.name):
            yield one.line, f"imports {one.name}: not for {room.prefix}"
        elif one.inside and _is_ours(one.name) and not _may_be_late(module, one.name):
            yield one.line, f"imports {one.name} inside a function: do it at the top"


def _may_be_late(module: str, name: str) -> bool:
    return _within(module, ("tests",)) or _within(name, FUNCTION_LEVEL.get(module, frozenset()))


def _imports(tree: ast.Module) -> Iterator[Import]:
    for node, inside in _nodes(tree, inside=False):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield Import(".", node.lineno, inside)
        elif isinstance(node, ast.ImportFrom):
            yield from (Import(f"{node.module}.{alias.name}", node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node)[1] in ("import_module", "__import__", "get_model"):
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield Import(first.value, node.lineno, True)


def _nodes(node: ast.AST, *, inside: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        deeper = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield child, inside
        yield from _nodes(child, inside=deeper)


def _room(module: str) -> Room | None:
    fitting = [room for room in ROOMS if _within(module, (room.prefix,))]
    longest = max(fitting, key=lambda room: len(room.prefix), default=None)
    # "syncs" alone is the empty package; a new module beside the rooms wants a name of its own in the table.
    return None if longest is not None and longest.prefix == "syncs" and module != "syncs" else longest


def _within(name: str, prefixes: tuple[str, ...] | frozenset[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def _is_ours(name: str) -> bool:
    return name.split(".")[0] in OURS


def _may(room: Room, name: str) -> bool:
    if _within(name, room.never):
        return False
    if _is_ours(name):
        return _within(name, room.vigil)
    top = name.split(".")[0]
    return top in sys.stdlib_module_names or room.others is None or top in room.others


def _called(node: ast.Call) -> tuple[str, str]:
    """("datetime", "now") for ``x.datetime.now(...)``; ("", "f") for ``f(...)``."""
    if isinstance(node.func, ast.Name):
        return "", node.func.id
    if not isinstance(node.func, ast.Attribute):
        return "", ""
    owner = node.func.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name, node.func.attr


def _about_time(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Only domain/clock reads the process's time, and SQL asks `vigil_now()` alone (PRODUCT 8.5)."""
    if not _within(module, ("syncs", "alerts")) or module in MAY_READ_TIME:
        return
    if _within(module, ("syncs.migrations",)):
        return
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node, _ in _nodes(tree, inside=False):
        if id(node) in prose:
            continue
        if isinstance(node, ast.ImportFrom) and _names_time(node):
            yield node.lineno, "imports the process's clock: take a Clock as an argument"
        elif isinstance(node, ast.Attribute) and _pair(node) in SAYS_TIME:
            yield node.lineno, f"reads {'.'.join(_pair(node))}: take a Clock as an argument, or ask vigil_now()"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL_TIME.search(node.value):
            yield node.lineno, "asks the database's own clock: ask vigil_now()"
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _stamps_itself(node):
            names = [target.id for target in _targets(node) if isinstance(target, ast.Name)]
            if any((module, name) not in CREATION_STAMPS for name in names):
                yield node.lineno, f"lets Django stamp {', '.join(names)}: set it from vigil_now()"


def _names_time(node: ast.ImportFrom) -> bool:
    """Whether a clock is taken out of its module, where no call shows whose it is."""
    named = {alias.name for alias in node.names}
    return (node.module == "time" and named != {"sleep"}) or (node.module == "django.utils.timezone" and "now" in named)


def _pair(node: ast.Attribute) -> tuple[str, str]:
    owner = node.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name, node.attr


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _stamps_itself(node: ast.Assign | ast.AnnAssign) -> bool:
    return isinstance(node.value, ast.Call) and any(k.arg in ("auto_now", "auto_now_add") for k in node.value.keywords)


def _about_signals(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What happens next is called by name; nothing listens (ARCHITECTURE, "Directions")."""
    if _within(module, ("tests",)):
        return
    for one in _imports(tree):
        if _within(one.name, ("django.dispatch",)) or re.search(r"(^|\.)signals(\.|$)", one.name):
            yield one.line, f"imports {one.name}: no signals of our own"


def _about_writing(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Shells change state only through services: none of them calls what writes a row."""
    if not _within(module, SHELLS):
        return
    for node, _ in _nodes(tree, inside=False):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
            yield node.lineno, f"calls .{node.func.attr}(): a shell changes state through services"


# --- The tree as it is ------------------------------------------------------------------------------------------------
def test_the_whole_tree_keeps_its_directions() -> None:
    assert faults(ROOT) == []


def test_every_exception_and_late_import_is_still_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = dict(EXCEPTIONS)
    late = {name for names in FUNCTION_LEVEL.values() for name in names}
    monkeypatch.setattr(sys.modules[__name__], "EXCEPTIONS", {})
    monkeypatch.setattr(sys.modules[__name__], "FUNCTION_LEVEL", {})
    found = [fault.partition(" ")[2] for fault in faults(ROOT)]
    missing = [key for key in allowed if not any(fault.startswith(key[1]) for fault in found)]
    needed = "\n".join(fault for fault in found if fault.endswith("inside a function: do it at the top"))
    assert missing == []
    assert {name for name in late if not re.search(rf"^imports {re.escape(name)}[ .]", needed, re.MULTILINE)} == set()


def test_every_room_of_the_table_is_one_that_exists_or_is_announced() -> None:
    announced = {"alerts", "syncs.checks", "syncs.forms", "syncs.templatetags", "syncs.urls", "syncs.views"}
    announced |= {"syncs.admin", "local", "manage"}
    missing = {room.prefix for room in ROOMS if not _exists(room.prefix)}
    assert missing <= announced


def _exists(prefix: str) -> bool:
    place = ROOT.joinpath(*prefix.split("."))
    return place.is_dir() or place.with_suffix(".py").exists()


def test_only_the_registry_names_concrete_connectors() -> None:
    concrete = ("connectors.shopify", "connectors.brevo")
    naming = {
        str(path.relative_to(ROOT))
        for path in _files(ROOT)
        for one in _imports(ast.parse(path.read_text(encoding="utf-8")))
        if _within(one.name, concrete) and path.relative_to(ROOT).parts[:1] != ("tests",)
    }
    assert {name for name in naming if not name.startswith(("connectors/shopify/", "connectors/brevo/"))} == {
        "connectors/registry.py"
    }


def test_one_module_alone_imports_an_http_client() -> None:
    clients = ("httpx", "httpx_aiohttp", "requests", "urllib3", "http.client", "urllib.request")
    importing = {
        str(path.relative_to(ROOT))
        for path in _files(ROOT)
        for one in _imports(ast.parse(path.read_text(encoding="utf-8")))
        if _within(one.name, clients) and path.relative_to(ROOT).parts[0] not in ("tests", "local")
    }
    # The sandbox speaks to its own control door only, with what the standard library has.
    assert importing - {"connectors/sandbox/running.py"} == {"connectors/http.py"}


# --- The checker finds what it is for ---------------------------------------------------------------------------------
CLEAN = {
    "connectors/__init__.py": "",
    "connectors/errors.py": "class Passing(Exception): ...\n",
    "connectors/http.py": "import httpx\nfrom connectors import errors\n",
    "connectors/registry.py": "from connectors.brevo import destination\n",
    "connectors/brevo/__init__.py": "",
    "connectors/brevo/destination.py": "from connectors import http\n",
    "connectors/sandbox/__init__.py": "import aiohttp\n",
    "syncs/__init__.py": "",
    "syncs/domain/clock.py": "import time\ndef monotonic() -> float:\n    return time.monotonic()\n",
    "syncs/domain/rule.py": "import jmespath\nfrom connectors.protocol import Stream\nfrom syncs import errors\n",
    "syncs/models/syncs.py": "from django.db import models\nfrom syncs.domain.lifecycle import Lane\n",
    "syncs/engine/lease.py": "import psycopg\nfrom syncs.domain.clock import Clock\nSQL = 'SELECT vigil_now()'\n",
    "syncs/services/runs.py": "from connectors import registry\nfrom syncs.engine import worker\n",
    "syncs/queries/sync.py": "from syncs.models import Sync\n",
    "syncs/tasks.py": "from syncs import services\n",
    "syncs/views/pages.py": "from syncs import queries, services\n",
    "tests/test_x.py": "from connectors import sandbox\n",
}


def _tree(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_clean_tree_has_no_fault(tmp_path: Path) -> None:
    assert faults(_tree(tmp_path, CLEAN)) == []


PLANTED = [
    ("connectors/brevo/payloads.py", "from syncs.domain import keys\n", "imports syncs.domain.keys"),
    ("connectors/brevo/payloads.py", "import django.conf\n", "imports django.conf"),
    ("connectors/brevo/payloads.py", "import httpx\n", "imports httpx"),
    ("connectors/registry.py", "from connectors import sandbox\n", "imports connectors.sandbox"),
    ("connectors/sandbox/brevo.py", "from connectors import http\n", "imports connectors.http"),
    ("syncs/domain/keys.py", "from syncs.models import Sync\n", "imports syncs.models.Sync"),
    ("syncs/domain/keys.py", "from django.conf import settings\n", "imports django.conf.settings"),
    ("syncs/domain/keys.py", "from connectors import http\n", "imports connectors.http"),
    ("syncs/domain/keys.py", "import asyncio\n", "imports asyncio"),
    ("syncs/domain/keys.py", "import time\nat = time.monotonic()\n", "reads time.monotonic"),
    ("syncs/domain/keys.py", "from time import monotonic\n", "imports the process's clock"),
    ("syncs/engine/batch.py", "from syncs import services\n", "imports syncs.services"),
    ("syncs/engine/batch.py", "from syncs.models import Run\n", "imports syncs.models.Run"),
    ("syncs/engine/batch.py", "from django.conf import settings\n", "imports django.conf.settings"),
    ("syncs/engine/batch.py", "from connectors.brevo import destination\n", "imports connectors.brevo.destination"),
    ("syncs/engine/batch.py", "SQL = 'UPDATE x SET at = now()'\n", "asks the database's own clock"),
    ("syncs/models/runs.py", "from syncs.engine import lease\n", "imports syncs.engine.lease"),
    ("syncs/models/runs.py", "from django.db.models import signals\n", "imports django.db.models.signals"),
    ("syncs/models/runs.py", "at = models.DateTimeField(auto_now=True)\n", "lets Django stamp at"),
    ("syncs/services/runs.py", "from alerts import outbox\n", "imports alerts.outbox"),
    ("syncs/services/runs.py", "from connectors import http\n", "imports connectors.http"),
    ("syncs/services/runs.py", "from django.utils import timezone\nat = timezone.now()\n", "reads timezone.now"),
    ("syncs/services/runs.py", "import datetime\nat = datetime.datetime.now()\n", "reads datetime.now"),
    ("syncs/services/runs.py", "from django.dispatch import receiver\n", "no signals of our own"),
    ("syncs/services/runs.py", "from . import actors\n", "imports relatively"),
    ("syncs/services/runs.py", "def f():\n    from syncs.models import Run\n", "inside a function"),
    ("syncs/services/runs.py", "import importlib\nimportlib.import_module('alerts.watch')\n", "imports alerts.watch"),
    ("syncs/queries/home.py", "from syncs.services import runs\n", "imports syncs.services.runs"),
    ("syncs/queries/home.py", "from syncs.engine import planner\n", "imports syncs.engine.planner"),
    ("syncs/views/pages.py", "from syncs.engine import runner\n", "imports syncs.engine.runner"),
    ("syncs/views/pages.py", "from connectors import registry\n", "imports connectors.registry"),
    ("syncs/views/pages.py", "from syncs.models import Run\nRun.objects.create()\n", "calls .create()"),
    ("syncs/tasks.py", "from syncs.models import Run\n", "imports syncs.models.Run"),
    ("syncs/somewhere.py", "", "stands in no room"),
    ("elsewhere/thing.py", "", "stands in no room"),
]


@pytest.mark.parametrize(("name", "text", "said"), PLANTED)
def test_a_planted_fault_is_found(name: str, text: str, said: str, tmp_path: Path) -> None:
    found = faults(_tree(tmp_path, {**CLEAN, name: text}))
    assert found, "the fault was not found"
    assert all(fault.startswith(f"{name}:") for fault in found)
    assert any(said in fault for fault in found), found
