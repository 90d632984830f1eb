"""Rendering of simulated boards, judged by the board reading that the collection has."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.board import Board, read_board
from virtual_edge import models
from virtual_edge.errors import RefusedError

NUMBERS = models.stand_ins("200 tun\n229 fuse\n")


def place(name: str, root: Path) -> set[str]:
    """Lay a model out below *root* as a board's boot service does; returns its device nodes."""
    tree = models.render(models.load(name), NUMBERS)
    moved: dict[str, str | bytes] = {}
    for path, content in tree.items():
        top, _, rest = path.partition("/")
        if top == "overlay":
            moved[rest] = content
        elif top == "firmware":
            moved[f"sys/firmware/{rest}"] = content
        elif top == "debugfs":
            moved[f"sys/kernel/debug/{rest}"] = content
        elif path == "bind/config.gz":
            moved["proc/config.gz"] = content
    nodes = [line.split()[0] for line in str(tree["nodes"]).splitlines()]
    moved.update({node[1:]: "" for node in nodes})
    models.write(moved, root)
    return {str(root) + node for node in nodes}


def read(name: str, root: Path) -> Board:
    nodes = place(name, root)
    return read_board(str(root), lambda path: str(path) in nodes)


def test_a_rock_5b_has_the_vendor_driver_beside_a_display(tmp_path: Path) -> None:
    board = read("rk3588", tmp_path / "root")
    assert (board.soc, board.soc_variant, board.model) == ("rk3588", "rk3588", "Radxa ROCK 5B")
    assert (board.driver, board.driver_version, board.mode) == ("rknpu", "0.9.8", "drm")
    assert board.nodes == ["/dev/dri/card1", "/dev/dri/renderD129"]
    assert board.dma_heaps == ["/dev/dma_heap/system"]
    assert board.kernel_option == "y"
    assert board.load == {0: 0, 1: 0, 2: 0}


def test_the_numbers_of_an_orange_pi_5_are_not_the_usual_ones(tmp_path: Path) -> None:
    board = read("rk3588s", tmp_path / "root")
    assert (board.soc, board.soc_variant) == ("rk3588", "rk3588s")
    assert board.nodes == ["/dev/dri/card2", "/dev/dri/renderD130"]


def test_a_kernel_without_the_option_has_no_driver(tmp_path: Path) -> None:
    board = read("no-driver", tmp_path / "root")
    assert (board.driver, board.kernel_option, board.device_tree) == ("none", "n", "enabled")


def test_mainline_has_rocket_and_an_accel_node(tmp_path: Path) -> None:
    board = read("rocket", tmp_path / "root")
    assert (board.driver, board.mode, board.cores) == ("rocket", "accel", 3)
    assert board.nodes == ["/dev/accel/accel0"]


def test_a_disabled_node_binds_no_driver(tmp_path: Path) -> None:
    board = read("dt-disabled", tmp_path / "root")
    assert (board.soc, board.driver, board.kernel_option) == ("rk3566", "none", "y")
    assert (board.device_tree, board.device_tree_node) == ("disabled", "npu@fde40000")


def test_a_server_is_no_rockchip_board(tmp_path: Path) -> None:
    board = read("x86", tmp_path / "root")
    assert (board.soc, board.driver, board.nodes) == (None, "none", [])


@pytest.mark.parametrize("name", models.names())
def test_every_link_of_a_model_leads_somewhere(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    place(name, root)
    # The classes and buses themselves are the kernel's, and so are drivers bound to nothing here.
    for directory in ("sys/bus/platform/drivers", "sys/class"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    dangling = [path for path in root.rglob("*") if path.is_symlink() and not path.exists()]
    assert not dangling


@pytest.mark.parametrize("name", models.names())
def test_a_uevent_and_the_file_dev_name_the_number_of_the_node(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    place(name, root)
    numbers = {node.path: f"{node.major}:{node.minor}" for node in _nodes(name)}
    told = {}
    for uevent in (root / "sys/devices").rglob("uevent") if (root / "sys/devices").exists() else []:
        fields = dict(line.split("=", 1) for line in uevent.read_text().splitlines())
        if "DEVNAME" in fields:
            number = f"{fields['MAJOR']}:{fields['MINOR']}"
            assert (uevent.parent / "dev").read_text().strip() == number
            told[f"/dev/{fields['DEVNAME']}"] = number
    assert told == numbers


def _nodes(name: str) -> list[models.Node]:
    return models.nodes(models.load(name), NUMBERS)


def test_the_npus_own_nodes_can_be_opened_and_have_different_numbers() -> None:
    own = [(node.major, node.minor) for node in _nodes("rk3588") if node.npu]
    assert sorted(own) == [(10, 200), (10, 229)]


def test_a_kernel_without_fuse_or_tun_gets_numbers_that_always_open() -> None:
    assert models.stand_ins(" 10 psaux\n") == {"fuse": (1, 3), "tun": (1, 5)}
    assert models.stand_ins("229 fuse\n") == {"fuse": (10, 229), "tun": (1, 5)}


def test_the_kernel_configuration_is_a_gzip_file_with_the_same_bytes_each_time() -> None:
    model = models.load("rk3588")
    first = models.render(model, NUMBERS)["bind/config.gz"]
    assert first == models.render(model, NUMBERS)["bind/config.gz"]
    assert isinstance(first, bytes)
    assert b"\nCONFIG_ROCKCHIP_RKNPU=y\n" in gzip.decompress(first)


def test_an_unknown_model_is_refused_with_those_there_are() -> None:
    with pytest.raises(RefusedError, match=r"no board model 'rk9999'.*dt-disabled, .*no-driver"):
        models.load("rk9999")


def test_a_key_that_nobody_reads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.json").write_text('{"title": "odd", "compatibel": []}')
    monkeypatch.setattr(models, "_MODELS", tmp_path)
    with pytest.raises(RefusedError, match="nobody reads the key 'compatibel'"):
        models.load("odd")


def test_writing_replaces_what_was_there(tmp_path: Path) -> None:
    models.write({"old": "x", "both": "1"}, tmp_path / "tree")
    models.write({"both": "2", "link": "-> both"}, tmp_path / "tree")
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["both", "link"]
    assert (tmp_path / "tree" / "link").read_text() == "2"
    assert list(tmp_path.iterdir()) == [tmp_path / "tree"]
