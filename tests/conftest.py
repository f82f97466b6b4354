"""Fixtures, and the collector that runs the `// RUN:` lines of .mlir files in this process.

A RUN line is `lamina … | filecheck %s`, or `not lamina … 2>&1 | filecheck %s` for a command that
must fail; `%s` is the file itself.
"""

import gc
import io
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest
from filecheck.main import main as filecheck

from lamina.cli import main as lamina
from lamina.frontend.fetch import fetch

HERE = Path(__file__).parent
RUN = re.compile(r"// RUN: (?P<fails>not )?lamina (?P<tool>.*?)(?P<both> 2>&1)? \| (?P<check>.*)")
ON_CI = os.environ.get("CI") == "true"


class Beside(MetaPathFinder):
    """Finds the modules that tests share by their bare names: no folder of tests is on the path."""

    def __init__(self) -> None:
        found = [p for p in HERE.glob("*/*.py") if not p.name.startswith(("test_", "conftest"))]
        self.paths = {path.stem: path for path in found}

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        path = self.paths.get(fullname)
        return path and spec_from_file_location(fullname, path)


sys.meta_path.append(Beside())


def pytest_configure() -> None:
    # A shell that starts a command in the background has it ignore Ctrl-C, which tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Modules are many small objects that live long: looking through them often is a tenth of all.
    gc.set_threshold(50_000, 20, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.File | None:
    if file_path.suffix != ".mlir" or file_path.parent != HERE / "ir":
        return None
    return MlirFile.from_parent(parent, path=file_path)


class MlirFile(pytest.File):
    """A .mlir file: one test for each RUN line, and an error if there is none."""

    def collect(self) -> Iterator[pytest.Item]:
        lines = self.path.read_text(encoding="utf-8").splitlines()
        numbers = [number for number, line in enumerate(lines) if line.startswith("// RUN:")]
        if not numbers:
            raise self.CollectError(f"{self.path}: no RUN line")
        for number in numbers:
            yield RunLine.from_parent(self, name=f"line-{number + 1}", line=lines[number])


class RunLine(pytest.Item):
    """One RUN line."""

    def __init__(self, *, line: str, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.line = line

    def runtest(self) -> None:
        if not (parts := RUN.fullmatch(self.line)):
            pytest.fail(f"cannot be read: {self.line}", pytrace=False)
        tool, check = (
            [str(self.path) if word == "%s" else word for word in shlex.split(parts[part])]
            for part in ("tool", "check")
        )
        code, out, err = run_here(lambda: lamina(tool))
        if bool(code) != bool(parts["fails"]):
            pytest.fail(f"lamina {shlex.join(tool)} ended with {code}\n{err}", pytrace=False)
        text = out + err if parts["both"] else out
        code, told, more = run_here(lambda: filecheck(check), text)
        if code:
            pytest.fail(f"{told}{more}\n== what was checked\n{text}", pytrace=False)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.name}: {self.line}"


def run_here(command: Callable[[], None], stdin: str = "") -> tuple[int, str, str]:
    """Run a command's `main` in this process; return its exit code, output and errors."""
    code: object = 0
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        before, sys.stdin = sys.stdin, io.StringIO(stdin)
        try:
            command()
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            sys.stdin = before
    return int(str(code)), out.getvalue(), err.getvalue()


@contextmanager
def cache_of_the_user() -> Iterator[None]:
    """Let the tests' own cache folder aside."""
    with pytest.MonkeyPatch.context() as patch:
        if USERS_CACHE is None:
            patch.delenv("LAMINA_CACHE", raising=False)
        else:
            patch.setenv("LAMINA_CACHE", USERS_CACHE)
        yield


USERS_CACHE = os.environ.get("LAMINA_CACHE")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the user's cache folder, but for fetched models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_CACHE", str(tmp_path_factory.mktemp("cache") / "lamina"))
        yield


@pytest.fixture(scope="session")
def fetched() -> Callable[[str], Path]:
    """Return the path of a model that `lamina fetch` knows, fetched if it is not there."""

    def bring(name: str) -> Path:
        with cache_of_the_user():
            return fetch(name, quiet=True)

    return bring


@pytest.fixture(scope="session")
def command() -> Callable[..., tuple[int, str, str]]:
    """Run `lamina` with the given arguments here; return its exit code, output and errors."""
    return lambda *arguments: run_here(lambda: lamina([str(each) for each in arguments]))


@pytest.fixture(scope="session")
def needs() -> Callable[..., str]:
    """Return the path of the first tool there is, or of a file that a tool needs.

    Without any, skip, or fail where `.ci/run` should bring it.
    """

    def find(*tools: str, package: str) -> str:
        found = filter(None, (shutil.which(tool, os.F_OK) for tool in tools))
        if path := next(found, None):
            return path
        reason = f"{' or '.join(tools)} is missing: install the Debian package {package}"
        if ON_CI:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

    return find


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare text with `tests/golden/<test>.txt`, or write it under `--update-golden`."""
    name = re.sub(r"[^\w.-]+", "_", request.node.name)
    path = HERE / "golden" / f"{name}.txt"

    def check(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
