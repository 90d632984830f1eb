"""ListAndWatch: what is sent, when, and to whom."""

from __future__ import annotations

import threading
import time

import grpc
import pytest
from rknpu_plugin.api import deviceplugin_pb2 as api
from rknpu_plugin.service import MAX_STREAMS, WORKERS
from rknpu_plugin.share_list import ShareList
from unit.plugin.kubelet_stub import CHANNEL_OPTIONS, call
from unit.plugin.waiting import wait_for


def open_list(channel):
    return channel.unary_stream(
        "/v1beta1.DevicePlugin/ListAndWatch",
        request_serializer=api.Empty.SerializeToString,
        response_deserializer=api.ListAndWatchResponse.FromString,
    )(api.Empty())


@pytest.fixture
def channel(kubelet, run_plugin, work):
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client()
    path = work / "kubelet" / client.endpoint
    with grpc.insecure_channel(f"unix:{path}", options=CHANNEL_OPTIONS) as made:
        yield made


def test_ids_and_health_as_the_kubelet_expects_them(kubelet, run_plugin):
    """Only exactly "Healthy" counts as healthy, and an ID has at most 63 characters."""
    kubelet.start()
    run_plugin(shares=100)
    listing = kubelet.wait_client().listings[0]
    assert list(listing.devices) == [f"npu0-share-{index}" for index in range(100)]
    assert set(listing.devices.values()) == {"Healthy"}
    assert max(map(len, listing.devices)) <= 63


def test_no_topology_is_claimed(kubelet, run_plugin, work):
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client()
    with grpc.insecure_channel(f"unix:{work / 'kubelet' / client.endpoint}") as channel:
        stream = open_list(channel)
        assert not any(device.HasField("topology") for device in next(stream).devices)
        stream.cancel()


def test_nothing_is_sent_without_a_change(kubelet, run_plugin, hasty):
    """Each message makes the kubelet write its checkpoint to the board's card."""
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client()
    time.sleep(0.6)
    assert len(client.listings) == 1


def test_whole_list_is_sent_on_a_change(kubelet, run_plugin):
    kubelet.start()
    plugin = run_plugin(shares=3)
    kubelet.wait_client()
    plugin.reload(shares=2)
    kubelet.wait_devices({"npu0-share-0": "Healthy", "npu0-share-1": "Healthy"})
    assert len(kubelet.clients) == 1
    assert len(kubelet.clients[0].listings) == 2


def test_each_stream_hears_every_change(kubelet, run_plugin, work):
    """A flag shared by the streams would be cleared by one that nobody reads any more."""
    kubelet.start()
    plugin = run_plugin(shares=3)
    client = kubelet.wait_client()
    with grpc.insecure_channel(f"unix:{work / 'kubelet' / client.endpoint}") as channel:
        stream = open_list(channel)
        assert len(next(stream).devices) == 3
        plugin.reload(shares=1)
        assert len(next(stream).devices) == 1
        kubelet.wait_devices({"npu0-share-0": "Healthy"})
        stream.cancel()


def test_stream_ends_when_the_client_goes(channel):
    """Else each kubelet restart would cost a thread, until no call is answered."""
    before = threading.active_count()
    for _ in range(20):
        stream = open_list(channel)
        next(stream)
        stream.cancel()
        # Answered as long as a thread is free.
        call(channel, "GetDevicePluginOptions", api.Empty(), api.DevicePluginOptions, timeout=10)
    wait_for(lambda: threading.active_count() <= before + WORKERS)


def test_newest_lists_win_and_calls_are_answered(channel):
    """A kubelet that comes back is not refused because its former self has not been missed yet."""
    streams = []
    for _ in range(MAX_STREAMS + 6):
        streams.append(open_list(channel))
        next(streams[-1])
    for stream in streams[:-MAX_STREAMS]:
        assert stream.code() is grpc.StatusCode.OK
    call(channel, "GetDevicePluginOptions", api.Empty(), api.DevicePluginOptions, timeout=10)
    assert all(stream.is_active() for stream in streams[-MAX_STREAMS:])
    for stream in streams:
        stream.cancel()


def test_stream_stays_open(kubelet, run_plugin, hasty):
    """A list that ends is an outage: https://github.com/ROCm/k8s-device-plugin/issues/186"""
    kubelet.start()
    run_plugin()
    client = kubelet.wait_client()
    time.sleep(0.6)
    assert client.ended is None
    assert len(kubelet.clients) == 1


def test_share_list_knows_what_is_new():
    shares = ShareList()
    assert shares.publish(shares=["a"], healthy=False)
    assert not shares.publish(shares=["a"])
    assert not shares.publish(healthy=False)
    assert shares.publish(healthy=True)
    assert shares.current == (2, ("a",), True)
    assert shares.wait_newer(1, lambda: True).generation == 2
    assert shares.wait_newer(2, lambda: False) is None


def test_share_list_wakes_readers_that_are_no_longer_wanted():
    shares = ShareList()
    shares.publish(shares=["a"], healthy=True)
    wanted, results = [True], []
    reader = threading.Thread(
        target=lambda: results.append(shares.wait_newer(1, lambda: wanted[0]))
    )
    reader.start()
    time.sleep(0.1)
    assert reader.is_alive()
    wanted[0] = False
    shares.wake()
    reader.join(5)
    assert results == [None]
