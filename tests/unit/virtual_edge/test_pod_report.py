"""What pods print, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import re

import pytest
from virtual_edge.pod_report import Pod, Result, Seen, find_faults, parse, table

REPORT = """\
uid=1000
capabilities=0000000000000000
device=/dev/dri/card1
contexts=
opens=/dev/dri/card1
opens=/dev/dri/renderD129
sees=/dev/null
sees=/dev/dri/card1
sees=/dev/dri/renderD129
sees=/dev/dma_heap/system
done
"""
WAITS = "0/2 nodes are available: 2 Insufficient rocknpu.device/npu."
SEEN = Seen(
    1000,
    "0000000000000000",
    "/dev/dri/card1",
    "",
    ["/dev/dri/card1", "/dev/dri/renderD129"],
    [],
    ["/dev/dri/card1", "/dev/dri/renderD129", "/dev/dma_heap/system"],
)


def good() -> Result:
    pods = [
        Pod("npu-1", "one", "Running", "", SEEN),
        Pod("npu-2", "one", "Running", "", SEEN),
        Pod("npu-3", "two", "Running", "", SEEN),
        Pod("npu-4", "", "Pending", WAITS),
    ]
    return Result({"one": 2, "two": 1}, pods, "npu-1", Pod("npu-4", "one", "Running", "", SEEN))


def test_a_report_is_read_when_it_is_complete() -> None:
    assert parse(REPORT) == SEEN
    assert parse(REPORT.replace("done\n", "")) is None
    assert parse("") is None


def test_a_node_that_does_not_open_is_told() -> None:
    seen = parse("uid=0\nrefused=/dev/dri/card1\ndone\n")
    assert seen is not None
    assert seen.refused == ["/dev/dri/card1"]


def test_nothing_is_wrong_with_a_good_result() -> None:
    assert find_faults(good()) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"uid": 0}, "runs as 0"),
        ({"capabilities": "00000000a80425fb"}, "has capabilities"),
        ({"capabilities": ""}, "has capabilities"),
        ({"device": ""}, r"RKNPU_DEVICE \(not set\)"),
        ({"device": "/dev/dri/card9"}, "card9.* does not open"),
        ({"refused": ["/dev/dri/card1"]}, "card1 does not open"),
        ({"sees": ["/dev/dri/card0"]}, "sees /dev/dri/card0"),
    ],
)
def test_what_a_pod_saw_is_judged(change: dict[str, object], fault: str) -> None:
    result = good()
    result.pods[2].seen = dataclasses.replace(SEEN, **change)
    faults = find_faults(result)
    assert len(faults) == 1
    assert re.search(f"npu-3: .*{fault}", faults[0])


def test_wrong_places_are_told() -> None:
    result = good()
    result.pods[1].node = "two"
    assert find_faults(result)[:2] == [
        "one has 2 shares and runs 1 pods.",
        "two has 1 shares and runs 2 pods.",
    ]


def test_a_fourth_pod_that_runs_is_told() -> None:
    result = good()
    result.pods[3] = Pod("npu-4", "two", "Running", "", SEEN)
    assert "One pod has to wait, and 0 do." in find_faults(result)


def test_another_reason_to_wait_is_told() -> None:
    result = good()
    result.pods[3].waits_for = "0/2 nodes are available: 2 Insufficient cpu."
    assert find_faults(result) == [
        "npu-4 waits for another reason: 0/2 nodes are available: 2 Insufficient cpu."
    ]


def test_a_pod_that_never_ran_after_the_deletion_is_told() -> None:
    result = good()
    result.ran_after_deletion = Pod("npu-4")
    assert "npu-4 did not run after npu-1 was deleted." in find_faults(result)


def test_the_table_shows_where_each_pod_ran_and_why_one_waits() -> None:
    lines = table(good()).splitlines()
    assert lines[0].split()[:3] == ["POD", "NODE", "PHASE"]
    assert lines[3].split() == [
        "npu-3",
        "two",
        "Running",
        "1000",
        "/dev/dri/card1",
        "/dev/dri/card1",
        "/dev/dri/renderD129",
        "/dev/dma_heap/system",
    ]
    assert lines[4].split()[:3] == ["npu-4", "-", "Pending"]
    assert lines[-1] == f"npu-4 waits: {WAITS}"
