"""The whole role on a board whose service manager and k3s answer as the test wants."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path

import pytest
from unit.k3s.harness import READING, TOKEN, VERSION, Edge, fake_k3s, make_release

ADMIN = {
    "clusters": [
        {
            "name": "default",
            "cluster": {"certificate-authority-data": "Q0E=", "server": "https://127.0.0.1:6443"},
        }
    ],
    "users": [
        {
            "name": "default",
            "user": {"client-certificate-data": "Q1JU", "client-key-data": "S0VZ"},
        }
    ],
}


@pytest.fixture
def server(edge: Edge, tmp_path: Path) -> Path:
    release = make_release(tmp_path / "release")
    board = edge.add(
        "server",
        "k3s_server",
        k3s_airgap_dir=str(release),
        k3s_node_ip="192.0.2.11",
        k3s_config={"data-dir": "{{ board }}/data"},
    )
    (board / "node").write_text("True", encoding="utf-8")
    (board / "etc").mkdir()
    (board / "etc" / "k3s.yaml").write_text(json.dumps(ADMIN), encoding="utf-8")
    return board


def verbs(board: Path) -> list[str]:
    """What the service manager was told since the last call."""
    told = board / "verbs"
    lines = told.read_text(encoding="utf-8").split() if told.exists() else []
    told.unlink(missing_ok=True)
    return lines


def test_life_of_a_server(edge: Edge, server: Path) -> None:
    # This machine is read too, but need not be fit for k3s.
    fit = {"__k3s_host": READING}
    first = edge.run(arguments=["--diff", "-vvv"], extra=fit)
    assert first.messages == {}
    # One start, although four files changed.
    assert verbs(server) == ["start", "enable"]
    assert TOKEN not in first.output
    assert "S0VZ" not in first.output
    kubeconfig = server / "control" / "kube.yaml"
    assert kubeconfig.stat().st_mode & 0o7777 == 0o600
    assert kubeconfig.parent.stat().st_mode & 0o7777 == 0o700
    assert edge.load(kubeconfig) == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "rocknpu-edge",
                "cluster": {
                    "server": "https://192.0.2.11:6443",
                    "certificate-authority-data": "Q0E=",
                },
            }
        ],
        "users": [
            {
                "name": "rocknpu-edge",
                "user": {"client-certificate-data": "Q1JU", "client-key-data": "S0VZ"},
            }
        ],
        "contexts": [
            {
                "name": "rocknpu-edge",
                "context": {"cluster": "rocknpu-edge", "user": "rocknpu-edge"},
            }
        ],
        "current-context": "rocknpu-edge",
    }

    kubeconfig.parent.chmod(0o755)
    assert edge.run(extra=fit).changed("server") == 0
    assert verbs(server) == []
    assert kubeconfig.parent.stat().st_mode & 0o7777 == 0o755

    edge.hosts["server"]["k3s_token"] = "another-" + TOKEN
    assert edge.run("present", "configure", "run").messages == {}
    assert verbs(server) == ["restart"]

    # An interrupted run wrote a file and did not come to the restart.
    later = time.time() + 5
    os.utime(server / "etc" / "config.yaml", (later, later))
    assert edge.run("present", "configure", "run").messages == {}
    assert verbs(server) == ["restart"]

    (server / "active").unlink()
    (server / "invocation").unlink()
    assert edge.run("present", "configure", "run").messages == {}
    assert verbs(server) == ["start"]


NOT_AUTHORIZED = (
    'level=info msg="Waiting to retrieve agent configuration; server is not ready: '
    'failed to retrieve configuration from server: not authorized"'
)
REJECTED = (
    'level=info msg="Waiting to retrieve agent configuration; server is not ready: Node password '
    "rejected, duplicate hostname or contents of '/etc/rancher/node/password' may not match server "
    'node-passwd entry, try enabling a unique node name with the --with-node-id flag"'
)
# Board -> log of its unit, part of the message.
LOGS = {
    "token": (NOT_AUTHORIZED, "The server does not accept the token."),
    "token-401": (
        "Failed to configure agent: https://127.0.0.1:6444/v1-k3s/config: 401 Unauthorized",
        "k3s_token must be the same on every host",
    ),
    "authority": (
        'level=error msg="token CA hash does not match the Cluster CA certificate hash: f0 != 8e"',
        "another certificate authority",
    ),
    "datastore": (
        'level=fatal msg="starting kubernetes: preparing server: bootstrap data already found and '
        'encrypted with different token"',
        "The datastore was made with another token.",
    ),
    "name": (REJECTED, "`k3s kubectl delete node name` on the server"),
    "memory": ('level=fatal msg="failed to find memory cgroup (v2)"', "cgroup_enable=memory"),
    "cgroup-v1": (
        "kubelet is configured to not run on a host using cgroup v1",
        "systemd.unified_cgroup_hierarchy=1",
    ),
    "clock": ("x509: certificate has expired or is not yet valid", "Set the time on both"),
    "flannel": ('level=fatal msg="flannel exited: operation not supported"', "modprobe -n vxlan"),
    "unreachable": ("dial tcp 192.0.2.1:6443: connect: no route to host", "cannot be reached"),
    "option": ("flag provided but not defined: -dissable", "Correct its name in k3s_config*"),
    "unknown": ("something new", "The log shows no known cause"),
    # Of a board that knocks at this server.
    "others": (
        'level=error msg="Sending HTTP 403 response to 192.0.2.7:40224: unable to verify hash for '
        "node 'b': hash does not match\"\n"
        'level=error msg="Failed to authenticate request from 192.0.2.8:40226: invalid token"\n'
        'level=error msg="Sending HTTP 401 response to 192.0.2.8:40226: not authorized"\n'
        "http: TLS handshake error from 192.0.2.9:1: certificate signed by unknown authority\n"
        'E0102 15:04:05.6 authentication.go:75] "Unable to authenticate the request" '
        'err="[x509: certificate has expired or is not yet valid]"\n'
        '{"msg":"rejected connection on peer endpoint","error":"certificate signed by unknown '
        'authority"}',
        "The log shows no known cause",
    ),
    "silent": ("", "(none)"),
    "addresses": (
        'level=fatal msg="parse \\"postgres://k3s:a/b@192.0.2.9/k3s\\": invalid port"\n'
        "level=error msg=invalid proxy http://edge:hunter2@proxy.lan:3128",
        'postgres://********@192.0.2.9/k3s\\": invalid port',
    ),
    "secret": (
        f'joining with {TOKEN} and K10{"0f" * 32}::node:{TOKEN} token=abc password: "d e f"',
        "joining with ******** and ******** token=******** password: ********",
    ),
}


def test_causes(edge: Edge) -> None:
    edge.add("server", "k3s_server")
    for name, (log, _) in LOGS.items():
        board = edge.add(name, "k3s_agent")
        # Lines of a healthy start stand around the one that matters.
        text = f'level=info msg="Starting k3s agent"\n{log}\nlevel=info msg="Running kubelet"\n'
        (board / "log").write_text(text if log else "", encoding="utf-8")
        (board / "state").write_text("activating", encoding="utf-8")
    outcome = edge.run("present", "configure", "ready", arguments=["--limit", "!server", "-vvv"])
    for name, (_, part) in LOGS.items():
        message = outcome.messages[name]
        assert message.startswith(f"k3s-agent did not come up on {name}."), message
        assert part in message
    for text in (outcome.output, *outcome.messages.values()):
        assert TOKEN not in text
        assert "hunter2" not in text
        assert base64.b64encode(TOKEN.encode()).decode() not in text
    assert "no known cause" not in outcome.messages["token"]


def test_log_of_a_service_that_stops(edge: Edge) -> None:
    """Until it starts anew, its last start is the one before."""
    edge.add("server", "k3s_server")
    board = edge.add("board", "k3s_agent")
    (board / "state").write_text("deactivating", encoding="utf-8")
    (board / "old-log").write_text("token CA hash does not match", encoding="utf-8")
    messages = edge.run("present", "configure", "ready", arguments=["--limit", "board"]).messages
    assert "The log shows no known cause" in messages["board"]


def test_start_that_ended_before_the_wait(edge: Edge) -> None:
    """In the pause of RestartSec=5s what it said may be healed; a start later it is not."""
    edge.add("server", "k3s_server")
    for name in ("healed", "broken"):
        board = edge.add(name, "k3s_agent", k3s_ready_timeout=60)
        (board / "state").write_text("activating", encoding="utf-8")
        binary = board / "bin" / f"k3s-{VERSION}"
        binary.write_text(fake_k3s(), encoding="utf-8")
        binary.chmod(0o755)
        (board / "node").write_text("True", encoding="utf-8")
    (edge.path / "healed" / "restarts").touch()
    (edge.path / "healed" / "old-log").write_text("token CA hash does not match", encoding="utf-8")
    (edge.path / "broken" / "log").write_text("token CA hash does not match", encoding="utf-8")
    outcome = edge.run("present", "configure", "ready", arguments=["--limit", "!server"])
    assert list(outcome.messages) == ["broken"]
    assert "another certificate authority" in outcome.messages["broken"]
    # Far from the 20 polls of a minute.
    assert outcome.output.count("RETRYING: [broken]") == 2


def test_node_that_is_not_ready(edge: Edge) -> None:
    edge.add("server", "k3s_server")
    for name, state in {"unready": "False", "absent": None}.items():
        board = edge.add(name, "k3s_agent")
        (board / "active").touch()
        binary = board / "bin" / f"k3s-{VERSION}"
        binary.write_text(fake_k3s(), encoding="utf-8")
        binary.chmod(0o755)
        if state:
            (board / "node").write_text(state, encoding="utf-8")
        # What was wrong before and is healed.
        (board / "old-log").write_text("token CA hash does not match", encoding="utf-8")
    messages = edge.run("present", "configure", "ready", arguments=["--limit", "!server"]).messages
    assert messages["unready"].startswith(
        f"The node unready is not Ready with version {VERSION}, wanted {VERSION}: kubelet says so."
    )
    assert messages["absent"].startswith(
        "k3s-agent runs, but the API server does not show the node absent: Error from server"
    )
    assert all("The log shows no known cause" in message for message in messages.values())


def test_server_out_of_reach(edge: Edge) -> None:
    edge.add("server", "k3s_server", k3s_node_ip="127.0.0.1")
    edge.add("agent", "k3s_agent", k3s_server_url="https://127.0.0.1:9")
    message = edge.run("present", "reach", arguments=["--limit", "agent"]).messages["agent"]
    assert message.startswith("agent cannot reach the API server at https://127.0.0.1:9 (")
    assert "check that k3s runs on server" in message
