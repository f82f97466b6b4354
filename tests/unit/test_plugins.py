import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pluggy
import pytest

from lamina.errors import InputError, LaminaError
from lamina.plugins import builtin, hookimpl, hookspecs, lazy, manager

DOCS = Path(__file__).parents[2] / "docs"


def plugin(**hooks: Callable[[], object]) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def managed(**plugins: SimpleNamespace) -> pluggy.PluginManager:
    pm = manager.load()
    for name, each in plugins.items():
        pm.register(each, name)
    return pm


def whisper() -> Mapping[str, Callable[[], object]]:
    return {"shout": lazy("lamina.errors:InputError")}


def shout() -> Mapping[str, Callable[[], object]]:
    return {"shout": lazy("lamina.errors:LaminaError")}


@pytest.mark.parametrize("hook", manager.HOOKS)
def test_every_hook_has_a_section_in_the_docs(hook: str) -> None:
    assert f"## `{hook}" in (DOCS / "plugins.md").read_text()


@pytest.mark.parametrize("hook", manager.HOOKS)
def test_every_hook_is_used_by_the_box(hook: str) -> None:
    assert manager.BUILTIN in {offer.owner for offer in manager.offers(hook).values()}


@pytest.mark.parametrize("hook", manager.HOOKS)
def test_every_factory_of_the_box_makes_what_it_is_named_after(hook: str) -> None:
    for offer in manager.offers(hook, manager.load()).values():
        if isinstance(offer.key, str) and callable(offer.value):
            assert getattr(offer.value(), "name", offer.name) == offer.name


@pytest.mark.parametrize("tables", [builtin.MEANINGS, builtin.DECOMPOSITIONS, builtin.TILE_RULES])
def test_no_two_tables_of_the_box_share_a_key(tables: tuple[str, ...]) -> None:
    keys = [key for where in tables for key in lazy(where)()]
    assert len(keys) == len(set(keys))


def test_a_plugin_adds_to_what_there_is() -> None:
    found = manager.offers("register_targets", managed(acme=plugin(register_targets=shout)))
    assert found["shout"].owner == "acme"
    assert found["shout"].value() is LaminaError


def test_two_owners_of_one_name_are_both_named() -> None:
    pm = managed(one=plugin(register_targets=shout), two=plugin(register_targets=whisper))
    with pytest.raises(LaminaError, match="plugins one and two both claim 'shout'"):
        manager.offers("register_targets", pm)


def test_passes_are_put_at_extension_points_those_of_the_box_first() -> None:
    spec = "schedule-groups{rows=2}"
    pm = managed(acme=plugin(register_insertions=lambda: {spec: "kernels"}))
    assert [each.name for each in manager.insertions(pm)["kernels"]] == [
        "fuse-launches",
        "schedule-groups",
    ]


def test_an_insertion_at_no_extension_point_is_named() -> None:
    pm = managed(acme=plugin(register_insertions=lambda: {"fold-duplicates": "nowhere"}))
    with pytest.raises(LaminaError, match=r"plugin acme puts fold-duplicates at 'nowhere'.*groups"):
        manager.insertions(pm)


def test_converters_of_plugins_come_before_those_of_the_box() -> None:
    table = {("acme", "Swish"): [(1, repr)]}
    acme = plugin(register_operators=lambda: {"acme": lambda: table})
    first, last = manager.operators(managed(acme=acme))
    assert first is table
    assert ("", "Conv") in last


def test_a_hook_that_returns_no_mapping_is_named() -> None:
    pm = managed(acme=plugin(register_passes=lambda: ["fuse"]))
    with pytest.raises(LaminaError, match="register_passes of the plugin acme"):
        manager.offers("register_passes", pm)


def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> EntryPoint:
    (tmp_path / f"{tmp_path.name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    return EntryPoint("acme", tmp_path.name, hookspecs.PROJECT)


def test_a_misspelt_hook_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from lamina.plugins import hookimpl\n@hookimpl\ndef register_target(): ...\n"
    point = installed(tmp_path, monkeypatch, source)
    with pytest.raises(LaminaError, match=r"plugin acme .* unknown hook 'register_target'"):
        manager.load((point,))


def test_a_plugin_that_fails_to_import_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = installed(tmp_path, monkeypatch, "import no_such_module_anywhere\n")
    with pytest.raises(LaminaError, match=r"plugin acme .*no_such_module_anywhere.*PLUGINS=off"):
        manager.load((point,))


def test_an_unknown_target_is_answered_with_the_nearest() -> None:
    name = sorted(manager.targets())[0]
    with pytest.raises(InputError, match=f"no target '{name}x' .did you mean {name}"):
        manager.target(f"{name}x")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("a,,b", "cannot be read: Expected pass name here"),
        ("a{x=1", "cannot be read: Malformed pass arguments"),
        ("no-such-pass", "there is no pass 'no-such-pass'"),
    ],
)
def test_a_wrong_pipeline_is_answered_in_a_sentence(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        manager.parse_pipeline(spec)


def test_a_pass_refuses_an_unknown_option() -> None:
    name = sorted(manager.passes())[0]
    with pytest.raises(InputError, match=f"the pass {name}: .*no_such_option"):
        manager.parse_pipeline(f"{name}{{no-such-option=1}}")


def test_listing_targets_imports_none() -> None:
    code = (
        "import sys; from lamina.plugins import manager; manager.targets();"
        "print([m for m in sys.modules if m.startswith('lamina.targets.') or m == 'xdsl'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "['lamina.targets.known']\n"


def test_the_switch_leaves_only_the_box() -> None:
    code = "from lamina.plugins import manager; print(manager.manager().list_name_plugin())"
    environ = {"LAMINA_PLUGINS": "off", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, env=environ
    )
    assert done.stdout.count("('") == 1
    assert manager.BUILTIN in done.stdout


def test_xdsl_finds_no_name_twice() -> None:
    from xdsl.universe import XDSL_UNIVERSE

    from lamina.plugins.universe import UNIVERSE

    assert not UNIVERSE.all_dialects.keys() & XDSL_UNIVERSE.all_dialects.keys()
    assert not UNIVERSE.all_passes.keys() & XDSL_UNIVERSE.all_passes.keys()


@pytest.mark.parametrize("name", builtin.PASSES)
def test_a_pass_is_named_after_its_file_and_has_an_ir_test(name: str) -> None:
    stem = name.replace("-", "_")
    assert (DOCS.parent / "tests" / "ir" / f"{stem}.mlir").exists()
