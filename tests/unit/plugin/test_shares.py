"""Shares: which are offered, which cores they lean to, and how changes spare those in use."""

from __future__ import annotations

import threading
import time

import pytest
from rknpu_plugin.board import read_board
from rknpu_plugin.config_sources import load_config
from rknpu_plugin.inventory import Inventory
from rknpu_plugin.podresources import Holder
from rknpu_plugin.share_list import ShareList
from rknpu_plugin.shares import core_mask, cores_of, prefer, select_shares, share_id, share_index
from unit.plugin.board_tree import BoardTree, is_node
from unit.plugin.kubelet_stub import PodResourcesStub


def ids(*indexes):
    return [share_id(index) for index in indexes]


@pytest.mark.parametrize(
    ("soc", "shares"),
    [("rk3588", 2), ("rk3588s", 2), ("rk3576", 2), ("rk3566", 1), ("rk3568", 1), ("rk3562", 1)],
)
def test_default_by_soc(kubelet, run_plugin, work, soc, shares):
    BoardTree(work / soc, soc=soc)
    kubelet.start()
    run_plugin(host_root=work / soc)
    kubelet.wait_devices(dict.fromkeys(ids(*range(shares)), "Healthy"))


@pytest.mark.parametrize("shares", [1, 3, 100])
def test_as_many_as_configured(kubelet, run_plugin, shares):
    kubelet.start()
    run_plugin(shares=shares)
    kubelet.wait_devices(dict.fromkeys(ids(*range(shares)), "Healthy"))


def test_ids_stay_the_same_across_restarts(kubelet, run_plugin):
    kubelet.start()
    plugin = run_plugin(shares=3)
    first = kubelet.wait_client(1)
    plugin.stop()
    run_plugin(shares=3)
    second = kubelet.wait_client(2)
    assert first.listings[0].devices == second.listings[0].devices


@pytest.mark.parametrize(
    ("count", "in_use", "chosen"),
    [
        (2, [], [0, 1]),
        (2, [0, 1, 2, 3], [0, 1]),
        (2, [3], [0, 3]),
        (2, [2, 3], [2, 3]),
        (1, [2, 3], [2]),
        (3, [5, 5], [0, 1, 5]),
        (4, [3], [0, 1, 2, 3]),
        (0, [1], []),
    ],
)
def test_selection(count, in_use, chosen):
    assert select_shares(count, in_use) == chosen


def test_withdrawal_spares_shares_in_use(kubelet, run_plugin, work):
    """After a reboot a kubelet refuses pods whose device has left the list."""
    kubelet.start()
    with PodResourcesStub(work / "kubelet") as pods:
        plugin = run_plugin(shares=4)
        kubelet.wait_client()
        pods.hold("npu0-share-3")
        pods.hold("npu0-share-1", resource="example.org/other")
        plugin.reload(shares=2)
        kubelet.wait_devices(dict.fromkeys(ids(0, 3), "Healthy"))
    assert len(kubelet.clients) == 1


def test_older_answer_of_the_kubelet_undoes_no_choice(board):
    """A slow answer to one thread, from before a container took a share that another one sees."""
    asked, asked_again = threading.Event(), threading.Event()

    def holders():
        if asked.is_set():
            asked_again.set()
            return [Holder("default", "pod", "main", "npu0-share-3")]
        asked.set()
        asked_again.wait(0.5)
        return []

    shares = ShareList()
    config = load_config({"shares": "2"}, {}).config
    inventory = Inventory(
        lambda: config, lambda: read_board(str(board.root), is_node), holders, shares
    )
    slow = threading.Thread(target=inventory.update)
    slow.start()
    assert asked.wait(5)
    inventory.update()
    slow.join()
    assert shares.current.shares == ("npu0-share-0", "npu0-share-3")


def test_restart_with_fewer_shares_spares_those_in_use(kubelet, run_plugin, work):
    kubelet.start()
    with PodResourcesStub(work / "kubelet") as pods:
        pods.hold("npu0-share-3")
        run_plugin(shares=2)
        kubelet.wait_devices(dict.fromkeys(ids(0, 3), "Healthy"))


def test_kubelet_that_comes_later_tells_what_is_in_use(kubelet, run_plugin, work):
    run_plugin(shares=2)
    time.sleep(0.3)
    with PodResourcesStub(work / "kubelet") as pods:
        pods.hold("npu0-share-2")
        kubelet.start()
        kubelet.wait_devices(dict.fromkeys(ids(0, 2), "Healthy"))


def test_without_pod_resources_the_highest_go(kubelet, run_plugin):
    kubelet.start()
    plugin = run_plugin(shares=4)
    kubelet.wait_client()
    plugin.reload(shares=2)
    kubelet.wait_devices(dict.fromkeys(ids(0, 1), "Healthy"))


def test_more_shares_keep_the_old_ones(kubelet, run_plugin):
    kubelet.start()
    plugin = run_plugin(shares=1)
    kubelet.wait_client()
    plugin.reload(shares=3)
    kubelet.wait_devices(dict.fromkeys(ids(0, 1, 2), "Healthy"))
    assert len(kubelet.clients) == 1


def test_exclusive_npu_is_one_share(kubelet, run_plugin):
    """Two clients at once can take a board down: shares: 1 is one setting away.

    https://github.com/igou-io/igou-kubernetes/issues/869
    """
    kubelet.start()
    run_plugin(shares=1)
    kubelet.wait_client()
    assert kubelet.allocatable == 1


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("npu0-share-0", 0),
        ("npu0-share-99", 99),
        ("npu0-share-", None),
        ("npu0-share-01", None),
        ("npu0-share-1000", None),
        ("npu0-share-1\n", None),
        ("npu1-share-1", None),
        ("", None),
    ],
)
def test_index_of_an_id(text, index):
    assert share_index(text) == index


@pytest.mark.parametrize(
    ("shares", "cores", "expected"),
    [
        (1, 3, [[0, 1, 2]]),
        (2, 3, [[0, 1], [2]]),
        (3, 3, [[0], [1], [2]]),
        (4, 3, [[0], [1], [2], [0]]),
        (1, 2, [[0, 1]]),
        (2, 2, [[0], [1]]),
        (2, 1, [[0], [0]]),
    ],
)
def test_cores_of_shares(shares, cores, expected):
    assert [list(cores_of(index, shares, cores)) for index in range(shares)] == expected


@pytest.mark.parametrize(
    ("indexes", "shares", "cores", "mask"),
    [
        ([0], 1, 3, 7),
        ([0], 2, 3, 3),
        ([1], 2, 3, 4),
        ([0, 1], 2, 3, 7),
        ([0, 1], 3, 3, 3),
        # Cores 1 and 2 are no group that RKNN knows: it is asked to choose.
        ([1, 2], 3, 3, 0),
        ([0, 2], 3, 3, 0),
        ([0], 1, 2, 3),
        ([0], 1, 1, None),
    ],
)
def test_core_masks_are_those_of_rknn(indexes, shares, cores, mask):
    assert core_mask(indexes, shares, cores) == mask


@pytest.mark.parametrize(
    ("free", "required", "size", "chosen"),
    [
        # Six shares of three cores: 0 and 3 lean to core 0, 1 and 4 to core 1, 2 and 5 to core 2.
        ([0, 1, 2, 3, 4, 5], [], 1, [0]),
        ([0, 1, 2, 3, 4, 5], [], 2, [0, 1]),
        ([0, 1, 2, 3, 4, 5], [], 3, [0, 1, 2]),
        ([0, 1, 2, 3, 4, 5], [], 6, [0, 1, 2, 3, 4, 5]),
        # Core 0 is used by share 0: the next containers go elsewhere.
        ([1, 2, 3, 4, 5], [], 1, [1]),
        ([2, 3, 4, 5], [], 1, [2]),
        ([3, 4, 5], [], 1, [3]),
        # Share 3 must be in it, so share 0 is the worst choice beside it.
        ([0, 1, 2, 3, 4, 5], [3], 2, [3, 1]),
        ([0, 3], [], 2, [0, 3]),
    ],
)
def test_preferred_shares_spread_over_cores(free, required, size, chosen):
    offered = ids(*range(6))
    assert prefer(ids(*free), ids(*required), size, offered, 3) == ids(*chosen)
