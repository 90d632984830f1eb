"""Tests of build.py and images.py. The Go toolchain is played by a script."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
from virtual_edge.k3s_standin import build as standin
from virtual_edge.k3s_standin import images

VERSION = standin.DEFAULT_VERSION
ARCHITECTURE = standin.ARCHITECTURES[platform.machine()]
RELEASE = "k3s" if ARCHITECTURE == "amd64" else f"k3s-{ARCHITECTURE}"

# Answers what build.py asks, writes what it wants built, and counts how often it was called.
GO = """#!/bin/sh
echo "$*" >>{calls}
case "$1" in
env) echo {version} ;;
list) echo example/tool-a example/tool-b ;;
build)
    [ -e {fails} ] && {{ echo 'main.go:1: broken' >&2; exit 1; }}
    while [ "$1" != -o ]; do shift; done
    case "$2" in
    */) echo a >"$2tool-a"; echo b >"$2tool-b" ;;
    *) echo program >"$2" ;;
    esac ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with a Go that is quick."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "go"
    program.write_text(
        GO.format(calls=tmp_path / "calls", fails=tmp_path / "fails", version="go1.99.0")
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture(autouse=True)
def busybox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that lists applets as busybox does."""
    program = tmp_path / "busybox"
    program.write_text("#!/bin/sh\nprintf 'busybox\\nsh\\nls\\n'\n")
    program.chmod(0o755)
    monkeypatch.setattr(standin, "find_busybox", lambda: program)
    return program


def run(cache: Path, version: str = VERSION) -> tuple[Path, list[str]]:
    said: list[str] = []
    return standin.build(cache, version, said.append), said


def test_the_folder_has_the_names_of_a_release(tmp_path: Path, go: Path) -> None:
    folder, said = run(tmp_path / "cache")
    assert folder == tmp_path / "cache" / f"k3s-standin-{VERSION}"
    assert (folder / RELEASE).readlink() == Path("k3s-standin")
    assert (folder / RELEASE).stat().st_mode & 0o777 == 0o755
    with zipfile.ZipFile(folder / RELEASE) as archive:
        assert archive.namelist() == ["tool-a", "tool-b"]
    sums = dict(
        line.split()[::-1]
        for line in (folder / f"sha256sum-{ARCHITECTURE}.txt").read_text().splitlines()
    )
    assert set(sums) == {RELEASE, f"k3s-airgap-images-{ARCHITECTURE}.tar"}
    for name, expected in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected
    assert all("usually" in line or "ready" in line or "Building" in line for line in said)


def test_an_unchanged_tree_is_built_once(tmp_path: Path, go: Path) -> None:
    run(tmp_path / "cache")
    calls = (tmp_path / "calls").read_text()
    assert run(tmp_path / "cache")[1] == []
    assert (tmp_path / "calls").read_text() == calls


def test_another_version_is_another_folder(tmp_path: Path, go: Path) -> None:
    first, _ = run(tmp_path / "cache")
    second, _ = run(tmp_path / "cache", "v1.37.2+standin2")
    assert first != second
    assert "release.Version=v1.37.2+standin2 " in (tmp_path / "calls").read_text()


def test_where_the_checkout_lies_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busybox = tmp_path / "m" / "busybox"
    busybox.parent.mkdir()
    busybox.write_text("static")
    monkeypatch.setattr(standin, "find_busybox", lambda: busybox)
    digests = []
    for place in ("a", "z"):
        sources = tmp_path / place / "standin"
        (sources / "server").mkdir(parents=True)
        for name in ("go.mod", "main.go", "server/server.go"):
            (sources / name).write_text(name)
        monkeypatch.setattr(standin, "SOURCES", sources)
        digests.append(standin.source_digest("v1.37.2+standin1"))
    assert digests[0] == digests[1]


def test_a_change_of_the_stand_in_leaves_the_bundled_programs(tmp_path: Path, go: Path) -> None:
    run(tmp_path / "cache")
    (tmp_path / "calls").unlink()
    run(tmp_path / "cache", "v1.37.2+standin2")
    calls = (tmp_path / "calls").read_text()
    assert "-ldflags" in calls
    assert "tool-a" not in calls


def test_a_damaged_folder_is_built_again(tmp_path: Path, go: Path) -> None:
    folder, _ = run(tmp_path / "cache")
    (folder / ".digest").write_text("something else\n")
    assert run(tmp_path / "cache")[1] != []


def test_a_failed_step_is_one_sentence_and_can_be_repeated(tmp_path: Path, go: Path) -> None:
    (tmp_path / "fails").touch()
    with pytest.raises(standin.BuildError, match=r"failed \(main.go:1: broken\)"):
        run(tmp_path / "cache")
    assert not (tmp_path / "cache" / f"k3s-standin-{VERSION}").exists()
    (tmp_path / "fails").unlink()
    assert (run(tmp_path / "cache")[0] / RELEASE).exists()


@pytest.mark.parametrize(
    "version", ["1.37.2+standin1", "v1.37.2+k3s1", "v1.37.2", "v1.2.3+standin1"]
)
def test_versions_must_name_the_stand_in_and_its_kubernetes(tmp_path: Path, version: str) -> None:
    with pytest.raises(standin.BuildError, match="must"):
        run(tmp_path / "cache", version)


def test_two_builds_at_once_wait_for_each_other(tmp_path: Path, go: Path) -> None:
    said: list[list[str]] = [[], []]
    threads = [
        threading.Thread(
            target=standin.build, args=(tmp_path / "cache", VERSION, said[index].append)
        )
        for index in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(any("ready" in line for line in lines) for lines in said) == 1


def test_an_old_go_is_passed_over(tmp_path: Path, go: Path) -> None:
    text = (go / "go").read_text()
    (go / "go").write_text(text.replace("go1.99.0", "go1.20.1"))
    assert standin.go_version(str(go / "go")) == (1, 20, 1)
    assert standin.go_version("/nonexistent/go") == (0,)
    assert standin.MINIMUM_GO > (1, 20, 1)


def test_the_archive_is_what_docker_save_writes(tmp_path: Path, busybox: Path) -> None:
    pause = tmp_path / "pause"
    pause.write_bytes(b"\x7fELF pause")
    archives = [tmp_path / "one.tar", tmp_path / "two.tar"]
    for archive in archives:
        images.write_archive(archive, "amd64", pause, busybox)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as tar:

        def read(name: str) -> bytes:
            handle = tar.extractfile(name)
            assert handle is not None
            return handle.read()

        manifest = json.loads(read("manifest.json"))
        assert [entry["RepoTags"] for entry in manifest] == [[images.PAUSE], [images.BUSYBOX]]
        for entry in manifest:
            config = json.loads(read(entry["Config"]))
            layer = hashlib.sha256(read(entry["Layers"][0])).hexdigest()
            assert config["rootfs"]["diff_ids"] == [f"sha256:{layer}"]
            assert config["architecture"] == "amd64"
        with tarfile.open(fileobj=tar.extractfile(manifest[1]["Layers"][0])) as layer_tar:
            assert layer_tar.getmember("bin/sh").linkname == "busybox"
            assert layer_tar.getmember("tmp").mode == 0o1777


def test_a_busybox_that_does_not_run_is_one_sentence(tmp_path: Path, busybox: Path) -> None:
    busybox.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(images.ImageError, match="busybox-static"):
        images.write_archive(tmp_path / "x.tar", "amd64", busybox, busybox)


def test_the_program_runs_as_a_script(tmp_path: Path) -> None:
    done = subprocess.run(
        ["python3", str(Path(standin.__file__)), "--cache", str(tmp_path), "--version", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("k3s stand-in: version 'nonsense' must look like")
