"""What an image archive in docker's format holds of the plugin, as JSON.

Usage: read_image.py ARCHIVE
"""

import json
import struct
import sys
import tarfile

with tarfile.open(sys.argv[1]) as archive:
    manifest = json.load(archive.extractfile("manifest.json"))[0]
    config = json.load(archive.extractfile(manifest["Config"]))
    headers = []
    for name in manifest["Layers"]:
        with tarfile.open(fileobj=archive.extractfile(name)) as layer:
            headers += [
                layer.extractfile(entry).read(20)
                for entry in layer
                if entry.isreg() and "opt/rknpu-plugin/" in entry.name and ".so" in entry.name
            ]
print(
    json.dumps(
        {
            "architecture": config["architecture"],
            "entrypoint": config["config"]["Entrypoint"],
            "labels": config["config"]["Labels"],
            "shared_objects": len(headers),
            "machines": sorted({struct.unpack("<H", header[18:20])[0] for header in headers}),
        }
    )
)
