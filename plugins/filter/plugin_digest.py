# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: plugin_digest
short_description: Name the release of the device plugin that a board is to have
version_added: 1.0.0
description:
  - Returns the name that the module M(rocknpu.edge.plugin_archive) gives to the same sources for
    the same kind of board, and builds nothing. A board that has this release already needs no
    archive.
options:
  _input:
    description: Directory with the sources of the plugin.
    type: path
    required: true
  python_version:
    description: As of the module.
    type: str
    required: true
  architecture:
    description: As of the module.
    type: str
    required: true
  libc:
    description: As of the module.
    type: str
    required: true
  libc_version:
    description: As of the module.
    type: str
    required: true
seealso:
  - plugin: rocknpu.edge.plugin_archive
    plugin_type: module
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Tell which release this board is to have
  ansible.builtin.debug:
    msg: "{{ sources | rocknpu.edge.plugin_digest('3.11', 'aarch64', 'glibc', '2.36') }}"
"""

RETURN = r"""
_value:
  description: Name of the release, 16 hexadecimal digits.
  type: str
  sample: 6f1c0b9d2e7a4c35
"""

from collections.abc import Callable
from pathlib import Path

from ansible_collections.rocknpu.edge.plugins.module_utils.archive import (
    REQUIREMENTS,
    BoardKind,
    inputs_digest,
    read_requirements,
)


def plugin_digest(
    source: str, python_version: str, architecture: str, libc: str, libc_version: str
) -> str:
    """Return the name of the release, see DOCUMENTATION.

    Raises:
        ArchiveError: The sources are not whole, or a version is none.
    """
    kind = BoardKind.of(python_version, architecture, libc, libc_version)
    requirements = read_requirements(Path(source) / REQUIREMENTS)
    return inputs_digest(Path(source), requirements, kind)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return them by name."""
        return {"plugin_digest": plugin_digest}
