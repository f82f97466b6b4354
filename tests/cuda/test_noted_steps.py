"""Steps that are noted, launch by launch, on the driver that interprets PTX."""

import pytest
from checkpoints import CHECKPOINTS
from fake_cuda import FakeCudaTarget
from noted_devices import check_dispatches, check_host, check_limits

import lamina
from lamina.measure.kernel_table import step_table
from lamina.measure.limits import Limits


def test_every_launch_is_noted_with_its_time(load):
    check_dispatches(load)


def test_what_the_host_does_is_noted_between(load):
    check_host(load)


def test_the_device_is_measured_by_copying(load):
    check_limits(load, FakeCudaTarget())


@pytest.mark.gpu
def test_a_decoder_writes_the_same_while_it_is_noted(tmp_path):
    llm = lamina.LLM(CHECKPOINTS["llama"]().write(tmp_path), target=FakeCudaTarget())
    # Steps of one token come again: without a timeline they are replayed as graphs.
    expected = llm.generate([[1, 2, 3]], max_new_tokens=3)[0].token_ids
    with llm.trace() as timeline:
        noted = llm.generate([[1, 2, 3]], max_new_tokens=3)[0].token_ids
    assert noted == expected
    prefill, *steps = timeline.steps
    table = step_table(steps, Limits(1, 1e9, 1e9, 1e7, 0.0, "a device"), 1, before=prefill)
    assert table.steps == 2
    assert sum(row.seconds for row in table.kernels) <= table.seconds * (1 + 1e-9)
    assert {row.limit for row in table.kernels} >= {"reading", "f32"}
