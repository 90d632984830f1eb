#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible module that edits the kernel arguments of a board."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: boot_arguments
short_description: Add and remove kernel arguments where the boot loader reads them
version_added: 1.0.0
description:
  - Finds the file that holds the kernel arguments on this image, and edits whole arguments in it.
    Everything else keeps its bytes, and a second run changes nothing.
  - Knows C(armbianEnv.txt), C(orangepiEnv.txt), C(ubuntuEnv.txt), C(extlinux.conf),
    C(u-boot-update) with C(/etc/kernel/cmdline) or C(/etc/default/u-boot), the C(cmdline.txt) of
    the Raspberry Pi, and GRUB. A file counts only where something shows that the boot loader reads
    it, so that those of other images are left alone.
  - Does not reboot, and does not run the command that some boot loaders need afterwards.
    RV(due) and RV(command) tell what is left to do.
options:
  present:
    description: Arguments that are to be there. Those that are missing come after the others.
    type: list
    elements: str
    default: []
  absent:
    description: Arguments that are not to be there.
    type: list
    elements: str
    default: []
  backup:
    description: Whether to keep a copy of the file, with the date in its name, before it changes.
    type: bool
    default: false
  root:
    description:
      - Directory that holds the board's C(/boot), C(/etc), C(/proc) and C(/sys).
      - Other values than C(/) are for root file systems mounted elsewhere.
    type: path
    default: /
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what would change.
    support: full
  diff_mode:
    description: Returns details on what has changed in diff mode.
    support: full
  platform:
    description: Target systems that the module can edit.
    support: full
    platforms: posix
requirements:
  - python >= 3.8
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Turn the memory cgroup on
  rocknpu.edge.boot_arguments:
    present: [cgroup_enable=memory, cgroup_memory=1]
    absent: [cgroup_disable=memory]
    backup: true
  register: boot
  notify: Reboot

- name: Hand them on to the file that the boot loader reads
  ansible.builtin.command: "{{ boot.command }}"
  when: boot.command | length > 0
  notify: Reboot
"""

RETURN = r"""
kind:
  description:
    - The way this image boots, V(grub), V(cmdline.txt), V(u-boot-menu), V(kernel-cmdline),
      V(extlinux), V(armbianEnv.txt), V(orangepiEnv.txt) or V(ubuntuEnv.txt).
  returned: always
  type: str
  sample: armbianEnv.txt
path:
  description: The file with the kernel arguments.
  returned: always
  type: str
  sample: /boot/armbianEnv.txt
command:
  description:
    - Command that has to be run now, because the boot loader reads another file that is made from
      RV(path) and is not as wanted yet. Empty if there is nothing to run.
  returned: always
  type: str
  sample: update-grub
running:
  description: Whether the kernel runs with all arguments of O(present).
  returned: always
  type: bool
  sample: false
due:
  description:
    - Whether a reboot is due, because something has changed since the last one and the kernel does
      not run with it.
    - Where neither this nor RV(running) is true, a reboot was of no use, and the boot loader does
      not read RV(path) after all.
  returned: always
  type: bool
  sample: true
backup_file:
  description: The copy of the file as it was.
  returned: when O(backup=true) and the file changed
  type: str
  sample: /boot/armbianEnv.txt.4711.2026-11-29@12:00:00~
"""

import os
import re
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.board_files import BoardFiles
from ..module_utils.boot_files import (
    BootFile,
    find_boot_file,
    is_handed_on,
    read_command_line,
)
from ..module_utils.boot_formats import UnclearFileError, Wanted
from ..module_utils.kernel_arguments import is_plain, split_arguments


def write_file(module: AnsibleModule, path: str, content: bytes) -> None:
    """Replace a file at once; a link to it stays."""
    descriptor, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    module.atomic_move(temporary, os.path.realpath(path))


def is_due(files: BoardFiles, found: BootFile, root: str) -> bool:
    """Whether a file has changed since the kernel was started."""
    started = re.search(r"^btime (\d+)$", files.text("/proc/stat") or "", re.MULTILINE)
    paths = [found.path] + ([found.generated.path] if found.generated else [])
    changed = max(Path(root + path).stat().st_mtime for path in paths)
    return not started or changed >= int(started[1])


def main() -> None:
    """Edit the arguments and report."""
    module = AnsibleModule(
        argument_spec={
            "present": {"type": "list", "elements": "str", "default": []},
            "absent": {"type": "list", "elements": "str", "default": []},
            "backup": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    wanted = Wanted(module.params["present"], module.params["absent"])
    for argument in (*wanted.present, *wanted.absent):
        if not is_plain(argument):
            module.fail_json(
                msg=f'"{argument}" is no kernel argument that this module can write: use letters, '
                "digits and _ . , : = / + - only."
            )
    files = BoardFiles(module.params["root"])
    found = find_boot_file(files)
    if not found:
        module.fail_json(
            msg="No file is known that the boot loader of this image reads its kernel arguments "
            f"from: set them by hand ({' '.join(wanted.present)}) and reboot."
        )
    root = module.params["root"].rstrip("/")
    path = root + found.path
    try:
        before = Path(path).read_bytes().decode("latin-1")
        after = found.edit(before, wanted)
    except (OSError, UnclearFileError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        module.fail_json(msg=f"{found.path} {reason}: edit its kernel arguments by hand.")
    result = {
        "changed": after != before,
        "kind": found.kind,
        "path": found.path,
        "command": "",
        "running": set(wanted.present) <= set(split_arguments(read_command_line(files))),
    }
    if found.generated and not is_handed_on(files, found.generated, wanted):
        result["command"] = found.generated.command
    to_do = result["changed"] or result["command"]
    result["due"] = bool(to_do or (not result["running"] and is_due(files, found, root)))
    if result["changed"]:
        result["diff"] = {
            "before_header": found.path,
            "after_header": found.path,
            # As UTF-8 where it is, which is what people want to read.
            "before": before.encode("latin-1").decode("utf-8", "replace"),
            "after": after.encode("latin-1").decode("utf-8", "replace"),
        }
        if not module.check_mode:
            if module.params["backup"]:
                result["backup_file"] = module.backup_local(path)
            write_file(module, path, after.encode("latin-1"))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
