"""Logs: one line for each event, in two formats."""

from __future__ import annotations

import io
import json
import os
import re
import time

import pytest
from rknpu_plugin.log import last_error, log, set_up_logging
from unit.plugin.plugin_process import PluginProcess
from unit.plugin.waiting import wait_for


@pytest.fixture
def stream():
    return io.StringIO()


def test_text(stream):
    set_up_logging("text", "info", "example.org/npu", stream)
    log.info("something happened", share="npu0-share-0", path="/a b", empty="", none=None)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    something happened share=npu0-share-0 "
        r'path="/a b" empty="" resource=example\.org/npu\n',
        stream.getvalue(),
    )


def test_json(stream):
    set_up_logging("json", "info", "example.org/npu", stream)
    log.warning("something happened", share="npu0-share-0", none=None)
    event = json.loads(stream.getvalue())
    assert event.pop("time").endswith("Z")
    assert event == {
        "level": "warning",
        "message": "something happened",
        "share": "npu0-share-0",
        "resource": "example.org/npu",
    }


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_one_event_is_one_line_whatever_it_carries(stream, log_format):
    set_up_logging(log_format, "info", None, stream)
    log.info("event", reason='line one\nline two\r\t"quoted" = \\ \0')
    log.info("event", name="a\x85b\u2028c\x0bd\x7f\x1b[31m", other="\ud800", path="/ä b")
    log.info("event\nevent")
    try:
        raise ValueError("broken\nhere")
    except ValueError:
        log.failure("failed")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)
    assert "/ä b" in "".join(lines) or log_format == "json"


def test_level(stream):
    set_up_logging("text", "warning", None, stream)
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["WARNING", "ERROR"]


def test_last_error_is_remembered(stream):
    set_up_logging("text", "error", None, stream)
    before = time.time()
    log.warning("it failed", reason="for a reason")
    error = last_error()
    assert error.message == "it failed: for a reason"
    assert before <= error.time <= time.time()


def test_journal_gets_priorities_instead_of_times(monkeypatch, tmp_path):
    with (tmp_path / "log").open("w+") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        set_up_logging("text", "info", None, stream)
        log.info("fine")
        log.error("bad")
        stream.seek(0)
        assert stream.read().splitlines() == ["<6>fine", "<3>bad"]


@pytest.mark.slow
def test_effective_configuration_is_logged_once(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work, log_format="json", shares=3, mounts="/usr/lib") as plugin:
        kubelet.wait_client()
        events = [json.loads(line) for line in plugin.log.splitlines()]
    starts = [event for event in events if event["message"] == "starting"]
    assert len(starts) == 1
    assert starts[0]["shares"] == 3
    assert starts[0]["mounts"] == "/usr/lib"
    assert starts[0]["resource"] == "rocknpu.device/npu"


def test_every_event_carries_the_resource_and_allocations_their_share(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work, log_format="json") as plugin:
        kubelet.wait_client()
        kubelet.allocate(["npu0-share-1"])
        plugin.wait_log("shares were allocated")
        events = [json.loads(line) for line in plugin.log.splitlines()]
    assert {event["resource"] for event in events} == {"rocknpu.device/npu"}
    assert [e["share"] for e in events if e["message"] == "shares were allocated"] == [
        "npu0-share-1"
    ]


def test_nothing_is_logged_while_nothing_happens(board, run_plugin, stream, hasty):
    set_up_logging("text", "debug", stream=stream)
    board.unbind()
    run_plugin()
    wait_for(lambda: "waiting for the kubelet" in stream.getvalue())
    time.sleep(0.3)
    quiet = stream.getvalue()
    time.sleep(0.6)
    assert stream.getvalue() == quiet


def test_reason_and_remedy_of_an_unusable_npu_are_logged(work, board):
    board.unbind()
    with PluginProcess(work) as plugin:
        plugin.wait_log("the NPU is not usable")
        plugin.wait_log("remedy=")
