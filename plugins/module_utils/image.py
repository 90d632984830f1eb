# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the container image of the device plugin with podman or docker, for any architecture.

Nothing of the image runs while it is built: pip resolves the packages on the control node, for the
Python and the C library that are found in the files of the base image.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple, Sequence

from .archive import (
    ArchiveError,
    BoardKind,
    digest_of,
    fill_tree,
    locked,
    package_files,
    read_requirements,
)

#: Architectures as images name them, and as Python packages do.
ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64"}

#: The recipe beside the package.
DOCKERFILE = "Dockerfile"

_NAME = "rknpu-plugin"
_PYTHON = re.compile(r"usr/(local/)?lib/python3\.(\d+)/os\.py")
_LIBRARY = "libstdc++.so.6"
_MUSL = re.compile(r"(usr/)?lib/ld-musl-")
_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


class ImageError(Exception):
    """An expected failure; its text is one sentence for the user."""


class Source(NamedTuple):
    """What the image is made from: the plugin's directory, and the image below it."""

    directory: Path
    base: str

    def requirements(self) -> list[str]:
        """Return the packages that the plugin needs."""
        return read_requirements(self.directory / "requirements.txt")

    def version(self) -> str:
        """Return the version of the plugin."""
        text = (self.directory / "rknpu_plugin" / "__init__.py").read_text(encoding="utf-8")
        found = _VERSION.search(text)
        return found.group(1) if found else "0"

    def digest(self) -> str:
        """Return 16 hexadecimal digits that change with everything that goes into the image."""
        files = [*package_files(self.directory), Path(DOCKERFILE)]
        return digest_of((self.base, *self.requirements()), self.directory, files)

    def tag(self) -> str:
        """Return the tag of the image, which no other content has."""
        return f"{self.version()}-{self.digest()}"


class Built(NamedTuple):
    """An image that was built, and how many bytes it adds to its base."""

    architecture: str
    reference: str
    size: int
    added: int


def archive_file(cache: Path, tag: str, architecture: str) -> Path:
    """Return the archive of an image, whose name also tells a person what it is."""
    return cache / f"{_NAME}-{tag}-{architecture}.tar"


def repository(registry: str) -> str:
    """Return the name of the image without its tag; images of no registry are of localhost."""
    return f"{registry.rstrip('/') or 'localhost'}/{_NAME}"


def find_kind(names: Iterable[str], architecture: str) -> BoardKind:
    """Tell from the names of all files of a base image what packages fit it.

    A Python below /usr/local comes first, as in PATH. Of glibc the oldest that current packages are
    built for is assumed, which fits every newer one.

    Raises:
        ImageError: something that the plugin needs is not there.
    """
    found: list[tuple[bool, int]] = []
    libc = ("glibc", "2.17")
    has_library = False
    for name in names:
        path = name[2:] if name.startswith("./") else name
        python = _PYTHON.fullmatch(path)
        if python:
            found.append((python.group(1) is None, -int(python.group(2))))
        elif _MUSL.match(path):
            libc = ("musl", "1.2")
        has_library = has_library or path.endswith(f"/{_LIBRARY}")
    if not found:
        raise ImageError("it has no Python, neither below /usr/local/lib nor below /usr/lib")
    if not has_library:
        raise ImageError(f"it has no {_LIBRARY}, which gRPC needs")
    return BoardKind(f"3.{-min(found)[1]}", ARCHITECTURES[architecture], *libc)


class Builder:
    """podman or docker, whichever is there."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._is_podman = Path(program).name == "podman"

    def run(self, *arguments: str) -> str:
        """Run the program and return what it prints.

        Raises:
            ImageError: with the last words of the program.
        """
        result = subprocess.run(
            [self._program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise ImageError(_last_line(result.stderr or result.stdout))
        return result.stdout.strip()

    def inspect(self, image: str, field: str) -> str:
        """Return what is known of an image, such as its Architecture."""
        return self.run("image", "inspect", "--format", f"{{{{.{field}}}}}", image)

    def size(self, image: str) -> int:
        """Return the bytes of an image."""
        return int(self.inspect(image, "Size"))

    @contextlib.contextmanager
    def container(self, image: str, architecture: str) -> Iterator[str]:
        """Make a container of an image, which is fetched if it is not there; nothing is started."""
        platform = f"--platform=linux/{architecture}"
        container = self.run("create", platform, image, "/nothing-is-started").splitlines()[-1]
        try:
            yield container
        finally:
            self.run("rm", container)

    def image_of(self, container: str) -> str:
        """Return the image that a container was made of, for its architecture."""
        return self.run("container", "inspect", "--format", "{{.Image}}", container)

    def file_names(self, container: str) -> Iterator[str]:
        """Yield the names of all files of a container."""
        with subprocess.Popen(
            [self._program, "export", container],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process, tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            for entry in tar:
                yield entry.name

    def build(self, context: Path, reference: str, architecture: str, **arguments: str) -> None:
        """Build the Dockerfile in a directory."""
        options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        # Older versions of podman take an image with other labels for the same.
        options.append("--no-cache")
        self.run(
            *("build", f"--platform=linux/{architecture}", f"--tag={reference}", *options),
            str(context),
        )

    def save(self, reference: str, archive: Path) -> None:
        """Write an image to a file in the format that every version of containerd imports."""
        form = ["--format=docker-archive"] if self._is_podman else []
        self.run("save", *form, f"--output={archive}", reference)

    def is_pushed(self, reference: str) -> bool:
        """Tell whether the registry has an image."""
        try:
            self.run("manifest", "inspect", reference)
        except ImageError:
            return False
        return True

    def push(self, reference: str, images: Sequence[str]) -> None:
        """Push images, and an index by which each machine finds that of its own architecture."""
        for image in images:
            self.run("push", image)
        with contextlib.suppress(ImageError):
            self.run("manifest", "rm", reference)
        # Without the prefix older versions of podman look for the parts in their registry.
        prefix = "containers-storage:" if self._is_podman else ""
        self.run("manifest", "create", reference, *(prefix + image for image in images))
        place = ["--all", reference, f"docker://{reference}"] if self._is_podman else [reference]
        try:
            self.run("manifest", "push", *place)
        finally:
            # What is left of that name here would be taken for what the registry has.
            self.run("manifest", "rm", reference)


def find_builder() -> Builder:
    """Return what images can be built with.

    Raises:
        ImageError
    """
    for name in ("podman", "docker"):
        program = shutil.which(name)
        if program:
            return Builder(program)
    raise ImageError(
        "Images are built with podman or docker, and the control node has neither; install one of "
        "them (Debian and Ubuntu: the package podman)."
    )


def build_image(
    builder: Builder, python: str, source: Source, reference: str, architecture: str, work: Path
) -> Built:
    """Build the image for one architecture, as REFERENCE-ARCHITECTURE.

    Args:
        python: whose pip resolves the packages.
        work: an empty directory.

    Raises:
        ImageError
    """
    try:
        with builder.container(source.base, architecture) as container:
            base = builder.image_of(container)
            found = builder.inspect(base, "Architecture")
            if found != architecture:
                raise ImageError(f"it is for {found}")
            base_size = builder.size(base)
            kind = find_kind(builder.file_names(container), architecture)
    except ImageError as error:
        raise ImageError(
            f"The base image {source.base} cannot be used for {architecture}: {error}; check the "
            "network, or name another one."
        ) from error
    tree = work / "tree"
    tree.mkdir()
    try:
        fill_tree(python, source.directory, source.requirements(), kind, tree)
    except ArchiveError as error:
        raise ImageError(
            f"pip cannot get the packages for {kind}: {error}; run this where a package index is "
            "reachable (pip's own settings, such as PIP_INDEX_URL, are used)."
        ) from error
    shutil.copyfile(str(source.directory / DOCKERFILE), str(work / DOCKERFILE))
    image = f"{reference}-{architecture}"
    try:
        builder.build(
            *(work, image, architecture),
            BASE=source.base,
            VERSION=source.version(),
            REVISION=source.digest(),
        )
    except ImageError as error:
        raise ImageError(f"The image for {architecture} cannot be built: {error}.") from error
    size = builder.size(image)
    return Built(architecture, image, size, size - base_size)


def build_archives(
    python: str, source: Source, reference: str, architectures: Sequence[str], cache: Path
) -> list[Built]:
    """Make sure that there is an archive for each architecture; return what was built for it.

    An archive appears whole or not at all.

    Raises:
        ImageError
    """
    built = []
    with _work(cache, source) as work:
        for architecture in architectures:
            archive = archive_file(cache, source.tag(), architecture)
            if archive.is_file():
                continue
            builder = find_builder()
            place = work / architecture
            place.mkdir()
            image = build_image(builder, python, source, reference, architecture, place)
            # In the archive the name is the same for all architectures, as in a registry.
            builder.run("tag", image.reference, reference)
            builder.save(reference, work / archive.name)
            builder.run("rmi", reference)
            (work / archive.name).replace(archive)
            built.append(image)
    return built


def push_images(
    python: str, source: Source, reference: str, architectures: Sequence[str], cache: Path
) -> list[Built]:
    """Build the image for all architectures and push it; return what was built.

    Raises:
        ImageError
    """
    builder = find_builder()
    built = []
    with _work(cache, source) as work:
        for architecture in architectures:
            place = work / architecture
            place.mkdir()
            built.append(build_image(builder, python, source, reference, architecture, place))
    try:
        builder.push(reference, [image.reference for image in built])
    except ImageError as error:
        raise ImageError(
            f"{reference} cannot be pushed: {error}; log in to the registry with "
            "`podman login` or `docker login`, and check its name."
        ) from error
    return built


@contextlib.contextmanager
def _work(cache: Path, source: Source) -> Iterator[Path]:
    """Provide a directory beside the archives, one run after the other."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = locked(cache / f".{_NAME}-{source.tag()}.lock")
        with lock, tempfile.TemporaryDirectory(prefix=f".{_NAME}.build-", dir=str(cache)) as name:
            yield Path(name)
    except OSError as error:
        where = error.filename or cache
        raise ImageError(
            f"Cannot write the image archive: {where}: {error.strerror}; name a directory that you "
            "may write as cache_dir."
        ) from error


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return re.sub("^Error:? ", "", lines[-1]).rstrip(".") if lines else "no reason given"
