# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which file an image boots with, and its bytes after the edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.board_files import BoardFiles
from ansible_collections.rocknpu.edge.plugins.module_utils.boot_files import (
    find_boot_file,
    is_handed_on,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.boot_formats import (
    UnclearFileError,
    Wanted,
    edit_environment,
    edit_extlinux,
    edit_line,
    edit_shell,
    first_extlinux,
    first_grub,
)
from hypothesis import given
from hypothesis import strategies as st
from unit.boot.images import IMAGES, OFF, ON, UNKNOWN, lay_out

WANTED = Wanted(ON, OFF)


@pytest.mark.parametrize("name", IMAGES)
def test_image(name: str, tmp_path: Path) -> None:
    image = IMAGES[name]
    image.lay_out(tmp_path)
    files = BoardFiles(str(tmp_path))
    found = find_boot_file(files)
    assert found is not None
    assert (found.kind, found.path) == (image.kind, image.path)
    text = image.before.decode("latin-1")
    if image.unclear:
        with pytest.raises(UnclearFileError):
            found.edit(text, WANTED)
        return
    edited = found.edit(text, WANTED)
    assert edited.encode("latin-1") == image.expected
    assert found.edit(edited, WANTED) == edited
    owed = found.generated and not is_handed_on(files, found.generated, WANTED)
    assert bool(owed) == bool(image.command)
    if owed:
        assert found.generated is not None
        assert found.generated.command == image.command


@pytest.mark.parametrize("name", UNKNOWN)
def test_image_that_is_not_known(name: str, tmp_path: Path) -> None:
    lay_out(UNKNOWN[name], tmp_path)
    assert find_boot_file(BoardFiles(str(tmp_path))) is None


def test_the_first_entry_counts() -> None:
    assert first_extlinux("label a\n append x y\nlabel b\n append z\n") == ["x", "y"]
    assert first_extlinux("") == []
    assert first_grub("menuentry a {\n linux /vmlinuz x\n}\nlinux /other z\n") == ["x"]
    assert first_grub("") == []


LINES = st.lists(
    st.sampled_from(
        [
            *(
                "",
                "# comment",
                "extraargs=",
                "extraargs=a  cgroup_memory=1 b",
                "append",
                "\tappend x",
            ),
            *(
                "APPEND cgroup_disable=memory y",
                "V='a'",
                'V="b c" # d',
                "V=",
                "U=x",
                "\u00e9\u00a0",
            ),
        ]
    ),
    max_size=5,
)


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_file(lines: list[str], end: str, final: bool) -> None:
    """Twice gives the same bytes, and lines that hold no arguments stay as they are."""
    text = end.join(lines) + (end if final else "")
    for edit, own in (
        (edit_line, None),
        (lambda text, wanted: edit_environment(text, wanted, "extraargs"), is_key("extraargs")),
        (lambda text, wanted: edit_shell(text, wanted, ["V"]), is_key("V")),
        (edit_extlinux, lambda line: line.lower().strip().startswith("append")),
    ):
        try:
            edited = edit(text, WANTED)
        except UnclearFileError:
            assert edit is edit_extlinux
            continue
        assert edit(edited, WANTED) == edited
        if edit is not edit_line:
            kept = [line for line in text.splitlines() if not own(line)]
            others = [line for line in edited.splitlines() if not own(line)]
            assert others == kept


def is_key(key: str):
    return lambda line: line.startswith(f"{key}=")
