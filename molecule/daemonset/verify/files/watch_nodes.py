"""Print as JSON the longest time in seconds that each node offered no NPU. Ends when FILE is gone.

Usage: watch_nodes.py KUBECONFIG FILE
"""

import json
import sys
import time
from pathlib import Path

from kubernetes import client, config, watch

RESOURCE = "rocknpu.device/npu"

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
since: dict[str, float] = {}
longest: dict[str, float] = {}
while Path(sys.argv[2]).exists():
    # Short enough to see that the file is gone, and to begin anew where the connection broke.
    for event in watch.Watch().stream(api.list_node, timeout_seconds=5):
        node = event["object"]
        name, now = node.metadata.name, time.monotonic()
        if int((node.status.allocatable or {}).get(RESOURCE, "0")):
            longest[name] = max(longest.get(name, 0.0), now - since.pop(name, now))
        else:
            since.setdefault(name, now)
for name, start in since.items():
    longest[name] = max(longest.get(name, 0.0), time.monotonic() - start)
print(json.dumps(longest))
