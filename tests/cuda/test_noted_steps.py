"""Steps that are noted, launch by launch, on the driver that interprets PTX."""

from fake_cuda import FakeCudaTarget
from noted_devices import check_dispatches, check_host, check_limits


def test_every_launch_is_noted_with_its_time(load):
    check_dispatches(load)


def test_what_the_host_does_is_noted_between(load):
    check_host(load)


def test_the_device_is_measured_by_copying(load):
    check_limits(load, FakeCudaTarget())
