"""A broker for the tests of the workers: it takes short session timeouts, so that a killed worker is given up soon."""

from __future__ import annotations

import pytest

from local.broker import Broker


@pytest.fixture(scope="session")
def quick_broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("quick-kafka"), properties={"group.min.session.timeout.ms": "500"}) as broker:
        yield broker
