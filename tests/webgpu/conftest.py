"""The adapter that kernels run on."""

import os

import pytest

from lamina.errors import TargetUnavailable
from lamina.targets.webgpu.device import Device, open_device


@pytest.fixture(scope="session")
def device() -> Device:
    """Skip where there is no adapter, or fail where `.ci/run` should bring one."""
    try:
        return open_device("auto")
    except TargetUnavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(str(why), pytrace=False)
        pytest.skip(str(why))
