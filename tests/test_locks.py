"""The locks name exact versions with hashes, and nothing of the place where they were made."""

import re
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
LOCKS = ("runtime", "demo", "dev")
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements(text: str) -> list[str]:
    """The requirements of a lock, continued lines joined, comments dropped."""
    kept = "\n".join(line for line in text.splitlines() if not line.strip().startswith("#"))
    return [line.strip() for line in kept.replace("\\\n", " ").splitlines() if line.strip()]


def faults(text: str) -> list[str]:
    """What a lock must not hold."""
    found = [mark for mark in ("://", "--index-url", "--find-links", "--trusted-host", "file:", "@ ") if mark in text]
    found += [line for line in text.splitlines() if re.search(r"(^|[\s\"'=])(/|~/|[A-Za-z]:\\)", line)]
    for requirement in requirements(text):
        pinned = PIN.match(requirement)
        if not pinned or not HASH.search(requirement):
            found.append(requirement)
    return found


def pins(name: str) -> dict[str, str]:
    lines = requirements((REQUIREMENTS / f"{name}.txt").read_text())
    return {_normal(match[1]): match[2] for line in lines if (match := PIN.match(line))}


def asked(name: str) -> set[str]:
    """What an .in file names, the files it includes left out."""
    lines = requirements((REQUIREMENTS / f"{name}.in").read_text())
    return {_normal(re.split(r"[\[<>=!~; ]", line)[0]) for line in lines if not line.startswith("-r")}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_only_pinned_requirements_with_hashes(name: str) -> None:
    assert faults((REQUIREMENTS / f"{name}.txt").read_text()) == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_what_its_source_asks_for(name: str) -> None:
    assert asked(name) - set(pins(name)) == set()


def test_the_locks_are_cut_out_of_one_another() -> None:
    runtime, demo, dev = (pins(name) for name in LOCKS)
    assert runtime.items() <= demo.items() <= dev.items()
    assert len(runtime) < len(demo) < len(dev)


def test_the_zone_data_are_pinned_by_hand() -> None:
    """PRODUCT 8.2: the same time zones on every host, also after the locks are made anew."""
    assert f"tzdata=={pins('runtime')['tzdata']}" in requirements((REQUIREMENTS / "runtime.in").read_text())


@pytest.mark.parametrize(
    "line",
    [
        "django==5.2.1",
        "django>=5.2 --hash=sha256:" + "0" * 64,
        "django==5.2.1 --hash=sha256:short",
        "--index-url https://example.test/simple",
        "--find-links wheels",
        "--trusted-host example.test",
        "django @ https://example.test/django.whl --hash=sha256:" + "0" * 64,
        "# made in /home/somebody/vigil",
    ],
)
def test_a_careless_line_would_be_found(line: str) -> None:
    assert faults(f"{line}\n") != []
