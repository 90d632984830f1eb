"""The binary and the images: from the control node and from a release address."""

from __future__ import annotations

import functools
import http.server
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.k3s.harness import READING, VERSION, Edge, fake_k3s, make_release

NEWER = "v1.37.2+standin2"

#: What installs, of the files that main.yml has.
PARTS = ("present", "binary", "images", "configure")


def data_dir(board: str = "{{ board }}") -> dict[str, Any]:
    return {"k3s_config": {"data-dir": f"{board}/data"}}


def installed(board: Path) -> dict[str, str]:
    """The binaries and the link to one of them: name -> content or target of the link."""
    return {
        path.name: str(path.readlink()) if path.is_symlink() else path.read_text("latin-1")
        for path in (board / "bin").iterdir()
        if path.suffix != ".sh"
    }


def test_from_files(edge: Edge, tmp_path: Path) -> None:
    release = make_release(tmp_path / "release")
    # What another release left, and what is not this role's.
    old, app = "k3s-airgap-images-amd64.tar.zst", "app.tar"
    board = edge.add(
        "board",
        "k3s_agent",
        **data_dir(),
        k3s_airgap_dir=str(release),
        __k3s_host={**READING, "image_archives": [app, old]},
    )

    assert edge.run(*PARTS, arguments=["--check", "--diff"]).messages == {}
    assert installed(board) == {}
    assert not (board / "data").exists()

    images = board / "data" / "agent" / "images"
    images.mkdir(parents=True)
    for name in (old, app):
        (images / name).touch()
    assert edge.run(*PARTS).messages == {}
    assert installed(board) == {"k3s": f"k3s-{VERSION}", f"k3s-{VERSION}": fake_k3s()}
    assert (board / "bin" / f"k3s-{VERSION}").stat().st_mode & 0o7777 == 0o755
    assert {path.name for path in images.iterdir()} == {"k3s-airgap-images-amd64.tar.gz", app}

    assert edge.run(*PARTS).changed("board") == 0


def test_files_that_are_wrong(edge: Edge, tmp_path: Path) -> None:
    corrupt = make_release(tmp_path / "corrupt")
    (corrupt / "k3s").write_text("half a file", encoding="utf-8")
    make_release(tmp_path / "stale", "v1.36.0+k3s1")
    make_release(tmp_path / "foreign")
    unlisted = make_release(tmp_path / "unlisted")
    (unlisted / "sha256sum-amd64.txt").write_text(
        f"{'0' * 64}  k3s-airgap-images-amd64.tar.gz\n{'1' * 64}  not-k3s\n", encoding="utf-8"
    )
    images = make_release(tmp_path / "images")
    (images / "k3s-airgap-images-amd64.tar.gz").write_bytes(b"half a file")
    boards = {
        name: edge.add(name, "k3s_agent", **data_dir(), k3s_airgap_dir=str(tmp_path / name))
        for name in ("corrupt", "stale", "foreign", "unlisted", "images", "empty")
    }
    edge.hosts["foreign"]["__k3s_host"] = {**READING, "machine": "aarch64"}
    (boards["foreign"] / "bin" / "k3s").write_text("of another installer", encoding="utf-8")

    messages = edge.run("admit", "present", "binary", "images").messages
    assert "corrupt/k3s on the control node has SHA-256" in messages["corrupt"]
    assert 'but "k3s version v1.36.0+k3s1 (0123abcd)": correct' in messages["stale"]
    assert "or put the files of that version into k3s_airgap_dir for" in messages["stale"]
    # The file of the other architecture was taken, and does not run here.
    assert f"k3s-arm64 from {tmp_path}/foreign does not report version" in messages["foreign"]
    assert installed(boards["foreign"]) == {"k3s": "of another installer"}
    assert "has no SHA-256 of k3s: put" in messages["unlisted"]
    assert "images-amd64.tar.gz on the control node has SHA-256" in messages["images"]
    assert "empty/k3s is not on the control node" in messages["empty"]
    assert "no SHA-256" not in messages["empty"]
    for name in ("corrupt", "stale", "unlisted", "empty"):
        assert installed(boards[name]) == {}
    assert not (boards["images"] / "data").exists()


def test_upgrade_and_rebuilt_file(edge: Edge, tmp_path: Path) -> None:
    release = make_release(tmp_path / "release")
    newer = make_release(tmp_path / "newer", NEWER)
    upgraded = edge.add("upgraded", "k3s_agent", **data_dir(), k3s_airgap_dir=str(release))
    rebuilt = edge.add("rebuilt", "k3s_agent", **data_dir(), k3s_airgap_dir=str(release))
    for board in (upgraded, rebuilt):
        (board / "bin" / f"k3s-{VERSION}").write_text(fake_k3s() + "# an older build\n")
        (board / "bin" / f"k3s-{VERSION}").chmod(0o755)
        (board / "bin" / "k3s").symlink_to(f"k3s-{VERSION}")
        # It runs, and will after a boot, with all files but the binary as they are to be.
        for state in ("active", "enabled"):
            (board / state).touch()
        (board / "invocation").symlink_to("start-1")
    edge.hosts["upgraded"].update(k3s_version=NEWER, k3s_airgap_dir=str(newer))
    parts = (*PARTS, "run")
    assert edge.run(*parts).messages == {}
    for board in (upgraded, rebuilt):
        assert (board / "verbs").read_text() == "restart\n"
    assert installed(upgraded) == {
        "k3s": f"k3s-{NEWER}",
        f"k3s-{NEWER}": fake_k3s(NEWER),
        f"k3s-{VERSION}": fake_k3s() + "# an older build\n",
    }
    assert installed(rebuilt) == {"k3s": f"k3s-{VERSION}", f"k3s-{VERSION}": fake_k3s()}
    assert edge.run(*parts).changed("rebuilt") == 0

    # A run that was interrupted before the restart has replaced the binary.
    later = time.time() + 5
    os.utime(rebuilt / "bin" / f"k3s-{VERSION}", (later, later))
    edge.run(*parts)
    assert (rebuilt / "verbs").read_text() == "restart\nrestart\n"


class Releases(http.server.SimpleHTTPRequestHandler):
    """A directory, of which one version is for others."""

    def send_head(self) -> Any:
        if self.path.startswith("/v1.39.0"):
            return self.send_error(403)
        return super().send_head()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A release address on loopback."""
    make_release(tmp_path / "www" / VERSION)
    wrong = make_release(tmp_path / "www" / NEWER, NEWER)
    (wrong / "k3s").write_text("half a file", encoding="utf-8")
    handler = functools.partial(Releases, directory=tmp_path / "www")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_from_release_address(edge: Edge, address: str) -> None:
    versions = {
        "right": VERSION,
        "wrong": NEWER,
        "missing": "v1.38.0+k3s1",
        "refused": "v1.39.0+k3s1",
        "given": VERSION,
    }
    boards = {
        name: edge.add(name, "k3s_agent", k3s_version=version, k3s_mirror_url=address)
        for name, version in versions.items()
    }
    edge.hosts["given"]["k3s_checksum"] = "0" * 64
    edge.add("silent", "k3s_agent", k3s_mirror_url="http://127.0.0.1:9/")

    # What can be known without a download is told before anything is changed.
    messages = edge.run("release", "admit", extra={"_k3s_download_tries": 1}).messages
    assert set(messages) == {"missing", "silent"}
    for name, reason in {"missing": "404", "silent": "Connection refused"}.items():
        assert reason in messages[name]
        assert messages[name].endswith("of the control node and set k3s_airgap_dir.")
        assert "Status code" not in messages[name]
    del edge.hosts["silent"]
    edge.groups["k3s_agent"].remove("silent")

    messages = edge.run(*PARTS, extra={"_k3s_download_tries": 1}).messages
    assert installed(boards["right"]) == {"k3s": f"k3s-{VERSION}", f"k3s-{VERSION}": fake_k3s()}
    assert "checksum" in messages["wrong"]
    assert f"{address}v1.38.0%2Bk3s1 " in messages["missing"]
    assert "(HTTP Error 403: Forbidden)" in messages["refused"]
    assert "checksum" in messages["given"]
    for name in ("wrong", "missing", "refused", "given"):
        assert "set k3s_airgap_dir" in messages[name]
        assert installed(boards[name]) == {}

    # The second time nothing is asked of the address.
    edge.hosts["right"]["k3s_mirror_url"] = "http://127.0.0.1:9/"
    assert edge.run(*PARTS, arguments=["--limit", "right"]).changed("right") == 0
