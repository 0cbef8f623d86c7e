"""The Faust worker: exact through kills, equal to the plain loop, and built on names that this Faust really has."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import aiokafka
import faust
import pytest
from aiokafka import errors
from aiokafka.consumer.group_coordinator import GroupCoordinator
from faust.transport import consumer as base
from faust.transport.drivers import aiokafka as driver

from kubecdc.errors import Misconfigured
from local.broker import Broker
from local.children import poll
from processors import app
from processors.metrics import Metrics
from processors.settings import KafkaSettings, WorkerSettings
from tests.processors import workers
from tests.processors.log import Log


@pytest.fixture
def log(quick_broker):
    return Log(quick_broker.bootstrap, partitions=4)


def test_kill_9_at_every_point_leaves_the_log_exact(log, tmp_path):
    workers.crash_everywhere(log, tmp_path, "faust")
    assert log.exact()


def test_both_shells_write_the_same_log_and_take_over_from_each_other(quick_broker, tmp_path):
    logs = [Log(quick_broker.bootstrap, partitions=2) for _ in range(2)]
    for log in logs:
        log.first_list(f"u{n}" for n in range(20))
    for log in logs:
        log.history(300)
    for log, order in zip(logs, (("plain", "faust"), ("faust", "plain")), strict=True):
        workers.finish(log, workers.start(log, tmp_path, order[0]))
        log.history(200, start=400)
        workers.finish(log, workers.start(log, tmp_path, order[1]))
        assert log.exact()
    for partition in range(2):
        assert logs[0].changes(partition) == logs[1].changes(partition)


def test_an_end_that_hangs_has_an_end(tmp_path):
    """Where the broker is away, the consumer's thread dies of its own stop, and Faust waits a minute for it."""
    with Broker(tmp_path / "kafka") as broker:
        log = Log(broker.bootstrap, partitions=2)
        log.first_list(["u1"])
        log.flush()
        worker = workers.start(log, tmp_path, "faust", session_s=6, patch="import processors.app as a; a.END_S = 5; ")
        assert poll(lambda: not worker.alive or log.written(), 60, 0.3), worker.tail(40)
        broker.kill()
        assert poll(lambda: "onnection" in worker.tail(20), 20, 0.1)  # the consumer has noticed
        assert not poll(lambda: not worker.alive, 6, 0.2)
        assert worker.tail(10_000).count("Unable ") <= 3  # of each client one in a while, not thousands
        os.kill(worker.pid, signal.SIGTERM)
        try:
            assert poll(lambda: not worker.alive, 30, 0.1), worker.tail(40)
        finally:
            worker.kill()
    # Either it could end in order after all, or it was ended, with the reason.
    assert worker.exit_code == 0 or (worker.exit_code, "end hung for 5 s" in worker.tail(5)) == (1, True)


def test_importing_reads_no_environment_and_a_missing_setting_is_told_without_a_traceback():
    code = "import processors.app as a; print('imported'); a.app"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": ""}, check=False)
    assert done.stdout == "" or done.stdout == "imported\n"
    assert done.returncode == 2
    assert done.stderr == "error: --bootstrap is required: give it, or set KUBECDC_BOOTSTRAP\n"


def test_faust_has_the_names_that_this_worker_rests_on():
    """They are not promised: a new version of Faust must be looked at before its pin moves."""
    assert version("faust-streaming") == "0.15.3"
    consumer = driver.Consumer
    for name in ("_wait_next_records", "_drain_messages", "seek_to_committed", "on_partitions_revoked", "force_commit"):
        assert inspect.iscoroutinefunction(inspect.unwrap(getattr(consumer, name))), name
    for name in ("_commit_offsets", "assignment", "on_start", "on_stop"):
        assert hasattr(consumer, name), name
    assert inspect.isfunction(faust.App._create_directories)
    assert inspect.iscoroutinefunction(faust.App.stop)
    assert version("aiokafka") == "0.14.0"
    assert list(inspect.signature(consumer._drain_messages).parameters) == ["self", "fetcher"]
    assert list(inspect.signature(consumer._wait_next_records).parameters) == ["self", "timeout"]
    assert "consumer._drain_messages(self)" in inspect.getsource(base.Fetcher)
    assert "self.seek_to_committed()" in inspect.getsource(base.Consumer.perform_seek)
    assert "self.force_commit(" in inspect.getsource(base.Consumer.commit)
    assert hasattr(driver.AIOKafkaConsumerThread, "call_thread")
    assert "self._coordinator.check_errors()" in inspect.getsource(aiokafka.AIOKafkaConsumer.getmany)
    assert "_error_consumed_fut" in inspect.getsource(GroupCoordinator._push_error_to_user)
    assert not inspect.iscoroutinefunction(driver.AIOKafkaConsumerThread.seek)


def test_streams_that_are_not_used_are_not_complained_of():
    """Faust would write an error every few minutes that ours has not started."""
    settings = WorkerSettings(KafkaSettings("127.0.0.1:1", "p", "a"))
    consumer = app.build(settings, Metrics()).transport.Consumer
    assert consumer.verify_event_path(object(), 1e9, None) is None


def test_the_app_uses_none_of_what_can_lose_or_repeat():
    settings = WorkerSettings(KafkaSettings("127.0.0.1:1", "p", "a", session_timeout_s=8.0))
    made = app.build(settings, Metrics())
    assert made.conf.processing_guarantee == faust.types.enums.ProcessingGuarantee.AT_LEAST_ONCE
    assert made.conf.broker_session_timeout == 8.0
    assert made.conf.id == "a"
    assert not made.tables
    assert not made.agents
    assert made.transport.Consumer.events == "p.events"


def test_what_the_group_may_soon_grant_ends_no_worker_and_what_it_refuses_for_good_is_told():
    """The shape of aiokafka's errors is checked here too: `retriable`, and the protocol's name as `message`."""
    assert app.refusal(errors.GroupLoadInProgressError()) is None
    assert app.refusal(errors.KafkaConnectionError("away")) is None
    assert "give the account the rights" in (app.refusal(errors.GroupAuthorizationFailedError("g")) or "")
    assert "InconsistentGroupProtocol" in (app.refusal(errors.InconsistentGroupProtocolError()) or "")


def test_properties_of_tls_and_sasl_reach_faust():
    assert app.credentials({}) is None
    sasl = app.credentials(
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"}
    )
    assert (sasl.username, sasl.password, sasl.mechanism.value) == ("u", "p", "SCRAM-SHA-512")
    assert sasl.ssl_context is not None
    with pytest.raises(Misconfigured, match="certificates cannot be read"):
        app.credentials({"security.protocol": "ssl", "ssl.ca.location": "/does/not/exist"})
    assert app.credentials({"security.protocol": "SSL"}).context.check_hostname
    anywhere = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}
    assert not app.credentials(anywhere).context.check_hostname


def test_a_property_of_tls_or_sasl_that_faust_would_not_heed_is_refused():
    """In silence it would connect otherwise than told, or not at all."""
    told = {"ssl.ca.pem": "x", "fetch.wait.max.ms": "5", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": ""}
    with pytest.raises(Misconfigured) as caught:
        app.credentials({"security.protocol": "SASL_SSL", **told})
    assert str(caught.value) == (
        "--kafka-property: the Faust worker does not understand sasl.oauthbearer.config, ssl.ca.pem, SASL OAUTHBEARER:"
        " use --runtime plain"
    )
