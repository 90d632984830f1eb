"""Stands in for podman: a store of images in $FAKE_STORE, and a base image of files in it.

Written as a program of its own, because the module starts it as one.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from pathlib import Path

STORE = Path(os.environ["FAKE_STORE"])
STATE = STORE / "state.json"


def main(arguments: list[str]) -> None:
    state = json.loads(STATE.read_text())
    state["calls"].append(arguments)
    options = dict(word[2:].partition("=")[::2] for word in arguments if word.startswith("--"))
    words = [word for word in arguments if not word.startswith("--")]
    command = words[0]
    if command == "create":
        architecture = options["platform"].rpartition("/")[2]
        if words[1] not in state["bases"] or architecture in state["missing"]:
            sys.exit("Trying to pull it ...\nError: pinging container registry: no such host")
        state["containers"].append(architecture)
        print(f"container-{architecture}")
    elif command == "container":
        print(f"base-{words[-1].rpartition('-')[2]}")
    elif command == "image":
        field = words[2]
        architecture = words[-1].rpartition("-")[2]
        print({"{{.Architecture}}": architecture, "{{.Size}}": size(words[-1], state)}[field])
    elif command == "export":
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
            for name in state["files"]:
                tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    elif command == "rm":
        state["containers"].remove(words[1].rpartition("-")[2])
    elif command == "build":
        context = Path(words[1])
        tree = [str(path.relative_to(context)) for path in sorted(context.rglob("*"))]
        state["images"][options["tag"]] = tree
    elif command == "tag":
        state["images"][words[2]] = state["images"][words[1]]
    elif command == "rmi":
        del state["images"][words[1]]
    elif command == "save":
        Path(options["output"]).write_text("\n".join(state["images"][words[1]]))
    elif command == "push":
        state["pushed"].append(words[1])
    elif words[:2] == ["manifest", "create"]:
        state["manifests"].append(words[2])
    elif words[:2] == ["manifest", "rm"]:
        if words[2] not in state["manifests"]:
            sys.exit("Error: no such image")
        state["manifests"].remove(words[2])
    elif words[:2] == ["manifest", "push"]:
        if state["refuses"]:
            sys.exit("Error: unauthorized")
        state["pushed"].append(words[2])
    elif (
        words[:2] == ["manifest", "inspect"]
        and words[2] not in state["pushed"] + state["manifests"]
    ):
        sys.exit("Error: manifest unknown")
    STATE.write_text(json.dumps(state))


def size(image: str, state: dict[str, dict[str, list[str]]]) -> int:
    return 1000 + 10 * len(state["images"].get(image, []))


if __name__ == "__main__":
    main(sys.argv[1:])
