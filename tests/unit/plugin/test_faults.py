"""Faults: what a board in the field does to the plugin."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import time

import grpc
import pytest
from rknpu_plugin.self_check import call_endpoint
from unit.plugin.plugin_process import PluginProcess
from unit.plugin.waiting import wait_for

pytestmark = pytest.mark.slow


def test_hundred_kubelet_restarts_leak_nothing(work, board, kubelet):
    """Else a memory limit ends it: https://github.com/squat/generic-device-plugin/issues/17"""
    kubelet.start()
    with PluginProcess(work) as plugin:
        for number in range(1, 11):
            kubelet.wait_client(number)
            kubelet.restart()
        kubelet.wait_client(11)
        time.sleep(1)
        threads, descriptors, memory = plugin.threads, plugin.descriptors, plugin.rss_mib
        for number in range(12, 112):
            kubelet.restart()
            kubelet.wait_client(number)
        wait_for(lambda: plugin.threads <= threads and plugin.descriptors <= descriptors)
        assert plugin.rss_mib < memory + 3
        assert kubelet.allocatable == 2


def test_thousand_allocations_with_restarts_between(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work) as plugin:
        for turn in range(1, 11):
            kubelet.wait_client(turn)
            for _ in range(100):
                assert kubelet.allocate(["npu0-share-0"])[0].envs["RKNPU_SHARE_IDS"]
            kubelet.restart()
        kubelet.wait_client(11)
        plugin.wait_log("shares were allocated", times=1000)


def test_frozen_plugin_goes_on_where_it_stopped(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work) as plugin:
        kubelet.wait_client(1)
        plugin.signal(signal.SIGSTOP)
        time.sleep(1)
        plugin.signal(signal.SIGCONT)
        assert kubelet.allocate(["npu0-share-0"])
        assert kubelet.allocatable == 2
        assert len(kubelet.clients) == 1


def test_kubelet_restarts_while_the_plugin_is_frozen(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work) as plugin:
        kubelet.wait_client(1)
        plugin.signal(signal.SIGSTOP)
        kubelet.restart()
        time.sleep(0.5)
        plugin.signal(signal.SIGCONT)
        kubelet.wait_client(2)
        assert kubelet.allocatable == 2


def test_device_lost_while_the_plugin_is_frozen(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work) as plugin:
        kubelet.wait_client(1)
        plugin.signal(signal.SIGSTOP)
        board.unbind()
        time.sleep(0.5)
        plugin.signal(signal.SIGCONT)
        kubelet.wait(lambda: kubelet.allocatable == 0 and kubelet.devices)


# Adds to the wall clock what stands in the file $CLOCK_OFFSET; the monotonic clock goes on.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static long offset(void) {
    static volatile long *shared;
    if (!shared)
        shared = mmap(0, 8, PROT_READ, MAP_SHARED, open(getenv("CLOCK_OFFSET"), O_RDONLY), 0);
    return *shared;
}
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += offset();
    return result;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
"""


class Clock:
    """The wall clock of a plugin's process."""

    def __init__(self, work):
        if shutil.which("cc") is None:
            pytest.skip("a C compiler is needed to change a process's clock")
        if int(grpc.__version__.split(".")[1]) < 60:
            pytest.skip("this gRPC reads the clock by system call, which the library cannot change")
        self._file = work / "clock-offset"
        self.set(0)
        library = work / "clock.so"
        build = ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library), "-ldl"]
        subprocess.run(build, input=CLOCK.encode(), check=True)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self._file)}

    def set(self, seconds):
        with self._file.open("r+b" if self._file.exists() else "wb") as stream:
            stream.write(struct.pack("l", seconds))


def test_clock_that_jumps_changes_nothing(work, board, kubelet):
    """Boards without a battery start in 1970 and jump when the network is there."""
    clock = Clock(work)
    year = 365 * 24 * 3600
    clock.set(-50 * year)
    kubelet.start()
    with PluginProcess(work, clock.environment) as plugin:
        client = kubelet.wait_client(1)
        assert plugin.log.startswith("19")
        for turn, jump in enumerate((0, 3600, -3600, 10 * year, 0), 2):
            clock.set(jump)
            assert call_endpoint(str(work / "kubelet" / client.endpoint)) is None
            kubelet.restart()
            client = kubelet.wait_client(turn)
        clock.set(-3600)
        board.unbind()
        kubelet.wait(lambda: kubelet.devices and kubelet.allocatable == 0)
        clock.set(year)
        board.bind()
        kubelet.wait(lambda: kubelet.allocatable == 2)


def test_directory_removed_and_back_in_a_process(work, board, kubelet):
    kubelet.start()
    with PluginProcess(work) as plugin:
        kubelet.wait_client(1)
        kubelet.stop()
        shutil.rmtree(work / "kubelet")
        plugin.wait_log("waiting for the kubelet")
        kubelet.start()
        kubelet.wait_client(2)
        assert kubelet.allocatable == 2


@pytest.fixture
def small_disk(work):
    """A file system for the kubelet's directory that has no room for another file."""
    target = work / "kubelet"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "nr_inodes=4", "tmpfs", str(target)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting needs root")
    yield target
    subprocess.run(["umount", "-l", str(target)], check=True)


def test_full_disk_in_the_kubelets_directory(small_disk, work, board, kubelet):
    kubelet.start()
    fillers = [small_disk / "filler-1", small_disk / "filler-2"]
    for filler in fillers:
        filler.write_text("")
    with PluginProcess(work) as plugin:
        plugin.wait_log("no space is left on the device")
        assert str(small_disk) in plugin.log
        for filler in fillers:
            filler.unlink()
        kubelet.wait_client(1)
        assert kubelet.allocatable == 2
        # Told once, however often it was tried.
        assert plugin.log.count("no space is left on the device") <= 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_that_may_not_be_written(work, board, kubelet):
    kubelet.start()
    (work / "kubelet").chmod(0o500)
    try:
        with PluginProcess(work) as plugin:
            plugin.wait_log("permission denied; the plugin must run as root")
    finally:
        (work / "kubelet").chmod(0o700)


def test_read_only_directory_is_explained(work, board, kubelet):
    """A hardened unit sees the old directory when k3s has made a new one."""
    kubelet.start()
    target = str(work / "kubelet")
    bind = ["mount", "--bind", target, target]
    if subprocess.run(bind, capture_output=True).returncode:
        pytest.skip("mounting needs root")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", target], check=True)
        with PluginProcess(work) as plugin:
            plugin.wait_log("it is read-only for the plugin; restart it")
            assert target in plugin.log
    finally:
        subprocess.run(["umount", "-l", target], check=True)


def test_device_that_flaps_ends_in_the_truth(kubelet, run_plugin, board):
    kubelet.start()
    run_plugin()
    kubelet.wait_client()
    for _ in range(15):
        board.remove_nodes("renderD129")
        time.sleep(0.05)
        board.make_nodes("renderD129")
        time.sleep(0.05)
    time.sleep(1.5)
    assert kubelet.allocatable == 2
    assert len(kubelet.clients) == 1
