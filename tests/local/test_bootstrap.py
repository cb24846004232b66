"""The environment of a checkout: made once, kept while it is right, made anew when it is not."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from local import bootstrap

ROOT = Path(bootstrap.__file__).parent.parent
PIP = Path("lib", f"python3.{sys.version_info[1]}", "site-packages", "pip", "__main__.py")


def requirement(checkout: Path, name: str, wrong_hash: bool = False) -> str:
    """One line of a lock: a package of one empty module, as a file of the checkout."""
    wheel = checkout / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    digest = "0" * 64 if wrong_hash else sha256(wheel.read_bytes()).hexdigest()
    return f"{wheel} --hash=sha256:{digest}\n"


def write_locks(checkout: Path, demo: str, dev: str) -> None:
    (checkout / "requirements" / "demo.txt").write_text(demo)
    (checkout / "requirements" / "dev.txt").write_text(dev)


def new_checkout(folder: Path) -> Path:
    for name in ("local/bootstrap.py", "script/bootstrap"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    (folder / "requirements").mkdir()
    one, two = requirement(folder, "vigil_one"), requirement(folder, "vigil_two")
    write_locks(folder, one, one + two)
    return folder


def start(
    checkout: Path, *words: str, script: str = "bootstrap", cwd: Path | None = None, **variables: str
) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name not in ("VIGIL_VENV", "PYTHON")}
    return subprocess.Popen(
        [checkout / "script" / script, *words],
        cwd=cwd or checkout,
        env=environment | {"PYTHON": sys.executable} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(checkout: Path, *words: str, cwd: Path | None = None, **variables: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    with start(checkout, *words, cwd=cwd, **variables) as running:
        out, err = running.communicate(timeout=120)
    return running.returncode, out, err


def modules(venv: Path) -> set[str]:
    return {path.stem for path in venv.glob("lib/python3.*/site-packages/vigil_*.py")}


def imitate_pip(checkout: Path, program: str) -> None:
    (checkout / ".venv" / PIP).write_text(program)


def appears(path: Path) -> bool:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return path.exists()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[int, str, str]]:
    """A checkout whose demo environment was really made, and what the script said."""
    checkout = new_checkout(tmp_path_factory.mktemp("made"))
    return checkout, call(checkout, "demo")


@pytest.fixture
def checkout(made: tuple[Path, tuple[int, str, str]], tmp_path: Path) -> Path:
    """A copy of it: environments made here find everything from where they stand."""
    return Path(shutil.copytree(made[0], tmp_path / "checkout", symlinks=True))


# --- The way it should be ---------------------------------------------------------------------------------------------
def test_the_first_call_makes_the_environment_and_prints_its_python(made: tuple[Path, tuple[int, str, str]]) -> None:
    checkout, (code, out, err) = made

    assert (code, out) == (0, f"{checkout}/.venv/bin/python\n")
    assert [line.split(" ")[0] for line in err.splitlines()] == ["Making", "Installing", "Ready"]
    assert modules(checkout / ".venv") == {"vigil_one"}
    version = [out.strip(), "-c", "import sys; print(*sys.version_info[:3])"]
    assert subprocess.check_output(version, text=True).split() == [str(part) for part in sys.version_info[:3]]


def test_a_second_call_from_anywhere_does_nothing(checkout: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (checkout / ".venv").rglob("*")}

    assert call(checkout, "demo", cwd=tmp_path) == (0, f"{checkout}/.venv/bin/python\n", "")
    assert {path: path.stat().st_mtime_ns for path in (checkout / ".venv").rglob("*")} == before


def test_a_larger_lock_is_added_and_covers_the_smaller_one(checkout: Path) -> None:
    code, _, err = call(checkout, "dev")

    assert (code, err.startswith("Installing")) == (0, True)
    assert modules(checkout / ".venv") == {"vigil_one", "vigil_two"}
    assert call(checkout, "demo")[2] == ""


def test_a_changed_lock_is_installed_again(checkout: Path) -> None:
    write_locks(checkout, requirement(checkout, "vigil_three"), "")

    code, _, err = call(checkout, "demo")

    assert (code, err.startswith("Installing")) == (0, True)
    assert "vigil_three" in modules(checkout / ".venv")


def test_another_place_can_be_named(checkout: Path, tmp_path: Path) -> None:
    shutil.move(checkout / ".venv", tmp_path / "elsewhere")

    found = call(checkout, "demo", cwd=tmp_path, VIGIL_VENV="elsewhere")

    assert found == (0, f"{tmp_path}/elsewhere/bin/python\n", "")
    assert not (checkout / ".venv").exists()


# --- Interrupted and broken -------------------------------------------------------------------------------------------
def test_an_environment_without_its_stamp_is_made_anew(checkout: Path) -> None:
    (checkout / ".venv" / "vigil.stamp").unlink()
    (checkout / ".venv" / "left-over").touch()

    code, _, err = call(checkout, "demo")

    assert (code, err.splitlines()[0]) == (0, "Making .venv anew.")
    assert not (checkout / ".venv" / "left-over").exists()
    assert call(checkout, "demo")[2] == ""


def test_ctrl_c_half_way_leaves_nothing_that_passes_for_whole(checkout: Path) -> None:
    imitate_pip(
        checkout, "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(60)\n"
    )
    write_locks(checkout, "# changed\n", "")
    with start(checkout, "demo") as running:
        assert appears(checkout / "pid")
        time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)

    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "Interrupted; run it again to go on."
    assert not (checkout / ".venv" / "vigil.stamp").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((checkout / "pid").read_text()), 0)


@pytest.mark.parametrize("script", ["demo", "test"])
def test_a_signal_to_a_script_that_installs_ends_its_pip_and_all(checkout: Path, script: str) -> None:
    """Whoever started the script knows one process: that one gets it."""
    shutil.copy2(ROOT / "script" / script, checkout / "script" / script)
    imitate_pip(
        checkout, "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(60)\n"
    )
    write_locks(checkout, "# changed\n", "")
    with start(checkout, script=script) as running:
        assert appears(checkout / "pid")
        time.sleep(0.05)
        running.terminate()
        out, err = running.communicate(timeout=30)

    assert (running.returncode, out) == (143, "")
    assert err.splitlines()[-1] == "Ended; run it again to go on."
    assert not (checkout / ".venv" / "vigil.stamp").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((checkout / "pid").read_text()), 0)


def test_further_words_are_run_in_the_checkout_by_its_python_as_the_same_process(
    checkout: Path, tmp_path: Path
) -> None:
    program = "import os, sys; print(os.getpid(), os.getcwd(), sys.prefix, *sys.argv[1:])"
    with start(checkout, "demo", "-c", program, "--once", "a b", cwd=tmp_path) as running:
        out, err = running.communicate(timeout=60)

    assert (running.returncode, out, err) == (0, f"{running.pid} {checkout} {checkout}/.venv --once a b\n", "")


def test_nobody_begins_before_the_pip_of_a_killed_call_has_ended(checkout: Path) -> None:
    imitate_pip(
        checkout,
        "import pathlib, time\n"
        "pathlib.Path('started').touch()\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.02)\n"
        "pathlib.Path('.venv/late').touch()\n",
    )
    write_locks(checkout, "# changed\n", "")
    with start(checkout, "demo") as killed:
        assert appears(checkout / "started")
        killed.kill()
    with start(checkout, "demo") as second:
        assert second.stderr is not None
        assert second.stderr.readline() == "Waiting for another process that is making .venv.\n"
        (checkout / "go").touch()
        _, err = second.communicate(timeout=60)

    assert (second.returncode, err.splitlines()[0]) == (0, "Making .venv anew.")
    assert not (checkout / ".venv" / "late").exists()


def test_two_calls_at_once_install_once(checkout: Path) -> None:
    write_locks(checkout, requirement(checkout, "vigil_three"), "")
    racing = [start(checkout, "demo") for _ in range(2)]
    answers = [(*running.communicate(timeout=60), running.returncode) for running in racing]

    assert [(out, code) for out, _, code in answers] == [(f"{checkout}/.venv/bin/python\n", 0)] * 2
    assert "".join(err for _, err, _ in answers).count("Installing") == 1


def test_an_environment_whose_python_is_gone_is_not_sound(checkout: Path) -> None:
    venv = checkout / ".venv"
    assert bootstrap._is_sound(venv, bootstrap._stamp(venv), None)
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/nowhere/python")

    assert not bootstrap._is_sound(venv, bootstrap._stamp(venv), None)


def test_another_python_is_only_made_room_for_when_it_is_asked_for(checkout: Path) -> None:
    """Without PYTHON a good environment of any supported version is kept."""
    venv = checkout / ".venv"
    stamp = bootstrap._stamp(venv)
    here = sys.version_info[:2]
    other = (3, 12) if here != (3, 12) else (3, 13)

    assert [bootstrap._is_sound(venv, stamp, asked) for asked in (None, here, other)] == [True, True, False]
    assert not bootstrap._is_sound(venv, stamp | {"python": "3.10"}, None)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"locks": 3}'])
def test_an_unreadable_stamp_counts_as_none(checkout: Path, text: str) -> None:
    (checkout / ".venv" / "vigil.stamp").write_text(text)

    assert not bootstrap.is_whole(checkout / ".venv", "demo", None)


# --- One clear sentence -----------------------------------------------------------------------------------------------
def test_when_pip_fails_its_last_lines_and_one_sentence_are_shown(checkout: Path) -> None:
    write_locks(checkout, requirement(checkout, "vigil_four", wrong_hash=True), "")

    code, out, err = call(checkout, "demo")

    assert (code, out) == (1, "")
    assert "Expected sha256 " + "0" * 64 in err
    assert err.splitlines()[-1].startswith("Installing requirements/demo.txt failed; the lines above say why.")
    assert "Traceback" not in err
    assert not (checkout / ".venv" / "vigil.stamp").exists()


def test_somebody_elses_folder_is_left_alone(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()

    code, out, err = call(checkout, "demo", VIGIL_VENV=str(tmp_path / "mine"))

    assert (code, out) == (1, "")
    assert err == f"{tmp_path}/mine was not made by Vigil: remove it, or name another folder in VIGIL_VENV.\n"
    assert list((tmp_path / "mine").iterdir()) == [tmp_path / "mine" / "letter"]


@pytest.mark.parametrize("version", [(3, 10), (3, 14), (2, 7)])
def test_an_unsupported_python_is_refused(version: tuple[int, int]) -> None:
    with pytest.raises(bootstrap.NotReady) as refusal:
        bootstrap.require_python(version)

    assert str(refusal.value).startswith(f"Vigil runs on Python 3.11, 3.12 and 3.13, and this is {version[0]}.")


def test_a_python_that_does_not_fit_is_refused_by_the_script(checkout: Path) -> None:
    code, out, err = call(checkout, "demo", PYTHON="/bin/false")

    assert (code, out) == (1, "")
    assert (
        err == "PYTHON is /bin/false, which is no Python 3.11, 3.12 or 3.13: install one of them and name it there.\n"
    )


def test_without_any_python_the_script_says_so(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dirname").symlink_to(shutil.which("dirname") or "")
    shutil.rmtree(checkout / ".venv")

    code, out, err = call(checkout, "demo", PYTHON="", PATH=str(tmp_path / "bin"))

    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("No Python 3.11, 3.12 or 3.13 was found: ")


def test_a_python_without_venv_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(bootstrap.NotReady, match=r"without its venv module: .*python3\.\d+-venv"):
        bootstrap.bootstrap("demo", tmp_path / "venv")

    assert not (tmp_path / "venv").exists()


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert [bootstrap.main(words) for words in ([], ["prod"], ["prod", "demo"])] == [2, 2, 2]
    assert capsys.readouterr().out == ""


def test_the_stamp_names_what_was_installed(made: tuple[Path, tuple[int, str, str]]) -> None:
    checkout = made[0]
    stamp = json.loads((checkout / ".venv" / "vigil.stamp").read_text())

    assert stamp == {
        "python": f"3.{sys.version_info[1]}",
        "executable": str((checkout / ".venv" / "bin" / "python").resolve()),
        "locks": {"demo": sha256((checkout / "requirements" / "demo.txt").read_bytes()).hexdigest()},
    }
