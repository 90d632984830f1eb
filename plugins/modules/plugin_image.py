#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plugin_image
short_description: Build the container image of the device plugin
version_added: 1.0.0
description:
  - Builds the image with podman or docker, whichever is there, for several architectures.
    Nothing of the image runs while it is built, so no emulation is needed.
  - pip resolves the Python packages of each architecture for the Python that is found in the base
    image.
  - The image ends up in an archive for each architecture, for boards without a registry, or in a
    registry.
  - Runs on the control node. Use it with C(delegate_to), see the examples.
options:
  source:
    description: Directory of the plugin's distribution, with its F(Dockerfile).
    type: path
    required: true
  base:
    description: The image below it, which must have Python 3.8 or newer for each architecture.
    type: str
    required: true
  registry:
    description:
      - Registry and path that the image is pushed to, such as V(registry.example.org/edge). Without
        one the image is written to archives.
    type: str
    default: ""
  architectures:
    description: What to build it for.
    type: list
    elements: str
    choices: [arm64, amd64]
    default: [arm64, amd64]
  cache_dir:
    description: Directory for the archives. It is made if it is not there.
    type: path
    required: true
  build:
    description: With V(false) nothing is built, and the answer tells what there is.
    type: bool
    default: true
attributes:
  check_mode:
    description: Tells whether something would be built.
    support: full
  diff_mode:
    description: There are only whole images.
    support: none
notes:
  - The tag of the image is made from everything that goes into it, so an archive that is there is
    used as it is. It keeps the package versions that pip chose when it was built. Remove the
    archive to get newer ones.
  - Without a change of the plugin an image that the registry has is not built again.
seealso:
  - module: rocknpu.edge.plugin_archive
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Build archives for boards without a registry
  rocknpu.edge.plugin_image:
    source: "{{ role_path }}/../../files/rknpu_plugin"
    base: docker.io/library/python:3.13-slim
    cache_dir: ~/.cache/rocknpu/plugin
  delegate_to: localhost
  become: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"

- name: Build and push
  rocknpu.edge.plugin_image:
    source: "{{ role_path }}/../../files/rknpu_plugin"
    base: docker.io/library/python:3.13-slim
    registry: registry.example.org/edge
    cache_dir: ~/.cache/rocknpu/plugin
  delegate_to: localhost
  become: false
"""

RETURN = r"""
reference:
  description: Name of the image, for the manifest of a pod.
  returned: success
  type: str
  sample: localhost/rknpu-plugin:1.0.0-6f1c0b9d2e7a4c35
archives:
  description: The archive of each architecture that is there.
  returned: success
  type: dict
  sample:
    arm64: /home/me/.cache/rocknpu/plugin/rknpu-plugin-1.0.0-6f1c0b9d2e7a4c35-arm64.tar
built:
  description: What was built in this run.
  returned: success
  type: list
  elements: dict
  contains:
    architecture:
      description: Architecture of the image.
      type: str
      returned: always
      sample: arm64
    reference:
      description: Name of the image on the control node.
      type: str
      returned: always
      sample: localhost/rknpu-plugin:1.0.0-6f1c0b9d2e7a4c35-arm64
    size:
      description: Size of the image in bytes.
      type: int
      returned: always
      sample: 150000000
    added:
      description: How many of them are not those of the base image.
      type: int
      returned: always
      sample: 26000000
"""

import sys
from pathlib import Path
from typing import Any, Mapping

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rocknpu.edge.plugins.module_utils.archive import ArchiveError
from ansible_collections.rocknpu.edge.plugins.module_utils.image import (
    ImageError,
    Source,
    archive_file,
    build_archives,
    find_builder,
    push_images,
    repository,
)


def run(options: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Build what is missing and return the result of the module.

    Raises:
        ArchiveError
        ImageError
    """
    source = Source(Path(options["source"]), options["base"])
    cache = Path(options["cache_dir"])
    architectures = list(dict.fromkeys(options["architectures"]))
    tag = source.tag()
    reference = f"{repository(options['registry'])}:{tag}"
    files = {name: archive_file(cache, tag, name) for name in architectures}
    built = []
    changed = False
    if options["build"]:
        if options["registry"]:
            changed = not find_builder().is_pushed(reference)
        else:
            changed = not all(file.is_file() for file in files.values())
        if changed and not check_mode:
            build = push_images if options["registry"] else build_archives
            built = build(sys.executable, source, reference, architectures, cache)
    return {
        "changed": changed,
        "reference": reference,
        "archives": {name: str(file) for name, file in files.items() if file.is_file()},
        "built": [image._asdict() for image in built],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "path", "required": True},
            "base": {"type": "str", "required": True},
            "registry": {"type": "str", "default": ""},
            "architectures": {
                "type": "list",
                "elements": "str",
                "choices": ["arm64", "amd64"],
                "default": ["arm64", "amd64"],
            },
            "cache_dir": {"type": "path", "required": True},
            "build": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**run(module.params, module.check_mode))
    except (ArchiveError, ImageError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
