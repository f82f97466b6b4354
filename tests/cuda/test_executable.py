from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_cuda import FakeCudaTarget
from xdsl.parser import Parser

import lamina
from lamina.errors import InputError
from lamina.plugins import manager
from lamina.progress import listening
from lamina.targets.cuda.executable import CudaExecutable
from lamina.testing.ptx.driver import FakeDriver

Load = Callable[[str], CudaExecutable]


def inputs(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(seed)
    return numbers.normal(size=size).astype("f4"), numbers.normal(size=(size, 6)).astype("f4")


def made_by(driver: FakeDriver, action: Callable[[], object]) -> Counter[str]:
    before = Counter(driver.counts)
    action()
    return driver.counts - before


def test_extents_in_any_order_give_sums_and_states(load: Load) -> None:
    exe = load("steps")
    for size in (5, 1000, 0, 3, 999, 1):
        x, state = inputs(size)
        assert np.array_equal(exe(x, s=state)["z"], x + x)


def test_a_check_that_fails_names_its_node_and_the_next_call_is_whole(load: Load) -> None:
    exe, x = load("checked"), np.ones(100, np.float32)
    x[77] = -1
    for _ in range(3):
        with pytest.raises(InputError, match="/embed/Gather: a value of the input is out of"):
            exe(x)
        assert np.array_equal(exe(abs(x))["y"], 2 * abs(x))


SORTED = """
!vector = tensor<?xf32, #nn.dims<["T"]>>
func.func @forward(%x: !vector {lamina.input = "x"}) -> (!vector {lamina.output = "y"}) {
  %a = nn.add %x, %x : !vector
  %b, %p = nn.sort %a {dim = 0 : i64} : (!vector) -> (!vector, tensor<?xi32, #nn.dims<["T"]>>)
  %c = nn.add %b, %b : !vector
  func.return %c : !vector
}
"""


@pytest.mark.filterwarnings("ignore:.* run")
def test_a_host_call_runs_between_launches() -> None:
    module = Parser(manager.context(), SORTED).parse_module()
    exe = lamina.compile(module, target=FakeCudaTarget())
    for seed in range(3):
        x = inputs(100, seed)[0]
        assert np.array_equal(exe(x)["y"], 4 * np.sort(x))


def test_a_shape_that_comes_again_is_captured_and_then_replayed(
    load: Load, driver: FakeDriver
) -> None:
    exe = load("checked")
    first, second, third = (
        made_by(driver, lambda n=n: exe(np.full(9, n, np.float32))) for n in range(3)
    )
    assert (first["cuLaunchKernel"], first["cuGraphLaunch"]) == (2, 0)
    assert (second["cuStreamBeginCapture"], second["cuGraphLaunch"]) == (1, 1)
    assert (third["cuLaunchKernel"], third["cuGraphLaunch"]) == (0, 1)
    assert third["cuMemcpyHtoDAsync"] == third["cuMemAllocAsync"] == 0


def test_a_replayed_graph_has_the_inputs_of_its_call(load: Load) -> None:
    exe = load("checked")
    for n in range(5):
        assert np.array_equal(exe(np.full(9, n, np.float32))["y"], np.full(9, 2 * n, np.float32))


def test_graphs_of_shapes_that_did_not_come_for_long_are_given_back(
    load: Load, driver: FakeDriver
) -> None:
    session = load("checked").session()
    session.most_shapes = 2
    for size in (5, 5, 6, 6, 7, 7, 5):
        x = np.ones(size, np.float32)
        assert np.array_equal(session.run({"x": x})["y"], 2 * x)
    assert driver.counts["cuGraphExecDestroy"] == 2


def test_a_larger_buffer_makes_graphs_anew(load: Load) -> None:
    exe = load("steps")
    for size in (5, 5, 5, 900, 5, 5, 900, 900):
        x, state = inputs(size)
        assert np.array_equal(exe(x, s=state)["z"], x + x)


def test_a_session_keeps_its_states_on_the_device_until_it_lets_go(load: Load) -> None:
    exe = load("steps")
    (x, twice), once = inputs(40), inputs(40)[1]
    exe(x, s=once)
    exe(x, s=once)
    before = twice.copy()
    session = exe.session({"s": twice})
    session.run({"x": x})
    session.run({"x": x})
    assert np.array_equal(twice, before)
    session.let_go()
    assert np.array_equal(twice, once)
    assert not np.array_equal(twice, before)


def test_a_session_may_go_on_with_larger_states(load: Load) -> None:
    session = load("steps").session({"s": inputs(4)[1]})
    for size in (4, 90, 7):
        (x, state), expected = inputs(size), inputs(size)[1]
        load("steps")(x, s=expected)
        session.let_go()
        session.hold({"s": state})
        assert np.array_equal(session.run({"x": x})["z"], x + x)
        session.let_go()
        assert np.array_equal(state, expected)


def test_threads_that_call_at_once_wait_their_turn(load: Load) -> None:
    exe = load("steps")

    def call(seed: int) -> bool:
        x, state = inputs(50, seed)
        return np.array_equal(exe(x, s=state)["z"], x + x)

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(call, range(24)))


def test_weights_are_brought_once_and_that_is_told(load: Load, driver: FakeDriver) -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *told: heard.append(told)):
        exe = load("steps")
    assert ("uploading weights", 1, 1) in heard
    x, state = inputs(3)
    sent = [made_by(driver, lambda: exe(x, s=state))["cuMemcpyHtoDAsync"] for _ in range(4)]
    assert sent == [2, 2, 1, 1], "inputs and state, then the state alone beside the graph"


def test_launches_that_need_nothing_of_each_other_are_captured_side_by_side(
    load: Load, driver: FakeDriver
) -> None:
    exe, (x, state) = load("steps"), inputs(90)
    first, second = (made_by(driver, lambda: exe(x, s=state)) for _ in range(2))
    assert first["cuStreamWaitEvent"] == 0
    assert second["cuStreamWaitEvent"] >= 2
    assert second["cuLaunchKernel"] == first["cuLaunchKernel"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": np.ones(3)}, "input 'x': expected float32, got float64"),
        ({"x": np.ones((3, 1), np.float32)}, "input 'x': expected shape"),
        ({"x": np.ones(3, np.float32), "z": 0}, "there is no input 'z': expected x"),
    ],
)
def test_what_does_not_fit_the_signature_is_refused(
    load: Load, given: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load("checked").session().run(given)


def test_a_replayed_step_gives_the_bits_of_one_that_was_launched(load: Load) -> None:
    session, (x, state) = load("steps").session({"s": inputs(40)[1]}), inputs(40)
    first = session.run({"x": x})
    for _ in range(3):
        session.hold({"s": state})
        again = session.run({"x": x})
        assert again["y"].tobytes() == first["y"].tobytes()
        assert again["z"].tobytes() == first["z"].tobytes()
