"""What `lamina check` says of ONNX models: everything at once, with codes that stay the same."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_graphs import declared, graph_of, model_from, of, saved

from lamina.cli import main as lamina
from lamina.frontend.examination import BY_MEANING, COMPILED, REFUSED, UNCHECKED
from lamina.frontend.onnx.examiner import SUGGESTIONS, examine

X = declared("x", shape=["n", 4])


def checked(folder: Path, *nodes, opset: int = 23, outputs=("y",), inputs=(X,), **more):
    model = model_from(graph_of(list(nodes), list(inputs), list(outputs)), opset, **more)
    return examine(saved(model, folder))


def codes(found) -> dict[str, str]:
    return {finding.node: finding.code for finding in found.findings}


def test_every_refusal_is_said_at_once_with_its_node(tmp_path: Path) -> None:
    found = checked(
        tmp_path,
        of("Nope", "x", "a", name="first"),
        of("Relu", "x", "b", name="fine"),
        of("Swish", "b", "c", name="custom", domain="acme"),
        of("Resize", "x", "y", name="mode", mode="strange"),
        outputs=("a", "c", "y"),
    )
    assert codes(found) == {"first": "ONNX-OP", "custom": "ONNX-OP", "mode": "ONNX-ATTR"}
    assert (found.count(REFUSED), found.count(COMPILED), found.coverage) == (3, 1, 0.25)


def test_what_depends_on_a_refused_node_is_checked_for_its_operator(tmp_path: Path) -> None:
    nodes = of("Nope", "x", "a"), of("Relu", "a", "b"), of("Nope2", "b", "y", name="later")
    found = checked(tmp_path, *nodes)
    assert codes(found) == {"a": "ONNX-OP", "later": "ONNX-OP"}
    assert found.count(UNCHECKED) == 1


def test_a_suggestion_names_the_nearest_operator(tmp_path: Path) -> None:
    (finding,) = checked(tmp_path, of("Geluu", "x", "y")).findings
    assert finding.suggestion.startswith("did you mean Gelu")


def test_an_operator_of_another_version_is_told_from_an_unknown_one(tmp_path: Path) -> None:
    nodes = of("FastGelu", "x", "y", domain="com.microsoft"), of("FastGelu", "x", "z", name="n")
    found = checked(tmp_path, *nodes, outputs=("y", "z"))
    assert codes(found) == {"n": "ONNX-OP"}


def test_what_is_refused_within_a_branch_is_named_by_its_path(tmp_path: Path) -> None:
    then = graph_of([of("Nope", "x", "t", name="inner")], [], ["t"])
    other = graph_of([of("Relu", "x", "e")], [], ["e"])
    node = of("If", "c", "y", then_branch=then, else_branch=other)
    found = checked(tmp_path, node, inputs=(X, declared("c", np.array(True))))
    assert codes(found)["y/then_branch/inner"] == "ONNX-OP"


def test_a_branch_that_cannot_be_right_is_for_when_it_is_taken(tmp_path: Path) -> None:
    then = graph_of([of("Softmax", "x", "t", axis=7, name="wrong")], [], ["t"])
    other = graph_of([of("Relu", "x", "e")], [], ["e"])
    node = of("If", "c", "y", then_branch=then, else_branch=other)
    found = checked(
        tmp_path,
        node,
        inputs=(X, declared("c", np.array(True))),
        outputs=(declared("y", shape=["n", 4]),),
    )
    assert not found.findings
    assert found.count(BY_MEANING) == found.total == 3


def test_a_node_that_runs_by_its_meaning_is_counted_apart(tmp_path: Path) -> None:
    found = checked(tmp_path, of("Unique", "x", "y"))
    assert dict(found.nodes) == {("Unique", BY_MEANING): 1}


def test_nodes_of_a_function_of_the_file_are_nodes(tmp_path: Path) -> None:
    body = [of("Relu", "a", "b"), of("Nope", "b", "c", name="inner")]
    opsets = [helper.make_opsetid("", 23)]
    function = helper.make_function("acme", "F", ["a"], ["c"], body, opsets)
    node = of("F", "x", "y", domain="acme")
    found = checked(tmp_path, node, functions=[function], domains={"acme": 1})
    assert codes(found) == {"acme:F/inner": "ONNX-OP"}
    assert found.total == 3


@pytest.mark.parametrize(
    ("opset", "code"), [(5, "ONNX-OPSET"), (0, "ONNX-OPSET"), (1000, "ONNX-OPSET")]
)
def test_a_version_that_is_not_known_is_a_finding(tmp_path: Path, opset: int, code: str) -> None:
    (finding,) = checked(tmp_path, of("Relu", "x", "y"), opset=opset).findings
    assert finding.code == code


def test_an_input_of_no_rank_is_a_finding_of_its_rank(tmp_path: Path) -> None:
    found = checked(tmp_path, of("Relu", "x", "y"), inputs=(declared("x", shape=None),))
    assert codes(found) == {"x": "ONNX-RANK"}


def test_an_element_type_that_is_not_served_is_a_finding_of_its_type(tmp_path: Path) -> None:
    found = checked(
        tmp_path, of("Relu", "x", "y"), inputs=(helper.make_tensor_value_info("x", 8, [2]),)
    )
    assert codes(found) == {"y": "ONNX-TYPE"}


def test_a_damaged_file_is_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x0a\xff")
    assert [finding.code for finding in examine(path).findings] == ["ONNX-FORMAT"]


def test_every_code_has_a_suggestion(tmp_path: Path) -> None:
    assert all(code.startswith("ONNX-") and text for code, text in SUGGESTIONS.items())


def test_the_command_exits_with_1_and_prints_a_row_for_each(tmp_path: Path, capsys) -> None:
    model = model_from(graph_of([of("Nope", "x", "y", name="first")], [X], ["y"]))
    with pytest.raises(SystemExit, match="1"):
        lamina(["check", str(saved(model, tmp_path))])
    assert "ONNX-OP  first  Nope" in capsys.readouterr().out


def test_the_command_prints_one_object(tmp_path: Path, capsys) -> None:
    path = saved(model_from(graph_of([of("Relu", "x", "y")], [X], ["y"])), tmp_path)
    with pytest.raises(SystemExit, match="0"):
        lamina(["check", str(path), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["nodes"] == {
        "total": 1,
        "compiled": 1,
        "by_meaning": 0,
        "refused": 0,
        "unchecked": 0,
    }
    assert said["supported"] is True


def test_inspect_says_what_is_in_the_file(tmp_path: Path, capsys) -> None:
    graph = graph_of([of("Relu", "x", "z"), of("Relu", "z", "y")], [X], ["y"])
    path = saved(model_from(graph, producer_name="maker"), tmp_path)
    with pytest.raises(SystemExit, match="0"):
        lamina(["inspect", str(path), "--target", "reference", "--json"])
    said = json.loads(capsys.readouterr().out)["file"]
    assert (said["producer"], said["operators"], said["nodes"]) == ("maker", "Relu 2", 2)
    assert said["operator sets"] == "ai.onnx 23, com.microsoft 1"


def test_3000_nodes_are_checked_within_seconds(tmp_path: Path) -> None:
    kinds = ("Relu", "Exp", "Tanh", "Sigmoid")
    nodes = [of(kinds[i % 4], f"v{i}", f"v{i + 1}") for i in range(3000)]
    model = model_from(graph_of(nodes, [declared("v0", shape=["n", 4])], ["v3000"]))
    path, start = saved(model, tmp_path), time.process_time()
    assert examine(path).count(COMPILED) == 3000
    assert time.process_time() - start < 3
