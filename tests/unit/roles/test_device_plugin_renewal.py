"""The role device_plugin: when the plugin hands over or is restarted, and what is told then."""

from __future__ import annotations

import os

from .conftest import write_program

# What stands for systemd: a unit whose main process changes, or that says why it does not.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"{place}/asked"
case "$1" in
show) cat "{place}/state" ;;
kill) cp "{place}/state-after" "{place}/state" ;;
esac
"""
SERVES = "MainPID={}\nStatusText={}\nActiveState=active\n"
FAILED = "the handover failed, this process goes on: process {} ended with exit code 1"
# The unit before and after it was asked, and what the role says when that is a failure.
HANDOVERS = {
    "succeeds": (SERVES.format(10, "registered"), SERVES.format(11, "registered"), None),
    "fails": (SERVES.format(10, "registered"), SERVES.format(10, FAILED.format(11)), "process 11"),
    # The failure of an earlier run is not taken for one of this run.
    "after_failure": (
        SERVES.format(10, FAILED.format(9)),
        SERVES.format(12, "registered"),
        None,
    ),
    "fails_again": (
        SERVES.format(10, FAILED.format(9)),
        SERVES.format(10, FAILED.format(13)),
        "process 13",
    ),
    # A plugin from before there were handovers ends, and systemd starts the new release.
    "restarts": (SERVES.format(10, ""), SERVES.format(14, "registered"), None),
}


def test_handovers(runner, tmp_path):
    """The link leads to what runs, whether the new release has taken over or not."""
    hosts = {}
    for name, (before, after, _) in HANDOVERS.items():
        place = tmp_path / name
        write_program(place / "systemctl", SYSTEMCTL.format(place=place))
        write_program(place / "journalctl", "#!/bin/sh\necho the last words\n")
        (place / "state").write_text(before)
        (place / "state-after").write_text(after)
        (place / "old").mkdir()
        (place / "current").symlink_to("new")
        hosts[name] = {"place": str(place)}
    done = runner.run(
        "device_plugin",
        "handover.yml",
        hosts=hosts,
        play={"environment": {"PATH": f"{{{{ place }}}}:{os.environ['PATH']}"}},
        extra={
            "_device_plugin_current": "{{ place }}/current",
            "_device_plugin_release": "/opt/rknpu-plugin/new",
            "_device_plugin_before": "old",
            "__device_plugin_written": {"changed_paths": ["{{ place }}/current"]},
        },
    )
    for name, (_, _, reason) in HANDOVERS.items():
        place = tmp_path / name
        assert "kill --kill-who main --signal USR2" in (place / "asked").read_text()
        if reason is None:
            assert done.message(name) == "", name
            assert (place / "current").readlink().name == "new"
        else:
            assert reason in done.message(name)
            assert "goes on as before" in done.message(name)
            assert "the last words" in done.message(name)
            assert (place / "current").readlink().name == "old"


# Which of the plugin's files are newer than the plugin that runs, and whether it hands over then.
RENEWALS = {
    "release": (["current"], True),
    "configuration": (["config"], False),
    "release_and_unit": (["current", "unit"], False),
    "nothing": ([], False),
    "no_plugin": (None, False),
}


def test_only_another_release_is_handed_over_to(runner, tmp_path):
    hosts = {}
    for name, (newer, _) in RENEWALS.items():
        place = tmp_path / name
        place.mkdir()
        for file in ("config", "unit"):
            (place / file).write_text("")
            os.utime(place / file, (1000, 1000))
        (place / "current").symlink_to("release")
        os.utime(place / "current", (1000, 1000), follow_symlinks=False)
        if newer is not None:
            (place / "run").mkdir()
            os.utime(place / "run", (2000, 2000))
        for file in newer or []:
            os.utime(place / file, (3000, 3000), follow_symlinks=False)
        hosts[name] = {"place": str(place)}
    write = {
        "ansible.builtin.copy": {
            "content": "{{ _device_plugin_hands_over }} {{ _device_plugin_newer | length }}",
            "dest": "{{ place }}/answer",
            "mode": "0600",
        }
    }
    done = runner.run(
        "device_plugin",
        "newer.yml",
        hosts=hosts,
        extra={
            "_device_plugin_config_file": "{{ place }}/config",
            "_device_plugin_unit_file": "{{ place }}/unit",
            "_device_plugin_current": "{{ place }}/current",
            "_device_plugin_runtime_dir": "{{ place }}/run",
        },
        then=[write],
    )
    assert done.code == 0, done.output
    for name, (newer, hands_over) in RENEWALS.items():
        answer = (tmp_path / name / "answer").read_text()
        assert answer == f"{hands_over} {len(newer or [])}", name


def test_plugin_that_does_not_start_is_told(runner, tmp_path):
    """With its last words, and although handlers know no rescue."""
    write_program(
        tmp_path / "bin" / "systemctl",
        "#!/bin/sh\n"
        'case "$1" in\n'
        "show) echo LoadState=loaded; echo ActiveState=failed ;;\n"
        "start | restart) exit 1 ;;\n"
        "esac\n",
    )
    write_program(tmp_path / "bin" / "journalctl", "#!/bin/sh\necho the last words\n")
    done = runner.run(
        "device_plugin",
        "restart.yml",
        play={"environment": {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}},
    )
    assert "rknpu-plugin.service does not start on this board" in done.message()
    assert "the last words" in done.message()


SOCKET_LOG = """Starting a socket
rknpu-plugin.socket: Failed to create listening socket ([::]:9475): Address already in use
rknpu-plugin.socket: Failed to listen on sockets: Address already in use
Failed to listen on rknpu-plugin.socket"""
FLAW = "registered with the kubelet; metrics and health {}"
# The service's status, what is in the log of the socket, and the reason that is told.
STATUSES = {
    "served": ("registered with the kubelet", "", None),
    "taken": (
        FLAW.format("cannot be served (listen): :9475: this process can open no such socket"),
        SOCKET_LOG,
        "Failed to create listening socket ([::]:9475): Address already in use. End what",
    ),
    "elsewhere": (
        FLAW.format(
            "are not served where listen wants them: systemd has handed over a socket on x"
        ),
        "Listening on rknpu-plugin.socket",
        "systemd has handed over a socket on x. End what",
    ),
    # Nobody has asked, as with --tags.
    "unasked": (None, "", None),
}


def test_metrics_that_are_not_served_are_told_at_the_end(runner, tmp_path):
    hosts = {}
    for name, (status, log, _) in STATUSES.items():
        place = tmp_path / name
        write_program(place / "journalctl", f"#!/bin/sh\ncat <<'END'\n{log}\nEND\n")
        hosts[name] = {"place": str(place), "k3s_kubeconfig": str(tmp_path / "none")}
        if status is not None:
            hosts[name]["__device_plugin_service"] = {"status": {"StatusText": status}}
    done = runner.run(
        "device_plugin",
        "cluster.yml",
        hosts=hosts,
        play={"environment": {"PATH": f"{{{{ place }}}}:{os.environ['PATH']}"}},
        extra={"__npu_board": {"npu": {}}, "_device_plugin_labels": {}},
        check=True,
    )
    for name, (_, _, reason) in STATUSES.items():
        message = done.message(name)
        if reason is None:
            assert "not served" not in message, name
        else:
            assert message.startswith("The NPU of this board is offered, but metrics"), name
            assert reason in message, name
