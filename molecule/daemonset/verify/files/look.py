"""What a container can do, as JSON. Runs in the image of the plugin."""

import json
import os
import urllib.error
import urllib.request
from pathlib import Path


def status(path):
    try:
        return urllib.request.urlopen("http://127.0.0.1:9475" + path, timeout=6).status
    except urllib.error.HTTPError as error:
        return error.code


def writes(directory):
    path = Path(directory, ".look")
    try:
        path.touch()
    except OSError:
        return False
    path.unlink()
    return True


def opens(node):
    try:
        os.close(os.open(str(node), os.O_RDWR | os.O_NONBLOCK))
    except OSError:
        return False
    return True


lines = Path("/proc/self/status").read_text().splitlines()
fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
kubelet = "/var/lib/kubelet/"
places = ["/", "/tmp", "/opt/rknpu-plugin", "/etc/rknpu-plugin", "/host/dev", "/host/sys"]
places += [kubelet + "device-plugins", kubelet + "pod-resources"]
# Other nodes of a virtual board have numbers that every container may open.
nodes = list(Path("/host/dev/dri").glob("renderD*"))
print(
    json.dumps(
        {
            "capabilities": fields["CapEff"],
            "seccomp": fields["Seccomp"],
            "no_new_privileges": fields["NoNewPrivs"],
            "writes": [place for place in places if writes(place)],
            "sees": [str(node) for node in nodes if node.is_char_device()],
            "opens": [str(node) for node in nodes if opens(node)],
            "token": Path("/var/run/secrets/kubernetes.io").exists(),
            "healthz": status("/healthz"),
            "readyz": status("/readyz"),
        }
    )
)
