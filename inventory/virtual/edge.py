#!/usr/bin/env python3
"""Where the virtual boards are, found out once in a run: templates are worked out by each task.

From the environment: ROCKNPU_CACHE, ROCKNPU_EDGE (name of the edge), ROCKNPU_EDGE_NET (first three
bytes of its addresses) and ROCKNPU_K3S_RELEASE (a release of k3s such as v1.37.1+k3s1, where it can
be downloaded; without one the stand-in, real Kubernetes behind the command line of k3s).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

cache = os.environ.get("ROCKNPU_CACHE") or str(Path("~/.cache/rocknpu").expanduser())
name = os.environ.get("ROCKNPU_EDGE") or "edge"
directory = f"{cache}/edges/{name}"
ssh = [
    f"-o 'UserKnownHostsFile=\"{directory}/known_hosts\"' -o GlobalKnownHostsFile=/dev/null",
    "-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes",
    "-o ServerAliveInterval=3 -o ServerAliveCountMax=3",
]
variables = {
    "edge_cache": cache,
    "edge_name": name,
    "edge_dir": directory,
    "edge_net": os.environ.get("ROCKNPU_EDGE_NET") or "198.51.100",
    "edge_k3s_release": os.environ.get("ROCKNPU_K3S_RELEASE", ""),
    "edge_cgroup_v2": Path("/sys/fs/cgroup/cgroup.controllers").exists(),
    "ansible_ssh_private_key_file": f"{directory}/id_ed25519",
    "ansible_ssh_common_args": " ".join(ssh),
}
print(json.dumps({"k3s_cluster": {"vars": variables}, "_meta": {"hostvars": {}}}))
