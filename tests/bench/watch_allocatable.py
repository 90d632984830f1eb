"""Print how many NPU shares the kubelet of this board would give away, whenever that changes.

Each line holds the time of the monotonic clock and the number. Ends when FILE is gone. Run by the
board's Python, with the plugin's libraries: PYTHONPATH=/opt/rknpu-plugin/current.

Usage: watch_allocatable.py FILE
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import grpc

SOCKET = "unix:/var/lib/kubelet/pod-resources/kubelet.sock"
METHOD = "/v1.PodResourcesLister/GetAllocatableResources"
# The kubelet answers a hundred times a second and no more.
SECONDS = 0.012


def main() -> None:
    channel = grpc.insecure_channel(SOCKET, options=[("grpc.default_authority", "localhost")])
    ask = channel.unary_unary(METHOD)
    last = None
    while Path(sys.argv[1]).exists():
        try:
            # Of the answer nothing but the IDs is needed.
            shares = ask(b"", timeout=5).count(b"npu0-share-")
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                continue
            shares = 0
        if shares != last:
            last = shares
            print(time.monotonic(), shares, flush=True)
        time.sleep(SECONDS)


if __name__ == "__main__":
    main()
