import os
import re
import stat
import tempfile
from pathlib import Path

import pytest

from lamina import knobs
from lamina.errors import InputError

ROOT = Path(__file__).parents[2]


def test_the_cache_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = knobs.cache_dir({"LAMINA_CACHE": str(tmp_path / "a" / "b")})
    assert folder == tmp_path / "a" / "b"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_xdg_folder_is_used_when_lamina_cache_is_unset(tmp_path: Path) -> None:
    assert knobs.cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "lamina"


def test_a_relative_xdg_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert knobs.cache_dir({"XDG_CACHE_HOME": "here"}) == tmp_path / ".cache" / "lamina"


def test_an_empty_lamina_cache_counts_as_unset(tmp_path: Path) -> None:
    environ = {"LAMINA_CACHE": "", "XDG_CACHE_HOME": str(tmp_path)}
    assert knobs.cache_dir(environ) == tmp_path / "lamina"


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777, 0o707])
def test_a_cache_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (folder := tmp_path / "open").mkdir()
    folder.chmod(mode)
    with pytest.raises(InputError, match=f"can be written by others .mode {mode:04o}"):
        knobs.cache_dir({"LAMINA_CACHE": str(folder)})


def test_a_cache_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (link := tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(InputError, match="is a link"):
        knobs.cache_dir({"LAMINA_CACHE": str(link)})


def test_a_cache_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a folder"):
        knobs.cache_dir({"LAMINA_CACHE": str(path)})


def test_a_cache_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be made"):
        knobs.cache_dir({"LAMINA_CACHE": str(tmp_path / "file" / "below" / "it")})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_cache_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (folder := tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(folder, 12345, -1)
    with pytest.raises(InputError, match="belongs to user 12345"):
        knobs.cache_dir({"LAMINA_CACHE": str(folder)})


@pytest.mark.parametrize(
    ("knob", "read"),
    [
        (knobs.PLUGINS, knobs.plugins_enabled),
        (knobs.DISK_CACHE, knobs.disk_cache_enabled),
    ],
)
def test_a_switch_is_on_unless_it_says_off(knob: knobs.Knob, read: object) -> None:
    assert callable(read)
    assert read({}) is True
    assert read({knob.name: "off"}) is False
    with pytest.raises(InputError, match=f"{knob.name} is 'no': expected on or off"):
        read({knob.name: "no"})


def test_no_other_module_reads_the_environment() -> None:
    readers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "lamina").rglob("*.py")
        if re.search(r"\b(environb?|getenvb?)\b", path.read_text(encoding="utf-8"))
    }
    assert readers == {"lamina/knobs.py"}


def test_where_nothing_can_be_kept_a_warning_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="; nothing is kept$"):
        assert knobs.kept_dir({"LAMINA_CACHE": str(tmp_path / "file" / "below")}) is None
    assert knobs.kept_dir({"LAMINA_DISK_CACHE": "off"}) is None


def test_nothing_is_kept_in_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link"):
        knobs.kept_dir({"LAMINA_CACHE": str(link)})


def test_an_unset_knob_is_what_its_table_says() -> None:
    assert knobs.plugins_enabled({})
    assert knobs.disk_cache_enabled({})
    assert knobs.huge_pages_enabled({}) is None


@pytest.mark.parametrize(("value", "read"), [("on", True), ("off", False), ("auto", None)])
def test_huge_pages_are_asked_for_refused_or_left_open(value: str, read: bool | None) -> None:
    assert knobs.huge_pages_enabled({"LAMINA_HUGE_PAGES": value}) is read
    with pytest.raises(InputError, match="is 'no': expected on or off or auto"):
        knobs.huge_pages_enabled({"LAMINA_HUGE_PAGES": "no"})


@pytest.mark.parametrize(
    ("environ", "named"),
    [({}, tempfile.gettempdir()), ({"XDG_RUNTIME_DIR": "/run/user/1"}, "/run/user/1")],
)
def test_a_folder_for_sockets_is_named_where_nobody_does(environ, named) -> None:
    knobs.name_runtime_folder(environ)
    assert environ == {"XDG_RUNTIME_DIR": named}
