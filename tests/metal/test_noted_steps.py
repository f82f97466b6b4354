"""Steps that are noted, one command buffer a dispatch, on the imitation of Metal."""

import pytest
from imitation import ImitatedTarget
from metal_plans import load_plan
from noted_devices import check_dispatches, check_host, check_limits

pytestmark = pytest.mark.usefixtures("compiler")


def test_every_dispatch_is_noted_with_its_time():
    check_dispatches(load_plan)


def test_what_the_host_does_is_noted_between():
    check_host(load_plan)


def test_the_device_is_measured_by_copying():
    check_limits(load_plan, ImitatedTarget())
