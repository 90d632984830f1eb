"""Losing the NPU and getting it back."""

from __future__ import annotations

import time

import pytest
from rknpu_plugin import health, npu
from rknpu_plugin.device import Device
from rknpu_plugin.health import Verdict
from unit.plugin.board_tree import DEVICE, BoardTree, is_node, remove_tree
from unit.plugin.waiting import wait_for

HEALTHY = {"npu0-share-0": "Healthy", "npu0-share-1": "Healthy"}
UNHEALTHY = {"npu0-share-0": "Unhealthy", "npu0-share-1": "Unhealthy"}


def look(board):
    return Device(str(board.root), is_node).look()


@pytest.mark.slow
def test_lost_node_is_told_and_its_return_too(kubelet, run_plugin, board):
    kubelet.start()
    run_plugin()
    kubelet.wait_devices(HEALTHY)
    board.remove_nodes("renderD129")
    kubelet.wait_devices(UNHEALTHY)
    board.make_nodes("renderD129")
    kubelet.wait_devices(HEALTHY)
    # It never vanished: one registration, and all IDs in every message.
    assert len(kubelet.clients) == 1
    assert all(set(listing.devices) == set(HEALTHY) for listing in kubelet.clients[0].listings)


def test_loss_and_return_are_told_within_two_seconds():
    """By the intervals; make bench measures it."""
    assert health.LOOK_SECONDS + (health.MISSES - 1) * health.RECHECK_SECONDS <= 1.75
    assert health.LOOK_SECONDS <= 1.75


def test_one_missed_look_is_no_loss(kubelet, run_plugin, board):
    """udev or a driver may make a node anew at any time."""
    verdict = Verdict()
    assert verdict.judge(True)
    for good in (False, True, False, False, True, False, False):
        assert not verdict.judge(good)
        assert verdict.healthy
    assert verdict.judge(False)
    assert verdict.healthy is False
    assert verdict.judge(True)


@pytest.mark.slow
def test_unbound_driver_is_a_loss(kubelet, run_plugin, board):
    """Nodes can outlive their driver, in a container's /dev for example."""
    kubelet.start()
    run_plugin()
    kubelet.wait_devices(HEALTHY)
    board.unbind()
    board.make_nodes()
    kubelet.wait_devices(UNHEALTHY)
    board.bind()
    kubelet.wait_devices(HEALTHY)


def test_node_that_is_no_character_device_is_a_loss(board, tmp_path):
    """https://github.com/everpeace/k8s-host-device-plugin/issues/15"""
    device = Device(str(board.root), is_node)
    assert device.look().problem is None
    board.path("renderD129").unlink()
    board.path("renderD129").mkdir()
    assert "renderD129" in device.look().problem
    board.path("renderD129").rmdir()
    board.path("renderD129").symlink_to("card1")
    assert "renderD129" in device.look().problem


def test_unhealthy_at_boot_recovers_by_itself(kubelet, run_plugin, board):
    """https://github.com/Project-HAMi/ascend-device-plugin/issues/129"""
    board.unbind()
    kubelet.start()
    run_plugin()
    kubelet.wait_devices(UNHEALTHY)
    board.bind()
    kubelet.wait_devices(HEALTHY)


def test_no_allocatable_share_without_a_node(kubelet, run_plugin, board, hasty):
    board.remove_nodes()
    kubelet.start()
    run_plugin()
    kubelet.wait_client()
    time.sleep(0.5)
    assert kubelet.devices == UNHEALTHY
    assert kubelet.allocatable == 0


def test_renumbered_nodes_are_followed(kubelet, run_plugin, board):
    """Numbers depend on what probes first: https://github.com/waydroid/waydroid/issues/1836"""
    kubelet.start()
    run_plugin()
    kubelet.wait_devices(HEALTHY)
    board.unbind()
    board.bind("card0", "renderD128")
    wait_for(lambda: kubelet.allocate(["npu0-share-0"])[0].envs["RKNPU_DEVICE"] == "/dev/dri/card0")
    kubelet.wait_devices(HEALTHY)


def test_late_driver_tells_its_cores(kubelet, run_plugin, board):
    """The share count of a board is known by its SoC before the driver is there."""
    board.unbind()
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_devices(UNHEALTHY)
    board.bind()
    kubelet.wait_devices(HEALTHY)
    assert plugin.plugin.inventory.board.driver == "rknpu"


def test_machine_without_npu_offers_nothing_and_stays_up(kubelet, run_plugin, work, hasty):
    """No crash without /sys/class/drm or a driver.

    https://github.com/squat/generic-device-plugin/issues/36
    https://github.com/intel/intel-device-plugins-for-kubernetes/issues/230
    """
    (work / "empty").mkdir()
    kubelet.start()
    plugin = run_plugin(host_root=work / "empty")
    kubelet.wait_client()
    time.sleep(0.5)
    assert kubelet.devices == {}
    assert plugin.plugin.check.find_problem() is None


def test_missing_dev_of_the_host_is_named(board):
    board.remove_nodes()
    (board.root / "dev/dri").rmdir()
    assert "is /dev mounted from the host?" in look(board).problem
    (board.root / "dev").rmdir()
    told = f"{board.root}/dev does not exist; is /dev mounted from the host?"
    assert look(board).problem == told


def test_missing_sys_of_the_host_is_named(board):
    (board.root / "sys").rename(board.root / "elsewhere")
    told = f"{board.root}/sys does not exist; is /sys mounted from the host?"
    assert look(board).problem == told


def test_missing_nodes_of_a_bound_driver_are_named(board):
    board.remove_nodes()
    assert "fdab0000.npu" in look(board).problem
    assert "nodes are missing" in look(board).problem


def test_no_driver_is_named(board):
    board.unbind()
    assert "no driver" in look(board).problem


def test_rocket_is_not_offered(work):
    """The RKNN runtime cannot use mainline's driver."""
    board = BoardTree(work / "rocket")
    board.unbind()
    (board.root / "sys/bus/platform/drivers/rocket/fdab0000.npu").mkdir(parents=True)
    (board.root / "sys/bus/platform/devices/rknn/accel/accel0").mkdir(parents=True)
    board.write("dev/accel/accel0")
    assert "rocket" in look(board).problem


def test_dma_heap_build_is_healthy_with_its_one_node(work):
    board = BoardTree(work / "heap", nodes=("rknpu",))
    found = look(board)
    assert found.problem is None
    assert found.nodes == ("/dev/rknpu",)


@pytest.mark.parametrize("lost", ["card1", "renderD129"])
def test_either_node_may_be_absent_from_the_start(board, lost):
    """https://github.com/istoreos/istoreos/issues/2897"""
    board.remove_nodes(lost)
    assert look(board).problem is None


def test_looking_opens_nothing(board, monkeypatch):
    """Reading some files of the driver powers the NPU up."""
    device = Device(str(board.root), is_node)

    def refuse(*_args, **_kwargs):
        raise AssertionError("a file was opened")

    monkeypatch.setattr("os.open", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    assert device.look().problem is None


@pytest.fixture
def listings(monkeypatch):
    """Each time that the driver was looked for."""
    seen = []

    def count(files):
        seen.append(1)
        return npu.find_npu(files)

    monkeypatch.setattr("rknpu_plugin.device.find_npu", count)
    return seen


def test_glances_list_nothing_while_nothing_changes(board, listings):
    device = Device(str(board.root), is_node)
    first = device.look()
    assert [device.glance() for _ in range(9)] == [first] * 9
    assert len(listings) == 1
    # What changes without a trace is found ten looks later.
    device.glance()
    assert len(listings) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda board: board.remove_nodes("card1"),
        lambda board: board.path("renderD129").rename(board.path("renderD200")),
        lambda board: remove_tree(board.root / "sys/bus/platform/drivers/RKNPU" / DEVICE),
        lambda board: board.add_heaps("system"),
        lambda board: board.add_heaps("system", "cma"),
        lambda board: (board.unbind(), board.bind("card0", "renderD128")),
    ],
)
def test_glance_sees_what_changes(board, listings, change):
    board.add_heaps("cma")
    device = Device(str(board.root), is_node)
    device.look()
    device.glance()
    change(board)
    seen = device.glance()
    assert len(listings) == 2
    assert seen == device.look()


def test_every_glance_at_a_lost_npu_looks(board, listings):
    board.remove_nodes()
    device = Device(str(board.root), is_node)
    for _ in range(3):
        assert device.glance().problem is not None
    assert len(listings) == 3


def test_watch_survives_a_look_that_fails():
    looks = iter([RuntimeError("gone wrong")])

    def broken():
        raise next(looks, RuntimeError("again"))

    watch = health.HealthWatch(broken, lambda healthy: None)
    watch.start()
    time.sleep(0.2)
    assert watch.is_alive()
    watch.stop()
