#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plugin_archive
short_description: Pack the NPU device plugin for one kind of board
version_added: 1.0.0
description:
  - Packs the device plugin and the Python packages it needs into one archive that fits a board's
    Python, architecture and C library, so that the board itself needs neither pip nor a package
    index.
  - Runs on the control node. Use it with C(delegate_to), see the example.
  - The archive is named after a digest of everything that goes into it, and kept in I(cache_dir).
    Where it is there already, neither pip nor a network is used.
  - Several hosts may ask for the same archive at once; it is built once.
options:
  source:
    description: Directory that holds the package C(rknpu_plugin) and its C(requirements.txt).
    type: path
    required: true
  cache_dir:
    description: Directory for finished archives. Made when it is missing.
    type: path
    required: true
  python_version:
    description: Version of the board's Python, such as V(3.11).
    type: str
    required: true
  architecture:
    description:
      - Architecture of the board's programs, V(aarch64) or V(x86_64).
      - There are no wheels for 32-bit systems, also where such a system runs on a 64-bit kernel.
    type: str
    required: true
  libc:
    description: The board's C library.
    type: str
    choices: [glibc, musl]
    default: glibc
  libc_version:
    description: Version of the board's C library, such as V(2.36). It decides which wheels load.
    type: str
    required: true
attributes:
  check_mode:
    description: Tells whether an archive would be built, and builds none.
    support: full
  diff_mode:
    description: There is nothing to compare in an archive.
    support: none
notes:
  - pip of the Python that runs this module is used, with its own settings (for example
    E(PIP_INDEX_URL) or E(PIP_FIND_LINKS)).
  - A finished archive keeps the package versions that pip chose when it was built. Remove the
    archive and the board's release to get newer ones.
seealso:
  - module: rocknpu.edge.npu_info
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Pack the plugin for this board
  rocknpu.edge.plugin_archive:
    source: "{{ role_path }}/../../files/rknpu_plugin"
    cache_dir: ~/.cache/rocknpu/plugin
    python_version: "3.11"
    architecture: aarch64
    libc_version: "2.36"
  delegate_to: localhost
  become: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
"""

RETURN = r"""
path:
  description: The archive, a tar.gz file. In check mode it may not be there yet.
  returned: success
  type: str
  sample: /home/me/.cache/rocknpu/plugin/rknpu-plugin-6f1c0b9d2e7a4c35-py3.11-aarch64.tar.gz
digest:
  description: Name of this release of the plugin, made from everything that goes into it.
  returned: success
  type: str
  sample: 6f1c0b9d2e7a4c35
platforms:
  description: Wheel platform tags that were allowed, best first.
  returned: success
  type: list
  elements: str
  sample: [manylinux_2_17_aarch64, manylinux2014_aarch64]
"""

import sys
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rocknpu.edge.plugins.module_utils.archive import (
    REQUIREMENTS,
    ArchiveError,
    BoardKind,
    archive_name,
    build_archive,
    inputs_digest,
    platform_tags,
    read_requirements,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "path", "required": True},
            "cache_dir": {"type": "path", "required": True},
            "python_version": {"type": "str", "required": True},
            "architecture": {"type": "str", "required": True},
            "libc": {"type": "str", "choices": ["glibc", "musl"], "default": "glibc"},
            "libc_version": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    source = Path(module.params["source"])
    try:
        kind = BoardKind.of(*(module.params[name] for name in BoardKind._fields))
        platforms = platform_tags(kind)
        requirements = read_requirements(source / REQUIREMENTS)
        digest = inputs_digest(source, requirements, kind)
        archive = Path(module.params["cache_dir"]) / archive_name(digest, kind)
        if module.check_mode:
            changed = not archive.is_file()
        else:
            changed = build_archive(sys.executable, source, requirements, kind, archive)
    except ArchiveError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, path=str(archive), digest=digest, platforms=platforms)


if __name__ == "__main__":
    main()
