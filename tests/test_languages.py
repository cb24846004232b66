"""Every text of ours in German and Hindi, and the compiled catalogues hold what the readable ones say."""

import ast
import gettext
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.utils import translation

from syncs import words

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("de", "hi")
HOLDER = re.compile(r"%\(\w+\)[sd]|%%|\{\w+\}|</?\w+[^>]*>")


@dataclass
class Entry:
    """One text of a catalogue: its key, the plural's text, and the translations in order."""

    context: str = ""
    text: str = ""
    plural: str = ""
    said: list[str] = field(default_factory=list)
    fuzzy: bool = False

    @property
    def key(self) -> str:
        return f"{self.context}\4{self.text}" if self.context else self.text


def entries(path: Path) -> list[Entry]:
    """The texts of a .po file, its header left out."""
    found, into = [Entry()], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip():
            found.append(Entry())
        elif line.startswith("#,"):
            found[-1].fuzzy = "fuzzy" in line
        elif line.startswith('"'):
            _add(found[-1], into, ast.literal_eval(line))
        elif not line.startswith("#"):
            into, _, rest = line.partition(" ")
            if into.startswith("msgstr"):
                found[-1].said.append("")
            _add(found[-1], into, ast.literal_eval(rest))
    return [entry for entry in found if entry.text]


def _add(entry: Entry, into: str, text: str) -> None:
    if into.startswith("msgstr"):
        entry.said[-1] += text
    else:
        name = {"msgctxt": "context", "msgid": "text", "msgid_plural": "plural"}[into]
        setattr(entry, name, getattr(entry, name) + text)


def catalogue(language: str, ending: str) -> Path:
    return ROOT / "locale" / language / "LC_MESSAGES" / f"django.{ending}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalogue_is_that_of_the_readable_one(language: str) -> None:
    with catalogue(language, "mo").open("rb") as compiled:
        held = gettext.GNUTranslations(compiled)
    for entry in entries(catalogue(language, "po")):
        found = [held.ngettext(entry.key, entry.plural, number) for number in (1, 5)] if entry.plural else []
        assert (found or [held.gettext(entry.key)]) == entry.said, entry.text
    texts = {key if isinstance(key, str) else key[0] for key in held._catalog} - {""}  # type: ignore[attr-defined]
    assert texts == {entry.key for entry in entries(catalogue(language, "po"))}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_translation_keeps_the_placeholders_and_is_whole(language: str) -> None:
    for entry in entries(catalogue(language, "po")):
        assert not entry.fuzzy and len(entry.said) == (2 if entry.plural else 1), entry.text
        for wanted, said in zip((entry.text, entry.plural), entry.said, strict=False):
            assert said.strip(), entry.text
            kept = Counter(HOLDER.findall(said))
            # A singular may leave its number out, as "one day" does.
            missing = Counter(HOLDER.findall(wanted)) - kept
            assert not missing and not kept - Counter(HOLDER.findall(wanted + entry.plural)), (entry.text, said)


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="Install GNU gettext: it finds the texts in the code.")
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_of_the_code_is_in_the_catalogue_and_nothing_else(language: str, tmp_path: Path) -> None:
    for name in ("config", "syncs", "connectors", "local", "templates", "static"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("manage.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "locale").mkdir()
    command = [sys.executable, "manage.py", "makemessages", "-v", "0", "-l", language]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = {entry.key for entry in entries(tmp_path / "locale" / language / "LC_MESSAGES" / "django.po")}
    held = {entry.key for entry in entries(catalogue(language, "po"))}
    assert wanted - held == set(), "texts without a translation"
    assert held - wanted == set(), "translations of texts that are gone"


@pytest.mark.parametrize(("language", "said"), [("en", "healthy"), ("de", "gesund"), ("hi", "स्वस्थ")])
def test_a_state_is_said_in_the_reader_s_language(language: str, said: str) -> None:
    with translation.override(language):
        assert str(next(word for code, word in words.HEALTH.items() if code.value == "healthy")).lower() == said
