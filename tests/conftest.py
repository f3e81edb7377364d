"""Settings of every test: a busy machine must not turn a property test, or a timed one, red."""

import pytest
from hypothesis import HealthCheck, settings

from tests.quiet import noise, watch

settings.register_profile("course", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("course")


def pytest_configure(config):
    config.addinivalue_line("markers", "quiet: it can only fail where the machine was quiet")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test marked `quiet` that fails while others use the processors, and say so.

    An instrument may itself refuse to work on such a machine, by a RuntimeError.
    """
    if item.get_closest_marker("quiet") is None:
        return (yield)
    try:
        with watch() as seen:
            return (yield)
    except (AssertionError, RuntimeError) as error:
        if noise(seen.share):
            failure = (str(error) or "assert").splitlines()[0]
            pytest.skip(f"{noise(seen.share)}, and {item.name} failed ({failure})")
        raise
