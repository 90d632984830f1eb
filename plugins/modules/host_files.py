#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible module that brings several files of a host into their state in one go."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_files
short_description: Write, link and remove several files of a host in one go
version_added: 1.0.0
description:
  - Does for a list of files what M(ansible.builtin.copy) and M(ansible.builtin.file) do for one. On
    a small board each run of a module takes about as long as all of this list.
  - Nothing is changed unless all of the list can be done. A file gets its new content at once, so
    that no reader sees half of it, and never lies there with another mode than its own.
options:
  files:
    description: The files, in the order in which they are to be changed.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: The file. Directories that are missing above it are made with mode 0755.
        type: path
        required: true
      state:
        description: What it is to be. V(absent) removes files and links, never a directory.
        type: str
        choices: [file, directory, link, absent]
        default: file
      content:
        description: What is to be in the V(file), if not one of O(secrets).
        type: str
      target:
        description: Where the V(link) is to lead.
        type: str
      mode:
        description:
          - The mode of a V(file) or V(directory), octal and quoted.
          - The default is V(0755) for directories, V(0600) for files of O(secrets), and V(0644) for
            others.
        type: raw
      validate:
        description: Command that checks the new content before it counts; V(%s) is the file.
        type: str
  secrets:
    description:
      - What is to be in files whose content nobody is to see, by their path in O(files).
      - It is in no difference, no result, and not in the log that modules write on the host.
      - No difference shows what only the owner of a file could read before it is removed, or opened
        to others.
    type: dict
    default: {}
  owner:
    description:
      - User that all of them belong to. Without it, what is there keeps its owner.
    type: str
  group:
    description: Group that all of them belong to, in the same way.
    type: str
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what would change.
    support: full
  diff_mode:
    description: Returns details on what has changed in diff mode.
    support: full
  platform:
    description: Target systems that the module can write to.
    support: full
    platforms: posix
requirements:
  - python >= 3.8
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Write a service and what it reads
  rocknpu.edge.host_files:
    owner: root
    group: root
    files:
      - path: /etc/example/token
      - path: /etc/systemd/system/example.service
        content: "{{ lookup('ansible.builtin.template', 'example.service.j2') }}"
      - path: /usr/local/bin/example
        state: link
        target: example-1.2
      - path: /etc/example/old.conf
        state: absent
    secrets:
      /etc/example/token: "{{ example_token }}\n"
  become: true
  register: files
"""

RETURN = r"""
changed_paths:
  description: The files of O(files) that were changed.
  returned: success
  type: list
  elements: str
  sample: [/etc/example/token]
"""

import grp
import pwd
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.validation import check_type_path

from ..module_utils.host_files import (
    Change,
    FileProblemError,
    Wanted,
    check_paths,
    describe_change,
    find_change,
    make_change,
)

FILE: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["file", "directory", "link", "absent"], "default": "file"},
    "content": {"type": "str"},
    "target": {"type": "str"},
    # Raw, because the number that YAML makes of 0644 would be another mode as text.
    "mode": {"type": "raw"},
    "validate": {"type": "str"},
}


def find_id(module: AnsibleModule, option: str, lookup: Callable[[str], int]) -> int | None:
    """The number of the user or group that an option names."""
    name = module.params[option]
    if name is None:
        return None
    try:
        return lookup(name)
    except KeyError:
        module.fail_json(msg=f"{option} is {name}, and this host has none of that name.")


def find_content(module: AnsibleModule, file: dict[str, Any]) -> bytes:
    """What is to be in a file; ends the module if that is not said, or twice."""
    path, secrets = file["path"], module.params["secrets"]
    said = [text for text in (file["content"], secrets.get(path)) if text is not None]
    if len(said) != 1:
        problem = "neither content nor one" if not said else "content and one"
        module.fail_json(msg=f"files: {path} has {problem} in secrets. Nothing was changed.")
    if not isinstance(said[0], str):
        module.fail_json(msg=f"secrets: what is for {path} must be text. Nothing was changed.")
    try:
        return said[0].encode()
    except UnicodeEncodeError:
        module.fail_json(msg=f"The content of {path!r} is no text that can be written as UTF-8.")


def read_wanted(module: AnsibleModule) -> list[Wanted]:
    """The files of the options, with what is left to defaults."""
    secrets = module.params["secrets"] = {
        check_type_path(path): text for path, text in module.params["secrets"].items()
    }
    owner = {
        "uid": find_id(module, "owner", lambda name: pwd.getpwnam(name).pw_uid),
        "gid": find_id(module, "group", lambda name: grp.getgrnam(name).gr_gid),
    }
    files = [file["path"] for file in module.params["files"] if file["state"] == "file"]
    for path in secrets:
        if path not in files:
            module.fail_json(msg=f"secrets: {path} is no file of files. Nothing was changed.")
    found = []
    for file in module.params["files"]:
        path, state, secret = file["path"], file["state"], file["path"] in secrets
        mode = file["mode"] or ("0755" if state == "directory" else "0600" if secret else "0644")
        if not (isinstance(mode, str) and re.fullmatch("0?[0-7]{3,4}", mode)):
            module.fail_json(
                msg=f'The mode of {path} is {mode} and must be octal and quoted, such as "0644".'
            )
        found.append(
            Wanted(
                path,
                state,
                find_content(module, file) if state == "file" else b"",
                secret,
                file["target"] if state == "link" else "",
                int(mode, 8),
                **owner,
            )
        )
    problem = check_paths(found)
    if problem:
        module.fail_json(msg=f"files: {problem}. Nothing was changed.")
    return found


def validate(module: AnsibleModule, command: str, content: bytes) -> None:
    """Have a program check content that is about to be written."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        module.fail_json(msg=f"validate: `{command}` is no command: {error}. Nothing was changed.")
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as directory:
        file = Path(directory) / "content"
        file.write_bytes(content)
        words = [word.replace("%s", str(file)) for word in words]
        code, output, error = module.run_command(words)
    if code:
        reason = (error or output).strip().replace(str(file), "it")
        module.fail_json(msg=f"`{command}` refuses the new content: {reason}", rc=code)


def find_changes(module: AnsibleModule) -> list[Change]:
    """What has to be done; ends the module if not all of it can be."""
    changes = []
    for file, wanted in zip(module.params["files"], read_wanted(module)):
        try:
            change = find_change(wanted)
        except FileProblemError as problem:
            module.fail_json(msg=f"{problem}: move it away. Nothing was changed.")
        except OSError as error:
            module.fail_json(msg=f"{wanted.path} cannot be read: {error.strerror}.")
        if change is None:
            continue
        changes.append(change)
        if file["validate"] and change.anew and not module.check_mode:
            validate(module, file["validate"], wanted.content)
    return changes


def main() -> None:
    """Bring all files into their state."""
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": FILE,
                "required_if": [("state", "link", ("target",))],
            },
            # Not in files, because the log quotes those, and text in quotes escapes what hides it.
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "owner": {"type": "str"},
            "group": {"type": "str"},
        },
        supports_check_mode=True,
    )
    changes = find_changes(module)
    paths = [change.wanted.path for change in changes]
    diff = [part for change in changes for part in describe_change(change)]
    if not module.check_mode:
        for change in changes:
            try:
                make_change(change)
            except OSError as error:
                module.fail_json(
                    msg=f"{change.wanted.path} cannot be changed: {error.strerror}.",
                    changed_paths=paths[: changes.index(change)],
                )
    module.exit_json(changed=bool(changes), changed_paths=paths, diff=diff)


if __name__ == "__main__":
    main()
