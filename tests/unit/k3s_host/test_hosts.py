# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of hosts laid out from hosts/, and the module as Ansible runs it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rocknpu.edge.plugins.module_utils.board_files import BoardFiles
from ansible_collections.rocknpu.edge.plugins.module_utils.host_storage import find_mount
from ansible_collections.rocknpu.edge.plugins.module_utils.k3s_host import (
    Address,
    Clock,
    Iptables,
    parse_addresses,
    parse_iptables_version,
    parse_k3s_version,
    read_host,
)
from ansible_collections.rocknpu.edge.plugins.modules import k3s_host_info
from unit.board.golden import lay_out
from unit.module_process import run_module

HOSTS = Path(__file__).with_name("hosts")
DATA = "/var/lib/rancher/k3s"
PORTS = [6443, 6468, 10250]
OWNED = {"registries": "/etc/rancher/k3s/registries.yaml"}
RETURNED = yaml.safe_load(k3s_host_info.RETURN)


@pytest.mark.parametrize("name", sorted(path.stem for path in HOSTS.glob("*.tree")))
def test_host(name: str, tmp_path: Path) -> None:
    golden = lay_out(name, tmp_path, HOSTS)
    assert golden.expect
    asked = {"machine": "aarch64", "k3s_version": None, "iptables": None, "clock": Clock(0.0, None)}
    read = read_host(
        BoardFiles(str(tmp_path)), DATA, PORTS, OWNED, **asked, addresses=[], free_bytes=0
    )
    seen = {name: k3s_host_info.as_result(getattr(read, name)) for name in golden.expect}
    assert seen == golden.expect


def test_a_mount_holds_what_is_below_it(tmp_path: Path) -> None:
    lay_out("ubuntu-20.04-hybrid", tmp_path, HOSTS)
    files = BoardFiles(str(tmp_path))
    for path, point in {
        "/mnt/nvme disk/k3s": "/mnt/nvme disk",
        "/mnt/nvme disk": "/mnt/nvme disk",
        "/mnt/nvme disk2": "/",
    }.items():
        mount = find_mount(files, path)
        assert mount is not None
        assert mount.point == point


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k3s version v1.37.1+k3s1 (0123abcd)\ngo version go1.26.0\n", "v1.37.1+k3s1"),
        ("k3s version v1.38.0-rc2+k3s1 (0123abcd)", "v1.38.0-rc2+k3s1"),
        ("", None),
        ("k3d version v5.8.3", None),
    ],
)
def test_k3s_version(text: str, expected: str | None) -> None:
    assert parse_k3s_version(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("iptables v1.8.4 (legacy)\n", Iptables("1.8.4", "legacy")),
        ("iptables v1.8.11 (nf_tables)\n", Iptables("1.8.11", "nf_tables")),
        # Before 1.8 there was one mode, and nothing said so.
        ("iptables v1.6.1\n", Iptables("1.6.1", "legacy")),
        ("", None),
    ],
)
def test_iptables_version(text: str, expected: Iptables | None) -> None:
    assert parse_iptables_version(text) == expected


def test_addresses() -> None:
    links = [
        {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "prefixlen": 8, "scope": "host"}]},
        {
            "ifname": "end0",
            "addr_info": [
                {"local": "192.0.2.99", "prefixlen": 24, "scope": "global"},
                {"local": "2001:db8::99", "prefixlen": 64, "scope": "global"},
                {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
            ],
        },
        {"ifname": "wlan0"},
    ]
    assert parse_addresses(json.dumps(links)) == [
        Address("end0", "192.0.2.99", "192.0.2.0/24"),
        Address("end0", "2001:db8::99", "2001:db8::/64"),
    ]
    assert parse_addresses("") == parse_addresses('Object "-json" is unknown') == []


def run(root: Path, programs: dict[str, str], **arguments: Any) -> dict[str, Any]:
    """Run the module in a process of its own, with these programs before the machine's."""
    directory = root / "programs"
    directory.mkdir()
    for name, text in programs.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    wanted = {"version": "v1.37.1+k3s1", "role": "agent", "architectures": ["x86_64", "aarch64"]}
    given = {"root": str(root), "wanted": wanted, **arguments}
    returned, _printed = run_module(k3s_host_info, given, path=f"{directory}:/usr/bin:/bin")
    returned.pop("invocation", None)
    return returned


def test_module_returns_what_it_documents(tmp_path: Path) -> None:
    golden = lay_out("armbian-rk3588", tmp_path, HOSTS)
    returned = run(
        tmp_path,
        {
            "k3s": "#!/bin/sh\necho 'k3s version v1.36.2+k3s1 (0123abcd)'\n",
            "iptables": "#!/bin/sh\necho 'iptables v1.8.4 (nf_tables)'\n",
            "timedatectl": '#!/bin/sh\n[ "$LC_ALL" = C ] && echo yes\n',
        },
        ports=PORTS,
        files=OWNED,
        k3s="/programs/k3s",
        control_time=time.time() - 5000,
    )
    assert {*returned} - {"changed"} == {*RETURNED}
    assert {key: returned[key] for key in golden.expect} == golden.expect
    assert returned["k3s_version"] == "v1.36.2+k3s1"
    assert returned["iptables"] == {"version": "1.8.4", "mode": "nf_tables"}
    assert returned["clock"]["synchronized"] is True
    assert 5000 <= returned["clock"]["ahead"] < 6000
    assert [word for word in returned["problems"] if " ahead of " in word]
    assert [word for word in returned["hints"] if "/dev/zram0" in word]
    assert returned["wrong_iptables"] is True
    assert returned["owed"]["names"] == []
    assert returned["free_bytes"] > 0
    assert returned["changed"] is False


def test_module_on_a_bare_host(tmp_path: Path) -> None:
    """No clock to compare with, a k3s for another machine, and programs that do not answer."""
    returned = run(
        tmp_path,
        {
            "k3s": "\x7fELF",
            "iptables": "#!/bin/sh\nexit 3\n",
            "timedatectl": "#!/bin/sh\necho 'Failed to connect to bus' >&2; exit 1\n",
        },
        k3s="/programs/k3s",
    )
    assert returned["k3s_version"] is None
    assert returned["iptables"] is None
    assert returned["clock"] == {"ahead": None, "synchronized": None}
    assert returned["boot"] == {"kind": None, "path": None, "arguments": []}
