"""Tensors of texts: from str to str, compiled where elements only move, by meaning elsewhere."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import declared, graph_of, model_from, of, saved

import lamina
from lamina.compiler import compile_to_file
from lamina.errors import FormatError, InputError, UnsupportedError
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.model_file import open_onnx
from lamina.targets.base import Executable
from lamina.targets.text_table import TEXT_TABLE

WORDS = np.array([["eins", "zwei", ""], ["три", "四", "a\nb"]], np.object_)
STRING = TensorProto.STRING


def texts(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, STRING, shape)


def made(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str | onnx.ValueInfoProto] = ("y",),
    *,
    stored: dict[str, Any] | None = None,
    target: str = "cpu",
    hosted: bool = False,
) -> Executable:
    graph = graph_of(nodes, inputs, outputs, stored)
    model = model_from(graph, domains={"ai.onnx.ml": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if hosted else "error")
        return lamina.compile(model_of(open_onnx(model)), target)


INDICES = np.array([1, 0, -1])

MOVES: dict[str, tuple[onnx.NodeProto, dict[str, Any], Any]] = {
    "Gather": (of("Gather", "x i", "y", axis=1), {"i": INDICES}, WORDS[:, INDICES]),
    "Concat": (of("Concat", "x x", "y", axis=0), {}, np.concatenate([WORDS, WORDS])),
    "Transpose": (of("Transpose", "x", "y"), {}, WORDS.T),
    "Reshape": (of("Reshape", "x s", "y"), {"s": np.array([3, 2])}, WORDS.reshape(3, 2)),
    "Identity": (of("Identity", "x", "y"), {}, WORDS),
    "Tile": (of("Tile", "x r", "y"), {"r": np.array([1, 2])}, np.tile(WORDS, 2)),
    "Slice": (
        of("Slice", "x b e", "y"),
        {"b": np.array([0, 1]), "e": np.array([2, 3])},
        WORDS[:, 1:],
    ),
    "Pad": (
        of("Pad", "x p v", "y"),
        {"p": np.array([0, 0, 0, 1]), "v": np.array("rand", np.object_)},
        np.pad(WORDS, ((0, 0), (0, 1)), constant_values="rand"),
    ),
    "Trilu": (
        of("Trilu", "x", "y", upper=0),
        {},
        np.where(np.tri(2, 3, dtype=np.bool_), WORDS, ""),
    ),
    "ScatterElements": (
        of("ScatterElements", "x i u", "y"),
        {"i": np.array([[1]]), "u": np.array([["neu"]], np.object_)},
        np.array([["eins", "zwei", ""], ["neu", "四", "a\nb"]], np.object_),
    ),
    "Equal": (
        of("Equal", "x v", "y"),
        {"v": np.array("zwei", np.object_)},
        np.equal(WORDS, "zwei").astype(np.bool_),
    ),
}


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("operator", MOVES)
def test_operators_that_move_or_compare_texts_are_compiled(operator: str, target: str) -> None:
    node, stored, expected = MOVES[operator]
    exe = made([node], [texts("x", 2, 3)], stored=stored, target=target)
    np.testing.assert_array_equal(exe(WORDS)["y"], expected)


def test_a_where_chooses_between_texts_by_a_mask_that_is_an_input() -> None:
    mask = np.array([True, False, True])
    node = of("Where", "m x v", "y")
    exe = made(
        [node],
        [declared("m", mask), texts("x", "N", 3)],
        stored={"v": np.array("ersatz", np.object_)},
    )
    np.testing.assert_array_equal(exe(mask, WORDS)["y"], np.where(mask, WORDS, "ersatz"))


def test_which_branch_is_taken_decides_which_texts_come() -> None:
    sides = [graph_of([of("Identity", n, f"{n}_")], [], [f"{n}_"], name=n) for n in ("x", "z")]
    node = of("If", "c", "y", then_branch=sides[0], else_branch=sides[1])
    exe = made([node], [declared("c", np.bool_(0)), texts("x", 2), texts("z", 2)])
    found = exe(np.array(False), np.array(["a", "b"]), np.array(["c", "d"]))
    assert found["y"].tolist() == ["c", "d"]


HOSTED: dict[str, tuple[onnx.NodeProto, Any, list[Any]]] = {
    "StringConcat": (of("StringConcat", "x x", "y"), WORDS, (WORDS + WORDS).tolist()),
    "StringNormalizer": (
        of("StringNormalizer", "x", "y", case_change_action="UPPER", stopwords=["ein"]),
        np.array(["Ein", "straße", "ein", ""]),
        ["STRASSE", ""],
    ),
    "StringSplit": (
        of("StringSplit", "x", "y n", delimiter="·"),
        np.array(["a·b", "c"]),
        [["a", "b"], ["c", ""]],
    ),
    "RegexFullMatch": (
        of("RegexFullMatch", "x", "y", pattern=r"\pL+"),
        np.array(["große", "a b", ""]),
        [True, False, False],
    ),
    "RegexFullMatch in linear time": (
        of("RegexFullMatch", "x", "y", pattern="(a*)*b"),
        np.array(["a" * 5000]),
        [False],
    ),
    "Unique": (
        of("Unique", "x", "y", axis=0),
        np.array([["b", "a"], ["a", "z"], ["b", "a"]]),
        [["a", "z"], ["b", "a"]],
    ),
    "Compress": (
        of("Compress", "x m", "y", axis=0),
        np.array(["a", "b", "c"]),
        ["a", "c"],
    ),
    "LabelEncoder of texts": (
        of(
            "LabelEncoder",
            "x",
            "y",
            domain="ai.onnx.ml",
            keys_strings=["ä", "b"],
            values_int64s=[7, 8],
            default_int64=9,
        ),
        np.array(["b", "ä", "c"]),
        [8, 7, 9],
    ),
    "TfIdfVectorizer": (
        of(
            "TfIdfVectorizer",
            "x",
            "y",
            mode="TF",
            min_gram_length=1,
            max_gram_length=1,
            max_skip_count=0,
            ngram_counts=[0],
            ngram_indexes=[1, 0],
            pool_strings=["ja", "nein"],
        ),
        np.array(["nein", "ja", "nein"]),
        [2.0, 1.0],
    ),
}


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("operator", HOSTED)
def test_operators_on_texts_run_by_meaning(operator: str, target: str) -> None:
    node, x, expected = HOSTED[operator]
    outputs = [name for name in node.output if name]
    stored = {"m": np.array([True, False, True])}
    exe = made([node], [texts("x", *x.shape)], outputs, stored=stored, target=target, hosted=True)
    assert exe(x)["y"].tolist() == expected


NUMBERS: dict[str, tuple[Any, list[str]]] = {
    "float32": ([0.1, -0.0, 1, 1e-7, np.nan, np.inf, -np.inf],
                ["0.1", "-0.0", "1.0", "0.0000001", "NaN", "INF", "-INF"]),
    "float16": ([0.1], ["0.1"]),
    "float64": ([1e20, 0.1], ["100000000000000000000.0", "0.1"]),
    "int8": ([-128], ["-128"]),
    "uint64": ([2**64 - 1], ["18446744073709551615"]),
    "bool": ([True, False], ["True", "False"]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_become_texts_and_numbers_again(dtype: str) -> None:
    numbers, spelt = np.array(NUMBERS[dtype][0], dtype), NUMBERS[dtype][1]
    kind = helper.np_dtype_to_tensor_dtype(numbers.dtype)
    nodes = [of("Cast", "x", "y", to=STRING), of("Cast", "y", "z", to=kind)]
    exe = made(nodes, [declared("x", numbers)], ["y", "z"], hosted=True)
    found = exe(numbers)
    assert found["y"].tolist() == spelt
    np.testing.assert_array_equal(found["z"], numbers)


def test_numbers_are_read_as_the_standard_writes_them() -> None:
    written = ["+INF", "-inf", "nAn", "1e5", " 2.", ".5"]
    exe = made(
        [of("Cast", "x", "y", to=TensorProto.FLOAT)], [texts("x", len(written))], hosted=True
    )
    np.testing.assert_array_equal(exe(written)["y"], [np.inf, -np.inf, np.nan, 1e5, 2, 0.5])


@pytest.mark.parametrize("text", ["", "1_0", "²", "Hello", "128", "nan", "9" * 500])
def test_what_is_no_number_of_the_type_is_refused(text: str) -> None:
    exe = made([of("Cast", "x", "y", to=TensorProto.INT8)], [texts("x", 1)], hosted=True)
    with pytest.raises(InputError, match="is no int8"):
        exe(np.array([text]))


def test_a_text_goes_round_a_loop_whose_rounds_are_an_input() -> None:
    body = graph_of(
        [of("StringConcat", "s x", "t"), of("Identity", "c", "d")],
        [declared("n", np.int64(0)), declared("c", np.bool_(0)), texts("s", 1)],
        ["d", "t"],
        name="body",
    )
    node = of("Loop", "n go x", "y", body=body)
    inputs = [declared("n", np.int64(0)), texts("x", 1)]
    stored = {"go": np.array(True)}
    exe = made([node], inputs, [texts("y", 1)], stored=stored, hosted=True)
    assert exe(np.array(3), np.array(["ab"]))["y"].tolist() == ["abababab"]


CALLERS = {
    "U": np.array(["a", "ß"]),
    "objects": np.array(["a", "ß"], np.object_),
    "StringDType": np.array(["a", "ß"], np.dtypes.StringDType()),
    "str_": np.array([np.str_("a"), np.str_("ß")], np.object_),
    "a list": ["a", "ß"],
}


@pytest.mark.parametrize("kind", CALLERS)
def test_texts_come_in_every_form_and_leave_as_objects_of_str(kind: str) -> None:
    exe = made([of("Identity", "x", "y")], [texts("x", 2)])
    found = exe(CALLERS[kind])["y"]
    assert found.dtype == np.object_
    assert [type(each) for each in found] == [str, str]
    assert found.tolist() == ["a", "ß"]


WRONG = {
    "numbers": (np.zeros(2), "got float64"),
    "bytes": (np.array([b"a", b"b"]), r"got \|S1"),
    "None": (np.array(["a", None], np.object_), "got NoneType among them"),
    "ragged": ([["a"], ["b", "c"]], "what is no array"),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_what_is_no_text_is_refused_by_name(kind: str, target: str) -> None:
    exe = made([of("Identity", "x", "y")], [texts("x", 2)], target=target)
    value, said = WRONG[kind]
    with pytest.raises(InputError, match=f"input 'x': expected texts .*{said}"):
        exe(value)


def test_texts_for_an_input_of_numbers_are_refused() -> None:
    exe = made([of("Identity", "x", "y")], [declared("x", np.zeros(1, np.int64))])
    with pytest.raises(InputError, match="input 'x': expected int64"):
        exe(np.array(["a"]))


@pytest.mark.parametrize("x", [np.empty((0,), "U1"), np.empty((0,), np.object_), []])
def test_there_may_be_no_texts(x: Any) -> None:
    exe = made([of("StringConcat", "x x", "y")], [texts("x", "N")], hosted=True)
    assert exe(x)["y"].shape == (0,)


@pytest.mark.parametrize("operator", ["Add", "Less", "ReduceMax", "Relu", "MatMul"])
def test_no_operator_calculates_with_texts(operator: str) -> None:
    node = of(operator, "x x" if operator in ("Add", "Less", "MatMul") else "x", "y")
    with pytest.raises((UnsupportedError, FormatError), match="element type string"):
        made([node], [texts("x", 2)])


def test_texts_and_numbers_do_not_meet() -> None:
    with pytest.raises(FormatError, match="input 1: expected element type string"):
        made([of("Equal", "x n", "y")], [texts("x", 1), declared("n", np.zeros(1, np.int64))])


def test_bytes_that_are_no_utf_8_are_kept() -> None:
    node = helper.make_node("Constant", [], ["v"], value_strings=[b"\xff", b"a"])
    exe = made([node, of("Identity", "v", "y")], [])
    assert [each.encode("utf-8", "surrogateescape") for each in exe()["y"]] == [b"\xff", b"a"]


def test_a_pattern_that_is_none_is_named() -> None:
    exe = made([of("RegexFullMatch", "x", "y", pattern="(")], [texts("x", 1)], hosted=True)
    with pytest.raises(FormatError, match=r"attribute pattern: '\('"):
        exe(np.array(["a"]))


def test_texts_of_a_call_are_forgotten_and_those_of_constants_are_not() -> None:
    node = of("Where", "m x v", "y")
    mask = np.array([True, False])
    exe = made(
        [node], [declared("m", mask), texts("x", 2)], stored={"v": np.array("fest", np.object_)}
    )
    for word in ("eins", "zwei"):
        assert exe(mask, np.array([word, word]))["y"].tolist() == [word, "fest"]
    assert len(TEXT_TABLE) == 0


def test_calls_in_threads_do_not_take_texts_from_one_another() -> None:
    node = of("StringConcat", "x x", "y")
    exe = made([node], [texts("x", "N")], hosted=True)

    def call(n: int) -> bool:
        x = np.array([f"{n}.{i}" for i in range(20)], np.object_)
        return all(exe(x)["y"].tolist() == (x + x).tolist() for _ in range(10))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(8)))
    assert len(TEXT_TABLE) == 0


MANY = np.array([f"wort {n}" for n in range(3000)], np.object_)


def test_a_large_table_of_texts_is_a_weight() -> None:
    places = np.array([2999, 0])
    exe = made([of("Gather", "v i", "y")], [declared("i", places)], stored={"v": MANY})
    assert exe(places)["y"].tolist() == ["wort 2999", "wort 0"]


CALL = """
import sys, numpy as np, lamina
sys.modules["lamina.passes.fuse_groups"] = None  # no pass can be run
exe = lamina.compile(lamina.read(sys.argv[1], defer=True))
print(exe(np.array(["ä"]))["y"].tolist())
"""


@pytest.fixture
def greeting(tmp_path: Path) -> Path:
    node = of("Concat", "x v", "y", axis=0)
    stored = {"v": np.array(['"Ö"\n\\', ""], np.object_)}
    return saved(model_from(graph_of([node], [texts("x", "N")], ["y"], stored)), tmp_path)


def _called(path: Path, code: str, cache: Path) -> str:
    env = {**os.environ, "LAMINA_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_code_from_the_cache_knows_its_texts_in_another_process(
    greeting: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    first = _called(greeting, CALL.replace("sys.modules[", "dict()["), cache)
    assert first == str(["ä", '"Ö"\n\\', ""])
    assert _called(greeting, CALL, cache) == first


def test_a_compiled_file_knows_its_texts(greeting: Path, tmp_path: Path) -> None:
    place = tmp_path / "m.lamina"
    compile_to_file(lamina.read(greeting), place)
    exe = lamina.compile(lamina.read(place))
    assert [each.elements for each in (*exe.inputs, *exe.outputs)] == ["text", "text"]
    assert exe(["ä"])["y"].tolist() == ["ä", '"Ö"\n\\', ""]


def test_the_command_reads_makes_up_and_writes_texts(
    greeting: Path, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    np.save(tmp_path / "x.npy", np.array(["ä", "b c"]))
    given = ("--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path, "--json")
    _, out, _ = command("run", greeting, *given)
    (said,) = json.loads(out)["outputs"]
    assert (said["dtype"], said["distinct"], said["first"][:2]) == ("text", 4, ["ä", "b c"])
    assert np.load(tmp_path / "y.npy").tolist() == ["ä", "b c", '"Ö"\n\\', ""]
    _, out, _ = command("run", greeting, "--random", "--dim", "N=3")
    assert "y     text   [5]" in out


def test_the_command_refuses_numbers_for_texts(
    greeting: Path, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2))
    code, _, err = command("run", greeting, "--input", f"x={tmp_path / 'x.npy'}")
    assert (code, "input 'x': expected texts" in err) == (1, True)


def test_every_stage_knows_its_texts(greeting: Path, tmp_path: Path) -> None:
    lamina.compile(lamina.read(greeting), dump=tmp_path / "stages")
    stages = sorted((tmp_path / "stages").glob("*.mlir"))
    for stage in (stages[0], stages[len(stages) // 2], stages[-1]):
        exe = lamina.compile(lamina.read(stage), "reference")
        assert exe(["ä"])["y"].tolist() == ["ä", '"Ö"\n\\', ""]
