"""What tests of several files need."""

import signal

import pytest


@pytest.fixture
def sigint():
    """Ctrl-C, also where the tests run in the background, which begin with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
