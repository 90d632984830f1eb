"""What preflight says of boards with and without a usable NPU, read from golden boards."""

from __future__ import annotations

import pytest
from unit.board.golden import lay_out

from .conftest import Result, Runner

BOARDS = {
    # host: golden board, variables of the inventory
    "nodriver": ("rk3588-without-option", {}),
    "rocket": ("rk3588-rocket", {}),
    "disabled": ("rk3566-zero3-disabled", {}),
    "module": ("rk3588-module-not-loaded", {}),
    "pi": ("raspberry-pi-5", {}),
    "server": ("empty", {}),
    "notwanted": ("rk3588-without-option", {"npu_state": "absent"}),
    "demanded": ("raspberry-pi-5", {"npu_state": "present"}),
    "demandeddriver": ("rk3588-without-option", {"npu_state": "present"}),
    "nogroup": ("rk3588-module-not-loaded", {"npu_device_group": "no-such-group"}),
    "plaingroup": ("raspberry-pi-5", {"npu_device_group": "no-such-group"}),
    "badmode": ("rk3588-module-not-loaded", {"npu_device_mode": 438}),
    "twice": (
        "rk3588-module-not-loaded",
        {"npu_device_group": "no-such-group", "device_plugin_extra_devices": ["rga"]},
    ),
    "noplugin": (
        "rk3588-module-not-loaded",
        {"device_plugin_mode": "absent", "device_plugin_extra_devices": ["rga"]},
    ),
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One run over all boards."""
    hosts = {}
    for host, (board, variables) in BOARDS.items():
        root = tmp_path_factory.mktemp(host)
        lay_out(board, root)
        hosts[host] = {**variables, "board_root": str(root)}
    return Runner(tmp_path_factory.mktemp("run")).run(
        "preflight",
        "facts.yml",
        "npu.yml",
        "host.yml",
        hosts=hosts,
        play={"module_defaults": {"rocknpu.edge.npu_info": {"root": "{{ board_root }}"}}},
        # This machine need not run systemd; that rule is seen to hold on the virtual boards.
        extra={"_preflight_rules": []},
        then=[
            {
                "ansible.builtin.debug": {
                    "msg": "{{ inventory_hostname }} has {{ preflight_has_npu }} "
                    "{{ preflight_npu.soc | default('nothing', true) }}."
                }
            }
        ],
    )


@pytest.mark.parametrize(
    ("host", "reason", "remedy"),
    [
        ("nodriver", "The RKNPU driver is not in kernel", "Install the board vendor's kernel"),
        ("rocket", "driven by mainline's rocket driver", "Install the board vendor's kernel"),
        ("disabled", "is disabled in the device tree", "Enable the board's NPU overlay"),
        ("demandeddriver", "The RKNPU driver is not in kernel", "Install the board vendor's"),
        ("demanded", "npu_state is present, but this host has no usable NPU", "auto or absent"),
        ("nogroup", "npu_device_group is no-such-group", "create it there first"),
        ("badmode", "npu_device_mode is 438", "quoted octal number"),
    ],
)
def test_a_board_that_cannot_work_has_its_own_reason_and_remedy(result, host, reason, remedy):
    message = result.message(host)
    assert reason in message
    assert remedy in message


def test_a_demanded_npu_without_driver_has_one_reason(result):
    assert "npu_state" not in result.message("demandeddriver")


@pytest.mark.parametrize(
    ("host", "has"),
    [
        ("module", "True rk3588"),
        ("pi", "False nothing"),
        ("server", "False nothing"),
        ("notwanted", "False nothing"),
        ("plaingroup", "False nothing"),
        ("noplugin", "True rk3588"),
    ],
)
def test_other_hosts_pass_and_tell_the_play_what_they_have(result, host, has):
    assert result.message(host) == ""
    assert f"{host} has {has}." in result.output


def test_all_problems_of_a_board_are_told_at_once(result):
    message = result.message("twice")
    assert "npu_device_group is no-such-group" in message
    assert "device_plugin_extra_devices has an entry, number 1, that is not /dev/NAME" in message


def test_nothing_changes(result):
    assert result.changed == 0
