"""Allocate and GetPreferredAllocation: what containers get, and what is refused."""

from __future__ import annotations

import threading

import grpc
import pytest
from rknpu_plugin.api import deviceplugin_pb2 as api
from rknpu_plugin.device import Look
from unit.plugin.board_tree import BoardTree
from unit.plugin.kubelet_stub import call
from unit.plugin.waiting import wait_for


@pytest.fixture
def allocate(kubelet, run_plugin):
    """Allocates for one container from a plugin with the given keys."""

    def run(*shares, **keys):
        kubelet.start()
        run_plugin(**keys)
        kubelet.wait_client()
        return kubelet.allocate(list(shares))[0]

    return run


def refusal(kubelet, *shares):
    with pytest.raises(grpc.RpcError) as caught:
        kubelet.allocate(list(shares))
    return caught.value.code(), caught.value.details()


def nodes(response):
    return [device.host_path for device in response.devices]


def test_container_gets_the_nodes_of_the_npu_and_nothing_else(allocate, board):
    """Not the GPU's renderD128 nor the display's card0, and no need to be privileged.

    https://github.com/bigtreetech/CB2/issues/140
    https://github.com/rockchip-linux/rknpu2/issues/114
    As devices and not as mounts, which get no access by the container's device rules:
    https://github.com/NVIDIA/nvidia-docker/issues/1730
    """
    board.make_nodes("card0", "renderD128", "card2", "renderD130")
    response = allocate("npu0-share-0")
    assert nodes(response) == ["/dev/dri/card1", "/dev/dri/renderD129"]
    for device in response.devices:
        assert device.container_path == device.host_path
        assert device.permissions == "rw"
    assert not response.mounts
    assert not response.annotations
    assert not response.cdi_devices


def test_drm_build_needs_no_rknpu(kubelet, run_plugin, work):
    """Its absence is no fault: https://github.com/airockchip/rknn-toolkit2/issues/534"""
    BoardTree(work / "rk3576", soc="rk3576", nodes=("card0", "renderD129"))
    kubelet.start()
    run_plugin(host_root=work / "rk3576")
    kubelet.wait_devices({"npu0-share-0": "Healthy", "npu0-share-1": "Healthy"})
    assert nodes(kubelet.allocate(["npu0-share-0"])[0]) == ["/dev/dri/card0", "/dev/dri/renderD129"]


def test_dma_heap_build_passes_rknpu_and_the_heaps(kubelet, run_plugin, work):
    """https://github.com/ophub/amlogic-s9xxx-armbian/issues/3646"""
    BoardTree(work / "heap", nodes=("rknpu",)).add_heaps("system", "rk-dma-heap-cma")
    kubelet.start()
    run_plugin(host_root=work / "heap")
    kubelet.wait_client()
    response = kubelet.allocate(["npu0-share-0"])[0]
    assert nodes(response) == [
        "/dev/rknpu",
        "/dev/dma_heap/rk-dma-heap-cma",
        "/dev/dma_heap/system",
    ]
    assert response.envs["RKNPU_DEVICE"] == "/dev/rknpu"
    assert response.envs["RKNPU_DEVICES"] == "/dev/rknpu"


@pytest.mark.parametrize(
    "heaps",
    [
        ("cma", "cma-uncached", "system", "system-dma32", "system-uncached"),
        ("reserved", "system"),
        (),
    ],
)
def test_the_heaps_that_exist_are_passed(allocate, board, heaps):
    """Which there are differs: https://github.com/rockchip-linux/mpp/issues/626"""
    board.add_heaps(*heaps)
    found = nodes(allocate("npu0-share-0"))
    assert found[2:] == [f"/dev/dma_heap/{heap}" for heap in heaps]


def test_a_heap_that_is_gone_is_not_passed(kubelet, run_plugin, board):
    """A path that does not exist would keep the container from starting.

    https://github.com/siderolabs/extensions/issues/1152
    """
    board.add_heaps("system")
    kubelet.start()
    run_plugin()
    kubelet.wait_client()
    assert "/dev/dma_heap/system" in nodes(kubelet.allocate(["npu0-share-0"])[0])
    (board.root / "dev/dma_heap/system").unlink()
    assert "/dev/dma_heap/system" not in nodes(kubelet.allocate(["npu0-share-0"])[0])


def test_link_named_rknpu_is_never_passed(allocate, board):
    """It makes the runtime fail: https://github.com/invisiofficial/rk-llama.cpp/issues/19"""
    (board.root / "dev/rknpu").symlink_to("dri/renderD129")
    assert "/dev/rknpu" not in nodes(allocate("npu0-share-0"))


def test_extra_device_that_is_a_link_is_passed_under_its_own_name(allocate, board):
    (board.root / "dev/rknpu").symlink_to("dri/renderD129")
    by_path = board.write("dev/dri/by-path/x").parent
    (by_path / "platform-fdab0000.npu-card").symlink_to("../card1")
    extra = "/dev/rknpu,/dev/dri/by-path/platform-fdab0000.npu-card"
    found = nodes(allocate("npu0-share-0", extra_devices=extra))
    assert found == ["/dev/dri/card1", "/dev/dri/renderD129"]


def test_extra_devices_and_mounts(allocate, board):
    board.write("dev/rga")
    board.write("usr/lib/librknnrt.so.2")
    (board.root / "usr/lib/librknnrt.so").symlink_to("librknnrt.so.2")
    response = allocate(
        "npu0-share-0",
        extra_devices="/dev/rga:r,/dev/mpp_service",
        mounts="/usr/lib/librknnrt.so,/usr/lib:/host/lib:rw,/not/there",
    )
    assert {device.host_path: device.permissions for device in response.devices} == {
        "/dev/dri/card1": "rw",
        "/dev/dri/renderD129": "rw",
        "/dev/rga": "r",
    }
    assert [(m.host_path, m.container_path, m.read_only) for m in response.mounts] == [
        ("/usr/lib/librknnrt.so.2", "/usr/lib/librknnrt.so", True),
        ("/usr/lib", "/host/lib", False),
    ]


def test_mount_never_leads_out_of_the_hosts_root(allocate, board):
    board.write("etc/x")
    (board.root / "etc/passwd").symlink_to("/etc/passwd")
    assert not allocate("npu0-share-0", mounts="/etc/passwd").mounts


def test_environment(allocate):
    response = allocate("npu0-share-0", shares=1, max_contexts=3)
    assert dict(response.envs) == {
        "RKNPU_DEVICE": "/dev/dri/card1",
        "RKNPU_DEVICES": "/dev/dri/card1,/dev/dri/renderD129",
        "RKNPU_SHARE_IDS": "npu0-share-0",
        "RKNPU_CORE_MASK": "7",
        "RKNN_MAX_CONTEXTS": "3",
    }


def test_contexts_are_not_limited_unless_told(allocate):
    assert "RKNN_MAX_CONTEXTS" not in allocate("npu0-share-0").envs


def test_single_core_gets_no_core_mask(kubelet, run_plugin, work):
    """rknn_set_core_mask fails there."""
    BoardTree(work / "rk3566", soc="rk3566")
    kubelet.start()
    run_plugin(host_root=work / "rk3566")
    kubelet.wait_client()
    assert kubelet.devices == {"npu0-share-0": "Healthy"}
    assert "RKNPU_CORE_MASK" not in kubelet.allocate(["npu0-share-0"])[0].envs


def test_two_shares_in_one_container_do_not_conflict(allocate):
    response = allocate("npu0-share-2", "npu0-share-0", shares=4)
    assert len(nodes(response)) == len(set(nodes(response))) == 2
    assert response.envs["RKNPU_SHARE_IDS"] == "npu0-share-0,npu0-share-2"
    assert response.envs["RKNPU_CORE_MASK"] in ("0", "3", "7")


def test_one_answer_for_each_container(kubelet, run_plugin):
    kubelet.start()
    run_plugin(shares=3)
    kubelet.wait_client()
    responses = kubelet.allocate(["npu0-share-0"], ["npu0-share-1", "npu0-share-2"])
    assert [response.envs["RKNPU_SHARE_IDS"] for response in responses] == [
        "npu0-share-0",
        "npu0-share-1,npu0-share-2",
    ]


def test_permissions_of_the_nodes(allocate):
    response = allocate("npu0-share-0", permissions="rwm")
    assert {device.permissions for device in response.devices} == {"rwm"}


@pytest.mark.parametrize("share", ["npu0-share-2", "npu0-share-00", "npu1-share-0", "", "x" * 300])
def test_unknown_share_is_refused_by_name(kubelet, run_plugin, share):
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    code, details = refusal(kubelet, "npu0-share-0", share)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    # An ID has 63 characters at most.
    assert share[:63] in details
    assert "npu0-share-0, npu0-share-1" in details
    name = "rknpu_plugin_allocation_failures_total"
    assert plugin.metric(name, reason="unknown_share") == 1


def test_refusal_stays_short_enough_for_grpc(kubelet, run_plugin):
    """A text of many thousand characters would reach the kubelet as RESOURCE_EXHAUSTED."""
    kubelet.start()
    run_plugin(shares=100)
    kubelet.wait_client()
    code, details = refusal(kubelet, *(f"{index:0300}" for index in range(100)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "and 92 more; it offers npu0-share-0, npu0-share-1" in details
    assert details.endswith("and 92 more")


def test_too_many_shares_are_refused_with_the_limit(kubelet, run_plugin):
    """A ReplicaSet makes a new pod for each that is refused, so nothing else of a user's is.

    https://github.com/kubernetes/kubernetes/issues/108152
    """
    kubelet.start()
    plugin = run_plugin(shares=3, max_shares_per_container=2)
    kubelet.wait_client()
    kubelet.allocate(["npu0-share-0", "npu0-share-1"])
    code, details = refusal(kubelet, *(f"npu0-share-{index}" for index in range(3)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "asks for 3 shares, at most 2" in details
    assert "max_shares_per_container" in details
    name = "rknpu_plugin_allocation_failures_total"
    assert plugin.metric(name, reason="too_many_shares") == 1


def test_lost_npu_refuses_and_is_told_at_once(kubelet, run_plugin, board):
    """A container without its device is worse than one that is not started.

    https://github.com/kubernetes/kubernetes/issues/116125
    """
    kubelet.start()
    run_plugin()
    kubelet.wait_client()
    board.unbind()
    code, details = refusal(kubelet, "npu0-share-0")
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "no driver" in details
    kubelet.wait_devices({"npu0-share-0": "Unhealthy", "npu0-share-1": "Unhealthy"})


def test_nodes_are_resolved_at_each_allocation(kubelet, run_plugin, board):
    """Also before the next look of the health watch, and if a name belongs to another device now.

    https://github.com/waydroid/waydroid/issues/1836
    """
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    plugin.plugin.health.stop()
    board.unbind()
    board.bind("card2", "renderD130")
    board.make_nodes("card1", "renderD129")
    assert nodes(kubelet.allocate(["npu0-share-0"])[0]) == ["/dev/dri/card2", "/dev/dri/renderD130"]


@pytest.mark.slow
def test_thousand_allocations(kubelet, run_plugin):
    """The plugin keeps no record of who holds what, so nothing can run out.

    https://github.com/project-akri/akri/issues/450
    """
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    for _ in range(1000):
        kubelet.allocate(["npu0-share-0"])
    wait_for(lambda: plugin.metric("rknpu_plugin_allocations_total") == 1000)


def test_allocate_does_not_wait_for_the_health_watch(kubelet, run_plugin, monkeypatch):
    """Allocate has no time limit: https://github.com/kubernetes/kubernetes/issues/117435"""
    kubelet.start()
    plugin = run_plugin()
    kubelet.wait_client()
    looking, done = threading.Event(), threading.Event()

    def look():
        looking.set()
        done.wait(30)
        return Look(None, (), ())

    monkeypatch.setattr(plugin.plugin.health, "_look", look)
    plugin.plugin.health.look_soon()
    assert looking.wait(30)
    kubelet.allocate(["npu0-share-0"])
    assert not done.is_set()
    done.set()


def test_pre_start_container_is_answered_though_not_announced(kubelet, run_plugin):
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client()
    call(
        client.channel,
        "PreStartContainer",
        api.PreStartContainerRequest(devices_ids=["npu0-share-0"]),
        api.PreStartContainerResponse,
        timeout=10,
    )


def test_preferred_allocation_over_the_socket(kubelet, run_plugin):
    kubelet.start()
    run_plugin(shares=3)
    kubelet.wait_client()
    every = [f"npu0-share-{index}" for index in range(3)]
    assert kubelet.prefer(every, [], 2) == every[:2]
    assert kubelet.prefer(every[1:], ["npu0-share-2"], 1) == ["npu0-share-2"]


def test_preferred_allocation_never_fails(kubelet, run_plugin):
    """An error there fails the pod: https://github.com/kubernetes/kubernetes/issues/97131"""
    kubelet.start()
    run_plugin()
    kubelet.wait_client()
    assert kubelet.prefer([], [], 0) == []
    assert kubelet.prefer(["odd", "npu0-share-1"], ["unknown"], 9) == ["npu0-share-1"]
    assert kubelet.prefer(["npu0-share-0"], ["npu0-share-0"], -1) == []
