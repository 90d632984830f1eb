"""What goes into an archive, for which board, and what a user reads when it cannot be built."""

from __future__ import annotations

import os
import sys
import tarfile
import threading
from pathlib import Path

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.archive import (
    ArchiveError,
    BoardKind,
    archive_name,
    build_archive,
    explain_pip,
    inputs_digest,
    locked,
    package_files,
    parse_version,
    platform_tags,
    read_requirements,
)

BULLSEYE = BoardKind("3.8", "aarch64", "glibc", "2.31")


def build(source: Path, cache: Path, kind: BoardKind = BULLSEYE) -> tuple[bool, Path]:
    requirements = read_requirements(source / "requirements.txt")
    archive = cache / archive_name(inputs_digest(source, requirements, kind), kind)
    return build_archive(sys.executable, source, requirements, kind, archive), archive


def content(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        return {m.name: tar.extractfile(m).read().decode() for m in tar if m.isreg()}


@pytest.mark.parametrize(
    ("kind", "first", "last", "count"),
    [
        (BULLSEYE, "manylinux_2_31_aarch64", "manylinux2014_aarch64", 16),
        (
            BoardKind("3.12", "x86_64", "glibc", "2.17"),
            "manylinux_2_17_x86_64",
            "manylinux2014_x86_64",
            2,
        ),
        (
            BoardKind("3.12", "aarch64", "musl", "1.2"),
            "musllinux_1_2_aarch64",
            "musllinux_1_1_aarch64",
            2,
        ),
    ],
)
def test_tags_are_those_the_board_can_load(kind, first, last, count):
    tags = platform_tags(kind)
    assert (tags[0], tags[-1], len(tags)) == (first, last, count)
    assert len(set(tags)) == count


def test_both_spellings_of_the_oldest_manylinux_are_given():
    assert {"manylinux_2_17_aarch64", "manylinux2014_aarch64"} <= set(platform_tags(BULLSEYE))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (BULLSEYE._replace(architecture="riscv64"), "architecture 'riscv64'"),
        (BULLSEYE._replace(architecture="armv7l"), "architecture 'armv7l'"),
        (BULLSEYE._replace(libc_version="2.12"), "glibc 2.12 is too old"),
        (BULLSEYE._replace(libc_version=""), "libc_version must be a version"),
    ],
)
def test_a_board_without_wheels_gets_one_sentence(kind, words):
    with pytest.raises(ArchiveError, match=words):
        platform_tags(kind)


@pytest.mark.parametrize(
    ("text", "version"), [("3.8", (3, 8)), ("3.11.7", (3, 11)), ("2.36-9+deb12u4", (2, 36))]
)
def test_versions_are_read_with_what_distributions_append(text, version):
    assert parse_version(text, "python_version") == version


@pytest.mark.parametrize("text", ["", "3", "three.eight", "3.x"])
def test_what_is_no_version_is_refused(text):
    with pytest.raises(ArchiveError, match=r"python_version must be a version such as 3\.11"):
        parse_version(text, "python_version")


def test_an_archive_has_packages_and_plugin_with_links_resolved(source, index, tmp_path):
    built, archive = build(source, tmp_path / "cache")
    assert built
    files = content(archive)
    assert files["rknpu_plugin/board.py"] == "CORES = 3\n"
    assert files["boarddep.py"] == "KIND = 'py38 aarch64'\n"
    assert not [name for name in files if "__pycache__" in name or name.startswith("bin/")]


def test_an_archive_belongs_to_root_and_is_readable_by_all(source, index, tmp_path):
    (source / "rknpu_plugin" / "board.py").resolve().chmod(0o600)
    old_umask = os.umask(0o077)
    try:
        _, archive = build(source, tmp_path / "cache")
    finally:
        os.umask(old_umask)
    with tarfile.open(archive) as tar:
        for member in tar:
            assert (member.uid, member.gid) == (0, 0)
            assert member.mode == (0o755 if member.isdir() else 0o644), member.name


def test_the_same_inputs_give_the_same_bytes(source, index, tmp_path):
    _, one = build(source, tmp_path / "one")
    _, two = build(source, tmp_path / "two")
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


def test_a_finished_archive_needs_no_index(source, index, tmp_path, monkeypatch):
    build(source, tmp_path / "cache")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "gone"))
    built, archive = build(source, tmp_path / "cache")
    assert not built
    assert archive.is_file()


def change_linked_module(source: Path) -> None:
    (source / "rknpu_plugin" / "board.py").resolve().write_text("CORES = 2\n")


def rename_module(source: Path) -> None:
    (source / "rknpu_plugin" / "__main__.py").rename(source / "rknpu_plugin" / "other.py")


def raise_bound(source: Path) -> None:
    (source / "requirements.txt").write_text("boarddep>=2.0\n")


@pytest.mark.parametrize("change", [change_linked_module, rename_module, raise_bound])
def test_every_input_counts_in_the_digest(source, change):
    def digest() -> str:
        return inputs_digest(source, read_requirements(source / "requirements.txt"), BULLSEYE)

    before = digest()
    assert digest() == before
    change(source)
    assert digest() != before


@pytest.mark.parametrize("field", BoardKind._fields)
def test_every_property_of_a_board_counts_in_the_digest(source, field):
    other = BULLSEYE._replace(**{field: "9.9"})
    assert inputs_digest(source, [], other) != inputs_digest(source, [], BULLSEYE)


def test_compiled_files_do_not_count(source):
    before = inputs_digest(source, [], BULLSEYE)
    (source / "rknpu_plugin" / "__pycache__" / "x.cpython-313.pyc").write_bytes(b"other")
    (source / "rknpu_plugin" / "loose.pyc").write_bytes(b"other")
    assert inputs_digest(source, [], BULLSEYE) == before


def test_a_directory_without_the_plugin_is_named(tmp_path):
    with pytest.raises(ArchiveError, match="does not hold the package rknpu_plugin"):
        package_files(tmp_path)


def test_environment_markers_are_refused(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text('grpcio>=1.51; python_version < "3.9"\n')
    with pytest.raises(ArchiveError, match="environment marker"):
        read_requirements(path)


def test_missing_requirements_are_named(tmp_path):
    with pytest.raises(ArchiveError, match=r"requirements\.txt: No such file"):
        read_requirements(tmp_path / "requirements.txt")


def test_without_packages_the_message_names_board_reason_and_remedy(source, index, tmp_path):
    other = BULLSEYE._replace(python_version="3.12")
    with pytest.raises(ArchiveError) as caught:
        build(source, tmp_path / "cache", other)
    message = str(caught.value)
    assert "Python 3.12 on aarch64 with glibc 2.31" in message
    assert "No matching distribution found for boarddep>=1.0" in message
    assert "PIP_INDEX_URL" in message
    assert "-py3.12-aarch64.tar.gz" in message
    assert not list((tmp_path / "cache").glob("*.tar.gz"))


def test_an_unreachable_index_is_said_to_be_unreachable(source, index, tmp_path, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_RETRIES", "1")
    # Port 9 of the loopback address: nothing listens there.
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:hunter2@127.0.0.1:9/simple")
    with pytest.raises(ArchiveError, match=r"index cannot be reached \(.*refused\)") as caught:
        build(source, tmp_path / "cache")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("exception", "reason"),
    [
        (
            "NewConnectionError('<HTTPSConnection object at 0x7f33>: Failed to establish a new "
            "connection: [Errno -2] Name or service not known')",
            "[Errno -2] Name or service not known",
        ),
        (
            "ReadTimeoutError(\"HTTPSConnectionPool(host='index', port=443): Read timed out. "
            '(read timeout=15)")',
            "Read timed out",
        ),
        (
            "ConnectTimeoutError(<HTTPSConnection object at 0x7f33>, 'Connection to index timed "
            "out. (connect timeout=15)')",
            "Connection to index timed out",
        ),
    ],
)
def test_why_an_index_is_not_reached_is_told(exception, reason):
    output = (
        f"WARNING: Retrying (Retry(total=0)) after connection broken by '{exception}': /simple/x/\n"
        "ERROR: No matching distribution found for x\n"
    )
    assert explain_pip(output) == f"the package index cannot be reached ({reason})"


def test_credentials_of_an_index_are_not_repeated():
    reason = explain_pip("ERROR: Could not fetch URL https://me:hunter2@example.org/simple: 401.")
    assert reason == "Could not fetch URL https://***@example.org/simple: 401"


def test_an_interpreter_without_pip_is_named(source, tmp_path):
    archive = tmp_path / "cache" / "a.tar.gz"
    bare = tmp_path / "python-without-pip"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(ArchiveError, match=r"python-without-pip, which runs .* has no pip"):
        build_archive(str(bare), source, ["boarddep"], BULLSEYE, archive)


def test_a_cache_that_cannot_be_made_is_named(source, index, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match=r"file.*name a directory that you may write"):
        build(source, tmp_path / "file" / "cache")


def test_an_interrupted_build_leaves_nothing_behind_for_good(source, index, tmp_path):
    cache = tmp_path / "cache"
    _, archive = build(source, cache)
    archive.unlink()
    left_over = cache / f".{archive.name}.build-dead"
    (left_over / "root").mkdir(parents=True)
    assert build(source, cache) == (True, archive)
    assert not left_over.exists()


def test_boards_of_one_kind_share_one_build(source, index, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    requirements = read_requirements(source / "requirements.txt")
    name = archive_name(inputs_digest(source, requirements, BULLSEYE), BULLSEYE)
    results: list[bool] = []
    boards = [
        threading.Thread(target=lambda: results.append(build(source, cache)[0])) for _ in range(3)
    ]
    with locked(cache / f".{name}.lock"):
        for board in boards:
            board.start()
    for board in boards:
        board.join(60)
    assert sorted(results) == [False, False, True]
    assert [path.name for path in cache.glob("[!.]*")] == [name]
