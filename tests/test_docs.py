"""The documents say what is: settings, commands, error codes, links and cases are held against the code."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core import management

from connectors import http
from connectors.brevo import destination as brevo
from syncs.domain import consent

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DEPLOY = ROOT / "docs" / "deploy.md"
ERRORS = ROOT / "docs" / "errors.md"
CASES = ROOT / "tests" / "cases.md"
SHARED_CASES = ROOT.parent / "shared" / "cases"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
CONNECTORS = "connectors"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _all_text() -> str:
    return "\n".join(_text(path) for path in DOCUMENTS)


def _modules(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {"sandbox", "migrations"} & set(path.relative_to(ROOT).parts):
                yield path, ast.parse(_text(path))


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield name, node


def _rows(text: str, first: str) -> list[list[str]]:
    """The rows of every table whose first column is called ``first``, their cells without backticks."""
    rows: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0] == first:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            rows.append(cells)
    return rows


# --- Settings ---------------------------------------------------------------------------------------------------------
READERS = frozenset({"str", "bool", "int", "float", "list", "db", "number", "whole"})


def settings_rows() -> list[tuple[str, str]]:
    """Every variable that config/settings.py reads, with its production default as the README shows it."""
    found: dict[str, str] = {}
    for name, call in _calls(ast.parse(_text(ROOT / "config" / "settings.py"))):
        variable = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        if not isinstance(variable, str) or not variable.isupper():
            continue
        if name == "needed" or variable == "DATABASE_URL":
            found[variable] = "needed"
        elif name in READERS and variable not in found:
            named = [keyword.value for keyword in call.keywords if keyword.arg == "default"]
            default = next(iter([*named, *call.args[1:]]), None)
            found[variable] = _shown(_evaluated(default))
    return sorted(found.items())


def _evaluated(default: ast.expr | None) -> Any:
    names = {"PRODUCTION": True, "BASE_DIR": Path(), "str": str}
    return None if default is None else eval(compile(ast.Expression(default), "settings", "eval"), names)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if value not in ([], "", None) else "none"


def test_the_table_of_settings_is_that_of_the_settings() -> None:
    table = [(row[0], row[1]) for row in _rows(_text(README), "variable") if len(row) == 3]
    assert sorted(table) == settings_rows()


def _variables_of_the_scripts() -> set[str]:
    """What script/* and local/ take from the environment, and what the engine's crash points do."""
    found: set[str] = set()
    for path in (ROOT / "script").iterdir():
        found |= set(re.findall(r"\$\{?([A-Z][A-Z_]+)\b", _text(path)))
        found |= set(re.findall(r"\b([A-Z][A-Z_]+)=''", _text(path)))
    for _, tree in _modules("local", "syncs"):
        for name, call in _calls(tree):
            first = call.args[0] if call.args else None
            if name == "get" and "environ" in ast.unparse(call.func) and isinstance(first, ast.Constant):
                found.add(str(first.value))
    # Names of the shell, not of ours.
    return found - {"PWD", "CDPATH"}


def test_every_variable_of_ours_in_the_documents_exists() -> None:
    known = {name for name, _ in settings_rows()} | _variables_of_the_scripts()
    text = _all_text()
    named = set(re.findall(r"\bVIGIL_[A-Z_]+\b", text)) | set(re.findall(r"`([A-Z][A-Z_]*)=", text))
    named |= {row[0] for path in DOCUMENTS for row in _rows(_text(path), "variable")}
    assert named - known == set()


def test_every_variable_of_the_scripts_is_in_the_readme() -> None:
    shown = {row[0] for row in _rows(_text(README), "variable")}
    assert {name for name in _variables_of_the_scripts() if name.startswith("VIGIL_")} - shown == set()


def test_the_checks_that_can_refuse_a_start_are_listed() -> None:
    sources = "\n".join(_text(path) for path, _ in _modules("syncs", "config"))
    assert {row[0] for row in _rows(_text(DEPLOY), "id")} == set(re.findall(r"\bvigil\.[EW]\d+", sources))


# --- Commands ---------------------------------------------------------------------------------------------------------
def test_every_script_that_is_named_can_be_run_and_every_script_is_named() -> None:
    named = set(re.findall(r"(?<![\w./])(?:script|\.ci)/[a-z]+\b", _all_text()))
    for name in named:
        assert os.access(ROOT / name, os.X_OK), name
        shell = _text(ROOT / name).splitlines()[0].removeprefix("#!").removeprefix("/usr/bin/env ")
        assert subprocess.run([shell, "-n", ROOT / name], check=False).returncode == 0, name
    inner = {"script/bootstrap"}
    assert {f"script/{path.name}" for path in (ROOT / "script").iterdir()} - inner <= named


MANAGE = re.compile(r"(?:manage\.py|script/manage) ([a-z_]+)")


def test_every_command_of_manage_that_is_named_exists_and_explains_itself() -> None:
    named = set(MANAGE.findall(_all_text()))
    assert named >= {"migrate", "vigil_worker"}
    known = management.get_commands()
    assert named - set(known) == set()
    for name in named:
        command = known[name]
        loaded = management.load_command_class(command, name) if isinstance(command, str) else command
        assert "usage" in loaded.create_parser("manage.py", name).format_help()


def test_every_command_of_ours_is_named() -> None:
    ours = {name for name, app in management.get_commands().items() if app in ("syncs", "alerts")}
    assert ours <= set(MANAGE.findall(_all_text())) | set(re.findall(r"`([a-z_]+)`", _all_text()))


@pytest.mark.parametrize("module", ["local.demo", "local.postgres"])
def test_the_programs_behind_the_scripts_explain_themselves(module: str) -> None:
    said = _help(module)
    assert said.startswith("usage: ")


def _help(module: str) -> str:
    asked = [sys.executable, "-m", module, "--help"]
    answer = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_options_of_the_demo_are_those_it_has() -> None:
    had = set(re.findall(r"--[a-z]+", _help("local.demo"))) - {"--help"}
    assert {row[0].split()[0] for row in _rows(_text(README), "option")} == had


def test_the_services_that_are_named_exist() -> None:
    from syncs import services

    named = set(re.findall(r"\bservices\.([a-z_]+)\(", _all_text()))
    assert named
    assert named - set(services.__all__) == set()


# --- Error codes ------------------------------------------------------------------------------------------------------
def codes_of_the_code() -> set[str]:
    """Every code that a run, a record, a finding or a page can carry, out of the code itself."""
    found = {"read_short", "read_unproven"}  # put together from the verdict
    for path, tree in _modules(CONNECTORS, "syncs"):
        found |= set(_codes_of_calls(tree))
        if path.name == "errors.py":
            found |= set(_codes_of_classes(tree))
    tables = [*http.READ_STATUS.values(), *http.WRITE_STATUS.values()]
    tables += [http.OUTAGE_READ, http.OUTAGE_WRITE, http.OTHER_READ, http.ODD_READ, http.ODD_WRITE]
    found |= {code for _, code, _ in tables}
    return found | {code for code, _ in brevo._RUN_STATUS.values()} | _constants()


def _codes_of_calls(tree: ast.Module) -> Iterator[str]:
    """``code="..."`` anywhere, and the codes that a few functions take by position."""
    for name, call in _calls(tree):
        for keyword in call.keywords:
            if keyword.arg in ("code", "error_code"):
                yield from _texts(keyword.value)
        if name in ("Ended", "_unbelievable", "_refused") and len(call.args) > 1:
            yield from _texts(call.args[1])


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Subscript):
        return  # the name of a column, not a code
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Constant)
            and isinstance(part.value, str)
            and re.fullmatch(r"[a-z_]{3,}[a-z]", part.value)
        ):
            yield part.value


def _codes_of_classes(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code":
                    yield from _texts(line.value)


def _constants() -> set[str]:
    """Codes that have a name, and those that are a plain text between two rooms."""
    from syncs.engine import again, sending

    plain = {"contact_missing", "collision", "by_person", "unconfirmed", "source_record_gone"}
    everything = "\n".join(_text(path) for path, _ in _modules(CONNECTORS, "syncs"))
    assert {code for code in plain if not re.search(rf"""["']{code}["']""", everything)} == set()
    return plain | {sending.RUN_REFUSED, sending.LATE_LOOK, brevo.BATCH_REFUSED, again.RETRY_ASKED}


def _sections() -> dict[str, str]:
    """Code -> the text of its section."""
    sections: dict[str, str] = {}
    for heading, body in re.findall(r"^### ([a-z_, ]+)\n(.*?)(?=^##|\Z)", _text(ERRORS), re.MULTILINE | re.DOTALL):
        for code in heading.split(", "):
            assert code not in sections, f"{code} has two sections"
            sections[code] = body
    return sections


REFUSALS_ALONE = frozenset(consent.CODES)


def test_every_code_of_the_code_has_its_section() -> None:
    assert codes_of_the_code() - set(_sections()) - REFUSALS_ALONE == set()


def test_every_section_is_about_a_code_that_exists() -> None:
    assert set(_sections()) - codes_of_the_code() == set()


def test_every_section_says_what_you_see_what_happened_to_your_data_and_what_to_do() -> None:
    labels = {code: re.findall(r"^- \*\*([\w ]+):\*\*", body, re.MULTILINE) for code, body in _sections().items()}
    assert {code: said for code, said in labels.items() if said != ["You see", "Your data", "Do"]} == {}


def test_every_reason_to_refuse_a_person_is_told_in_the_order_in_which_it_is_asked() -> None:
    assert [row[0] for row in _rows(_text(ERRORS), "code")] == list(consent.CODES)


def test_every_code_with_advice_on_the_pages_has_a_section() -> None:
    from syncs import words

    assert set(words.ADVICE) - set(_sections()) == set()


# --- Links and words --------------------------------------------------------------------------------------------------
def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_to_something(name: str) -> None:
    document = ROOT / name
    for target in re.findall(r"\]\(([^)]+)\)", _text(document)):
        assert "://" not in target, f"{target}: the documents stand alone"
        place, _, anchor = target.partition("#")
        linked = (document.parent / place).resolve() if place else document
        assert linked.exists(), target
        assert not anchor or anchor in _anchors(_text(linked)), target


def test_every_file_that_is_named_exists() -> None:
    folders = "config|connectors|docs|local|syncs|tests|templates|requirements"
    named = set(re.findall(rf"`((?:{folders})/[\w./-]+\.\w+)`", _all_text()))
    named |= set(re.findall(rf"`((?:{folders})/[\w/]*)`", _all_text()))
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / f"{name}.py").exists()]
    assert missing == []


ROOMS_OF_ENGINE_AND_DOMAIN = re.compile(r"`(engine|domain|services|queries)/(\w+)`")


def test_every_room_that_is_named_exists() -> None:
    named = set(ROOMS_OF_ENGINE_AND_DOMAIN.findall(_all_text()))
    assert len(named) > 10
    assert [pair for pair in named if not (ROOT / "syncs" / pair[0] / f"{pair[1]}.py").exists()] == []


# Put together, so that this file does not hold what it looks for.
NEVER = [
    "sub" + "agent",
    "helper" + " session",
    "issue" + " #",
    "py" + "pi.org",
    "python" + "hosted",
    "index-" + "url",
    *(f"/{folder}/" for folder in ("wo" + "rk", "fa" + "rm", "ro" + "ot", "ho" + "me")),
    "/t" + "mp/",
]


@pytest.mark.parametrize("name", [*NAMES, "tests/cases.md"])
def test_the_documents_speak_of_the_project_alone(name: str) -> None:
    text = _text(ROOT / name).lower()
    assert [word for word in NEVER if word in text] == []


def test_the_readme_can_be_read_in_one_sitting() -> None:
    assert len(_text(README).splitlines()) < 350


# --- Cases ------------------------------------------------------------------------------------------------------------
def _cited() -> dict[str, set[str]]:
    """Case id -> the test files that cite it, in prose (READ-01) or in a name (..._case_read_01), seen from tests/."""
    cited: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = _text(path)
        named = {f"{area.upper()}-{number}" for area, number in re.findall(r"_case_([a-z]+)_(\d\d)(?!\d)", text)}
        for case in named | set(re.findall(r"\b[A-Z]{2,5}-\d{2}\b", text)):
            cited.setdefault(case, set()).add(str(path.relative_to(ROOT / "tests")))
    return cited


def _cases() -> list[list[str]]:
    return _rows(_text(CASES), "case")


def test_every_case_stands_in_the_list_once() -> None:
    if not SHARED_CASES.is_dir():
        pytest.skip("The collection of cases is not beside this checkout.")
    listed = [row[0] for row in _cases()]
    assert listed == sorted(path.stem for path in SHARED_CASES.glob("*.json"))


def test_a_case_that_is_covered_is_cited_by_the_test_it_names() -> None:
    cited = _cited()
    wrong = [row[0] for row in _cases() if row[1] == "covered" and row[2] not in cited.get(row[0], set())]
    assert wrong == []


def test_a_case_that_a_test_cites_is_marked_covered() -> None:
    cited = _cited()
    stale = [row[0] for row in _cases() if row[1] != "covered" and row[0] in cited]
    assert stale == [], "run `python -m tests.test_docs`, which marks them"


def test_a_case_that_is_not_covered_says_what_it_waits_for() -> None:
    waiting = [row for row in _cases() if row[1] != "covered"]
    assert [row[0] for row in waiting if not re.fullmatch(r"waits for: [A-Za-z ,]+", row[1]) or row[2]] == []


def _marked(line: str, cited: dict[str, set[str]]) -> str:
    """The line of a case, "covered" and the first test that cites it where there is one."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    tests = sorted(cited.get(cells[0], ()))
    return f"| {cells[0]} | covered | {tests[0]} |" if tests else line


if __name__ == "__main__":
    found = _cited()
    CASES.write_text("".join(f"{_marked(line, found)}\n" for line in _text(CASES).splitlines()), encoding="utf-8")
