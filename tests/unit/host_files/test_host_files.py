# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module, run as Ansible does, on real files."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.host_files import (
    Wanted,
    find_change,
    make_change,
)
from ansible_collections.rocknpu.edge.plugins.modules import host_files
from unit.module_process import run_module


def _run(*files: dict[str, Any], check: bool = False, **options: Any) -> dict[str, Any]:
    given = {"files": list(files), "_ansible_check_mode": check, "_ansible_diff": True, **options}
    # Whatever the umask: modes are those that were asked for.
    return run_module(host_files, given, umask=0o077)[0]


def _look(directory: Path) -> dict[str, object]:
    """Everything below a directory."""
    return {
        str(path.relative_to(directory)): (
            f"-> {os.readlink(path)}"
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else "directory",
            None if path.is_symlink() else f"{path.stat().st_mode & 0o7777:04o}",
        )
        for path in sorted(directory.rglob("*"))
    }


def _secrets(directory: Path) -> dict[str, str]:
    return {f"{directory}/etc/token": "dontshow\n"}


@pytest.fixture
def wanted(tmp_path: Path) -> list[dict[str, Any]]:
    """One of each kind."""
    return [
        {"path": f"{tmp_path}/etc/new/config", "content": "ü: 1\n"},
        {"path": f"{tmp_path}/etc/token"},
        {"path": f"{tmp_path}/bin/script", "content": "#!/bin/sh\n", "mode": "0755"},
        {"path": f"{tmp_path}/bin/tool", "state": "link", "target": "tool-1.2"},
        {"path": f"{tmp_path}/data", "state": "directory", "mode": "0700"},
        {"path": f"{tmp_path}/old", "state": "absent"},
    ]


DONE = {
    "bin": ("directory", "0755"),
    "bin/script": (b"#!/bin/sh\n", "0755"),
    "bin/tool": ("-> tool-1.2", None),
    "data": ("directory", "0700"),
    "etc": ("directory", "0755"),
    "etc/new": ("directory", "0755"),
    "etc/new/config": ("ü: 1\n".encode(), "0644"),
    "etc/token": (b"dontshow\n", "0600"),
}


def test_from_nothing_and_again(tmp_path: Path, wanted: list[dict[str, Any]]) -> None:
    (tmp_path / "old").write_text("was here")
    planned = _run(*wanted, secrets=_secrets(tmp_path), check=True)
    assert _look(tmp_path) == {"old": (b"was here", "0644")}
    first = _run(*wanted, secrets=_secrets(tmp_path))
    assert _look(tmp_path) == DONE
    assert first["changed_paths"] == [file["path"] for file in wanted]
    assert {**planned, "invocation": 0} == {**first, "invocation": 0}
    times = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = _run(*wanted, secrets=_secrets(tmp_path))
    assert (again["changed"], again["changed_paths"], again["diff"]) == (False, [], [])
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == times


def test_what_differs_is_changed(tmp_path: Path, wanted: list[dict[str, Any]]) -> None:
    _run(*wanted, secrets=_secrets(tmp_path))
    (tmp_path / "etc/new/config").write_text("ü: 2\n")
    (tmp_path / "etc/token").chmod(0o644)
    (tmp_path / "bin/tool").unlink()
    (tmp_path / "bin/tool").write_text("a file")
    (tmp_path / "bin/script").unlink()
    (tmp_path / "bin/script").symlink_to("elsewhere")
    (tmp_path / "old").symlink_to("nowhere")
    result = _run(*wanted, secrets=_secrets(tmp_path))
    assert _look(tmp_path) == DONE
    assert [Path(path).name for path in result["changed_paths"]] == [
        "config",
        "token",
        "script",
        "tool",
        "old",
    ]
    config, token, script, tool, old = result["diff"]
    assert (config["before"], config["after"]) == ("ü: 2\n", "ü: 1\n")
    assert (token["before"]["mode"], token["after"]["mode"]) == ("0644", "0600")
    assert (script["before"], script["after"]) == ("a link to elsewhere\n", "#!/bin/sh\n")
    assert (tool["before"], tool["after"]) == ("a file", "a link to tool-1.2\n")
    assert (old["before"], old["after"]) == ("a link to nowhere\n", "")


@pytest.mark.parametrize(
    "secret", ["the secret after", "the secret after\n", "the 'secret' ü\n\ty"]
)
def test_a_secret_is_never_shown(tmp_path: Path, secret: str) -> None:
    """Neither in the result nor in the log of the host, where a module's options are quoted."""
    (tmp_path / "token").write_text("the secret before")
    given = {
        "files": [{"path": f"{tmp_path}/token"}, {"path": f"{tmp_path}/x", "content": "plain"}],
        "secrets": {f"{tmp_path}/token": secret},
        "_ansible_diff": True,
    }
    result, printed = run_module(host_files, given)
    assert (tmp_path / "token").read_text() == secret
    assert "secret after" not in printed
    assert "'secret'" not in printed
    assert "log: " in printed and "plain" in printed
    assert result["diff"][0]["prepared"] == f"{tmp_path}/token: the content is secret\n"


@pytest.mark.parametrize(
    ("mode", "entry", "is_shown"),
    [
        (0o600, {"state": "absent"}, False),
        (0o600, {"state": "link", "target": "elsewhere"}, False),
        (0o600, {"content": "open"}, False),
        (0o600, {"content": "open", "mode": "0600"}, True),
        (0o640, {"state": "absent"}, True),
    ],
)
def test_what_was_for_its_owner_alone_is_shown_to_nobody(
    tmp_path: Path, mode: int, entry: dict[str, Any], is_shown: bool
) -> None:
    (tmp_path / "x").write_text("the old password")
    (tmp_path / "x").chmod(mode)
    result = _run({"path": f"{tmp_path}/x", **entry})
    assert result["changed"]
    assert ("the old password" in str(result)) == is_shown


def test_paths_of_secrets_are_those_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _run({"path": "~/x"}, secrets={"$HOME/x": "hidden"})["changed"]
    assert (tmp_path / "x").read_text() == "hidden"


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            {"path": "DIR/tree", "content": ""},
            "DIR/tree is a directory and is to be a file: move it away. Nothing was changed.",
        ),
        (
            {"path": "DIR/tree", "state": "absent"},
            "DIR/tree is a directory and is to be removed as a file: move it away. "
            "Nothing was changed.",
        ),
        (
            {"path": "DIR/plain", "state": "directory"},
            "DIR/plain is to be a directory and is none: move it away. Nothing was changed.",
        ),
        (
            {"path": "DIR/plain/below/x", "content": ""},
            "DIR/plain is no directory, so DIR/plain/below/x cannot be in it: move it away. "
            "Nothing was changed.",
        ),
        (
            {"path": "DIR/new", "content": "", "mode": "rw"},
            'The mode of DIR/new is rw and must be octal and quoted, such as "0644".',
        ),
        # What YAML makes of 0644 without quotes.
        (
            {"path": "DIR/new", "content": "", "mode": 420},
            "The mode of DIR/new is 420 and must be octal and quoted,",
        ),
        ({"path": "new", "content": ""}, 'files: "new" must be an absolute path, and not /.'),
        ({"path": "/", "state": "directory"}, 'files: "/" must be an absolute path, and not /.'),
        ({"path": "DIR/first", "state": "absent"}, "files: DIR/first must stand only once."),
        ({"path": "DIR/./first", "content": ""}, "files: DIR/first must stand only once."),
        (
            {"path": "DIR/first/x", "content": ""},
            "files: DIR/first/x cannot be in DIR/first, which is to be a file.",
        ),
        ({"path": "DIR", "state": "directory"}, "files: DIR must stand before DIR/first, which is"),
        ({"path": "DIR/new", "state": "link", "target": ""}, "files: the link DIR/new must have a"),
        (
            {"path": "DIR/new", "state": "link", "target": "a\0b"},
            "files: the path or target 'DIR/new' has characters in it that no file name has.",
        ),
        ({"path": "DIR/new", "content": "\udce4"}, "The content of 'DIR/new' is no text that"),
        (
            {"path": "DIR/new", "content": "", "validate": "test 'x %s"},
            "validate: `test 'x %s` is no command: No closing quotation. Nothing was changed.",
        ),
        (
            {"path": "DIR/new", "content": "bad", "validate": "grep -q good %s"},
            "`grep -q good %s` refuses the new content: ",
        ),
        (
            {"path": "DIR/new"},
            "files: DIR/new has neither content nor one in secrets. Nothing was changed.",
        ),
    ],
)
def test_refusals_change_nothing(tmp_path: Path, entry: dict[str, Any], sentence: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "kept").write_text("kept")
    (tmp_path / "plain").write_text("plain")
    before = _look(tmp_path)
    entry["path"] = entry["path"].replace("DIR", str(tmp_path))
    result = _run({"path": f"{tmp_path}/first", "content": "first"}, entry)
    assert result.get("failed") is True
    assert result["msg"].startswith(sentence.replace("DIR", str(tmp_path)))
    assert _look(tmp_path) == before


@pytest.mark.parametrize(
    ("secrets", "sentence"),
    [
        ({"DIR/x": "hidden"}, "files: DIR/x has content and one in secrets. Nothing was changed."),
        ({"DIR/y": "hidden"}, "secrets: DIR/y is no file of files. Nothing was changed."),
        ({"DIR/gone": "hidden"}, "secrets: DIR/gone is no file of files. Nothing was changed."),
        ({"DIR/token": 4711}, "secrets: what is for DIR/token must be text. Nothing was changed."),
        ({"DIR/token": "\udce4"}, "The content of 'DIR/token' is no text that can be written"),
    ],
)
def test_secrets_that_fit_no_file(tmp_path: Path, secrets: dict[str, Any], sentence: str) -> None:
    result = _run(
        {"path": f"{tmp_path}/x", "content": "x"},
        {"path": f"{tmp_path}/gone", "state": "absent"},
        *([{"path": f"{tmp_path}/token"}] if "DIR/token" in secrets else []),
        secrets={key.replace("DIR", str(tmp_path)): text for key, text in secrets.items()},
    )
    assert result["msg"].startswith(sentence.replace("DIR", str(tmp_path)))
    assert _look(tmp_path) == {}


def test_what_is_for_another_state_does_not_count(tmp_path: Path) -> None:
    entry = {"path": f"{tmp_path}/x", "content": "x", "target": "elsewhere"}
    assert _run(entry)["changed"]
    assert not _run(entry)["changed"]


@pytest.mark.parametrize("path", ["DIR//a/b", "DIR/a/b/", "DIR/./a/b", "DIR/new/../a/b"])
def test_a_path_may_be_written_in_any_way(tmp_path: Path, path: str) -> None:
    """As where a directory comes from a variable of the user's."""
    entry = {"path": path.replace("DIR", str(tmp_path)), "content": "x"}
    assert _run(entry)["changed_paths"] == [entry["path"]]
    assert (tmp_path / "a" / "b").read_text() == "x"
    assert not _run(entry)["changed"]


def test_the_longest_name(tmp_path: Path) -> None:
    assert _run({"path": f"{tmp_path}/{'n' * 255}", "content": "x"})["changed"]
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]


def test_an_owner_that_is_not_there(tmp_path: Path) -> None:
    result = _run({"path": f"{tmp_path}/x", "content": ""}, group="no-such-group")
    assert result["msg"] == "group is no-such-group, and this host has none of that name."


def test_a_link_to_a_directory_is_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    assert not _run({"path": f"{tmp_path}/link", "state": "directory"})["changed"]
    assert (tmp_path / "real").stat().st_mode & 0o7777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owners(tmp_path: Path) -> None:
    files = [tmp_path / "kept", tmp_path / "made"]
    files[0].write_text("old")
    os.chown(files[0], 12, 13)
    entries = [{"path": str(path), "content": "new"} for path in files]
    _run(*entries)
    assert [(path.stat().st_uid, path.stat().st_gid) for path in files] == [(12, 13), (0, 0)]
    result = _run(*entries, owner="root", group="root")
    assert result["changed_paths"] == [str(files[0])]
    assert [(path.stat().st_uid, path.stat().st_gid) for path in files] == [(0, 0), (0, 0)]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("old")

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    change = find_change(Wanted(str(tmp_path / "config"), "file", content=b"new"))
    assert change is not None
    with pytest.raises(OSError, match="No space left"):
        make_change(change)
    assert _look(tmp_path) == {"config": (b"old", "0644")}
