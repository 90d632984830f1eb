"""config.yaml, token and unit: exact content, and what a display of differences shows."""

from __future__ import annotations

from pathlib import Path

from unit.k3s.harness import READING, TOKEN, Edge

MERGED = {
    "k3s_config": {"kubelet-arg": ["fail-cgroupv1=false"], "debug": False, "node-label": ["a=b"]},
    "k3s_config_server": {"disable": ["traefik"], "debug": True, "write-kubeconfig-mode": "0600"},
    "k3s_config_agent": {"debug": True},
    "k3s_config_host": {"node-label": ["c=d"]},
}
HEAD = (
    "# Written by the role rocknpu.edge.k3s: change k3s_config* in the inventory, not this file.\n"
)


def test_files(edge: Edge) -> None:
    server = edge.add("server", "k3s_server", **MERGED, k3s_node_ip="192.0.2.11,2001:db8::11")
    agent = edge.add("agent", "k3s_agent", **MERGED, k3s_node_name="board-02")
    first = edge.run("present", "configure", arguments=["--diff", "-vvv"])
    assert first.messages == {}
    assert (server / "etc" / "config.yaml").read_text() == HEAD + (
        "debug: true\n"
        "disable:\n- traefik\n"
        "kubelet-arg:\n- fail-cgroupv1=false\n"
        "node-ip: 192.0.2.11,2001:db8::11\n"
        "node-label:\n- c=d\n"
        "node-name: server\n"
        f"token-file: {server}/etc/token\n"
        "write-kubeconfig-mode: '0600'\n"
    )
    assert (agent / "etc" / "config.yaml").read_text() == HEAD + (
        "debug: true\n"
        "kubelet-arg:\n- fail-cgroupv1=false\n"
        "node-label:\n- c=d\n"
        "node-name: board-02\n"
        "server: https://192.0.2.11:6443\n"
        f"token-file: {agent}/etc/token\n"
    )
    assert (agent / "etc" / "token").read_text() == TOKEN + "\n"
    for board in (server, agent):
        for name in ("config.yaml", "token"):
            assert (board / "etc" / name).stat().st_mode & 0o7777 == 0o600
    unit = (agent / "units" / "k3s-agent.service").read_text()
    assert f"\nExecStart={agent}/bin/k3s agent\n" in unit
    assert (
        f"\nExecStart={server}/bin/k3s server\n" in (server / "units" / "k3s.service").read_text()
    )
    assert "+- fail-cgroupv1=false" in first.output
    assert TOKEN not in first.output


def test_certificate_covers_the_address(edge: Edge) -> None:
    name: dict[str, object] = {"k3s_config_server": {"tls-san": "edge.example"}}
    names: dict[str, object] = {"k3s_config_server": {"tls-san": ["edge.example"]}}
    edge.add("by-ip", k3s_node_ip="192.0.2.11")
    edge.add("by-host", ansible_host="192.0.2.11")
    edge.add("by-name")
    edge.add("by-url", k3s_server_url="https://edge.example:6443")
    edge.add("v6", ansible_host="2001:db8::11")
    edge.add("one", ansible_host="192.0.2.11", **name)
    edge.add("given", k3s_node_ip="192.0.2.11", **names)
    # Each board is a cluster of its own.
    own = {"_k3s_servers": ["{{ inventory_hostname }}"]}
    config = edge.value("_k3s_config", extra=own)
    assert {board: keys.get("tls-san") for board, keys in config.items()} == {
        "by-ip": None,
        "by-host": ["192.0.2.11"],
        "by-name": None,
        "by-url": ["edge.example"],
        "v6": ["2001:db8::11"],
        "one": ["edge.example", "192.0.2.11"],
        "given": ["edge.example"],
    }
    assert edge.value("_k3s_own_url", extra=own)["v6"] == "https://[2001:db8::11]:6443"


def test_secrets_are_not_displayed(edge: Edge) -> None:
    """Neither those of the inventory nor those in a file that another installer wrote."""
    secret = "postgres://k3s:hunter2@192.0.2.9/k3s"
    datastore = edge.add("server", "k3s_server", k3s_config={"datastore-endpoint": secret})
    adopted = edge.add("adopted", "k3s_agent")
    proxied = edge.add("proxied", "k3s_agent")
    plain = edge.add("plain", "k3s_agent")
    for board, text in {
        adopted: f"server: https://x:6443\n'token': {secret}\n",
        proxied: "etcd-s3-proxy+: http://edge:hunter2@proxy.lan:3128\n",
        plain: "token-file: /etc/old\nagent-token-file: /etc/older\n",
    }.items():
        (board / "etc").mkdir()
        (board / "etc" / "config.yaml").write_text(text, encoding="utf-8")
    outcome = edge.run("present", "configure", arguments=["--diff", "-vvv"])
    assert outcome.messages == {}
    assert "hunter2" not in outcome.output
    assert "-agent-token-file: /etc/older" in outcome.output
    assert "hunter2" in (datastore / "etc" / "config.yaml").read_text()
    assert "hunter2" not in Path(adopted, "etc", "config.yaml").read_text()


def mark(variable: str) -> str:
    """The first line of a file that is there only if its variable asks for it."""
    return HEAD.replace("k3s_config*", variable)


OPTIONS: dict[str, object] = {
    "k3s_registries": {
        "mirrors": {"docker.io": {"endpoint": ["https://registry.lan:5000"]}},
        "configs": {"registry.lan:5000": {"auth": {"username": "edge", "password": "hunter2"}}},
    },
    "k3s_proxy": "http://edge:hunter2@proxy.lan:3128",
    "k3s_no_proxy": [".lan"],
    "k3s_kubelet_config": {"maxPods": 20, "failCgroupV1": False},
}


def test_files_that_the_inventory_asks_for(edge: Edge) -> None:
    """Exact bytes, modes, the unit's own name; nothing secret is displayed; and they go again."""
    data = {"data-dir": "{{ board }}/data"}
    server = edge.add("server", "k3s_server", **OPTIONS, k3s_config=data, k3s_node_ip="192.0.2.11")
    own = {"k3s_config": data, "k3s_node_ip": "192.0.2.99", "ansible_host": "198.51.100.9"}
    agent = edge.add("agent", "k3s_agent", **OPTIONS, **own)
    # "ours" is of this role, "other" of another installer; the inventory says nothing of either.
    gone, kept = (
        edge.add(
            name, "k3s_agent", **own, __k3s_host={**READING, "files": READING["files"] | files}
        )
        for name, files in {
            "gone": dict.fromkeys(("registries", "environment", "kubelet"), "ours"),
            "kept": dict.fromkeys(("registries", "environment", "kubelet"), "other"),
        }.items()
    )
    names = {
        "registries": "etc/registries.yaml",
        "environment": "units/k3s-agent.service.env",
        "kubelet": "data/agent/etc/kubelet.conf.d/90-rocknpu-edge.conf",
    }
    for board in (gone, kept):
        for name in names.values():
            (board / name).parent.mkdir(parents=True, exist_ok=True)
            (board / name).write_text("hunter2", encoding="utf-8")
            (board / name).chmod(0o644 if "kubelet" in name else 0o600)
    (gone / names["kubelet"]).write_text("maxPods: 5", encoding="utf-8")

    first = edge.run("present", "configure", arguments=["--diff", "-vvv"])
    assert first.messages == {}
    assert "hunter2" not in first.output
    assert "+maxPods: 20" in first.output
    assert "-maxPods: 5" in first.output
    assert (agent / names["registries"]).read_text() == mark("k3s_registries") + (
        "configs:\n"
        "  registry.lan:5000:\n"
        "    auth:\n"
        "      password: hunter2\n"
        "      username: edge\n"
        "mirrors:\n"
        "  docker.io:\n"
        "    endpoint:\n"
        "    - https://registry.lan:5000\n"
    )
    assert (agent / names["environment"]).read_text() == mark("k3s_proxy") + (
        'HTTP_PROXY="http://edge:hunter2@proxy.lan:3128"\n'
        'HTTPS_PROXY="http://edge:hunter2@proxy.lan:3128"\n'
        # This host and the cluster's names and networks, its servers and agents, the network of
        # the node's address, and what the inventory adds.
        'NO_PROXY="localhost,127.0.0.0/8,::1,.svc,.cluster.local,10.42.0.0/16,10.43.0.0/16,'
        '192.0.2.11,192.0.2.99,192.0.2.0/24,.lan"\n'
    )
    assert (agent / names["kubelet"]).read_text() == mark("k3s_kubelet_config") + (
        "apiVersion: kubelet.config.k8s.io/v1beta1\n"
        "failCgroupV1: false\n"
        "kind: KubeletConfiguration\n"
        "maxPods: 20\n"
    )
    for name, mode in {"registries": 0o600, "environment": 0o600, "kubelet": 0o644}.items():
        assert (agent / names[name]).stat().st_mode & 0o7777 == mode
    environment = (server / "units" / "k3s.service.env").read_text()
    # The server has no agent's unit, and any of its addresses may be the node's.
    assert "192.0.2.0/24" not in environment
    assert not (server / names["environment"]).exists()
    unit = (agent / "units" / "k3s-agent.service").read_text()
    assert f"\nEnvironmentFile=-{agent / names['environment']}\n" in unit
    for name in names.values():
        assert not (gone / name).exists()
        assert (kept / name).exists()

    assert edge.run("present", "configure", arguments=["--limit", "agent"]).changed("agent") == 0


def test_bundled_iptables(edge: Edge) -> None:
    """Where the installed one is wrong, unless the inventory says something else."""
    wrong = {**READING, "wrong_iptables": True}
    edge.add("wrong", "k3s_server", __k3s_host=wrong)
    edge.add("chosen", "k3s_agent", __k3s_host=wrong, k3s_config={"prefer-bundled-bin": False})
    edge.add("right", "k3s_agent")
    config = edge.value("_k3s_config")
    assert {board: keys.get("prefer-bundled-bin") for board, keys in config.items()} == {
        "wrong": True,
        "chosen": False,
        "right": None,
    }
