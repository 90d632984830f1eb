# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role k3s reads of an installation before it changes it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rocknpu.edge.plugins.module_utils.k3s_install import (
    compare_token,
    find_younger,
    read_config,
)
from ansible_collections.rocknpu.edge.plugins.modules import k3s_install_info
from unit.module_process import run_module

SERVICE = """#!/bin/sh
printf 'ActiveState=%s\\nUnitFileState=%s\\n' active enabled
"""


def _run(tmp_path: Path, **options: Any) -> tuple[dict[str, Any], str]:
    programs = tmp_path / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "systemctl").write_text(SERVICE)
    (programs / "systemctl").chmod(0o755)
    return run_module(k3s_install_info, options, path=f"{programs}:{os.environ['PATH']}")


def test_what_it_returns_is_what_it_documents(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("token: dontshow\nserver: https://192.0.2.11:6443\n")
    (tmp_path / "token").write_text("K10ab12::server:dontshow\n")
    (tmp_path / "binary").write_bytes(b"k3s" * 1000000)
    result, output = _run(
        tmp_path,
        config=f"{tmp_path}/config.yaml",
        token_file=f"{tmp_path}/token",
        token="dontshow",
        digests=[f"{tmp_path}/binary", f"{tmp_path}/none"],
    )
    assert "dontshow" not in output
    assert (
        result.keys() - {"changed", "invocation"} == yaml.safe_load(k3s_install_info.RETURN).keys()
    )
    assert result["config"] == {
        "server": "https://192.0.2.11:6443",
        "cluster_init": False,
        "keys": ["https", "server", "token"],
    }
    assert result["token"] == "same"
    assert result["digests"] == {
        f"{tmp_path}/binary": hashlib.sha256(b"k3s" * 1000000).hexdigest(),
        f"{tmp_path}/none": None,
    }
    assert result["service"] == {"active": True, "enabled": True}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("node-name: x\n# token: no\n", {"node-name"}),
        ('{"node-name": "x", "agent-token": "y"}', {"node-name", "agent-token"}),
        ("'token' : x\n", {"token"}),
        ("agent-token+: x\n'token+': x\n", {"agent-token", "token"}),
        ("a:\n  - etcd-s3-secret-key: x\n", {"a", "etcd-s3-secret-key"}),
        ("", set()),
        # As long as it may be; looked at once, this takes no time.
        ("a" * 1_000_000 + " token: x", {"token"}),
    ],
)
def test_keys_however_they_are_written(tmp_path: Path, text: str, keys: set[str]) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert set(read_config(f"{tmp_path}/config.yaml")["keys"]) == keys


@pytest.mark.parametrize(
    ("text", "server", "init"),
    [
        ("server: 'https://[2001:db8::11]:6443'\n", "https://[2001:db8::11]:6443", False),
        ("#server: https://x:6443\ncluster-init:  true\n", "", True),
        ("cluster-init: false\n", "", False),
    ],
)
def test_the_way_to_the_cluster(tmp_path: Path, text: str, server: str, init: bool) -> None:
    (tmp_path / "config.yaml").write_text(text)
    config = read_config(f"{tmp_path}/config.yaml")
    assert (config["server"], config["cluster_init"]) == (server, init)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("secret\n", "same"),
        ("K10ab12::server:secret", "same"),
        ("K10ab12::node:secret", "same"),
        ("K10ab12::server:other", "other"),
        ("secret2", "other"),
        ("\n", "absent"),
        (None, "absent"),
    ],
)
def test_tokens(tmp_path: Path, text: str | None, state: str) -> None:
    if text is not None:
        (tmp_path / "token").write_text(text)
    assert compare_token(f"{tmp_path}/token", "secret") == state


def test_places_that_hold_no_file(tmp_path: Path) -> None:
    """Nothing is waited for, and nothing breaks."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    for path in (f"{tmp_path}/fifo", f"{tmp_path}/directory", "/dev/zero", "/a\0b"):
        result, _ = _run(tmp_path, config=path, token_file=path, digests=[path], watched=[path])
        assert (result["config"]["keys"], result["token"]) == ([], "absent")
        assert (result["digests"], result["younger"]) == ({path: None}, [])


def test_younger(tmp_path: Path) -> None:
    mark, old, new, link = (tmp_path / name for name in ("mark", "old", "new", "link"))
    mark.symlink_to("id-of-the-start")
    for path in (old, new):
        path.touch()
    link.symlink_to("old")
    started = mark.lstat().st_mtime
    os.utime(old, (started - 1, started - 1))
    os.utime(new, (started + 1, started + 1))
    os.utime(link, (started + 1, started + 1), follow_symlinks=False)
    watched = [str(path) for path in (old, new, link, tmp_path / "none")]
    assert find_younger(watched, str(mark)) == [str(new), str(link)]
    assert find_younger(watched, str(tmp_path / "no-mark")) == []
