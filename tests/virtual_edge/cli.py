"""Command line of the virtual edge."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from virtual_edge import checks, image, lifecycle, models, python_base, tools
from virtual_edge.errors import EdgeError, RefusedError
from virtual_edge.k3s_standin import build as standin
from virtual_edge.progress import say
from virtual_edge.settings import (
    DEFAULT_K3S_VERSION,
    Edge,
    default_name,
    default_subnet,
    find_cache,
    make_edge,
)

Command = Callable[[argparse.Namespace], "int | None"]


def main(arguments: list[str] | None = None) -> int:
    """Run a command. Returns 0, 1 (it failed) or 2 (refused, nothing was changed)."""
    options = _parse(arguments)
    try:
        return int(options.command(options) or 0)
    except EdgeError as problem:
        print(f"virtual edge: {problem}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        print("virtual edge: interrupted; run the same command again to go on.", file=sys.stderr)
        return 130


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="virtual_edge", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    edge = argparse.ArgumentParser(add_help=False)
    edge.add_argument("--name", default=default_name(), help="of the edge (default %(default)s)")
    edge.add_argument(
        "--subnet", default=default_subnet(), help="IPv4 network, 24 bits (default %(default)s)"
    )
    edge.add_argument(
        "--extra",
        action="append",
        metavar="MODEL=NAME:HOST",
        help="one more board; MODEL is one of " + ", ".join(models.names()),
    )
    version = argparse.ArgumentParser(add_help=False)
    version.add_argument(
        "--k3s-version", default=DEFAULT_K3S_VERSION, help="of the stand-in (default %(default)s)"
    )

    def add(
        name: str, command: Command, text: str, *parents: argparse.ArgumentParser
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, parents=list(parents))
        added.set_defaults(command=command)
        return added

    add("check", _check, "say what is there and what stands in the way; changes nothing", edge)
    add(
        "build",
        _build,
        "install packages, build k3s stand-in and board image",
        edge,
        version,
    )
    add("up", _up, "have all boards running; builds first what is missing", edge, version)
    add("down", _down, "remove the boards, their network, volumes and control groups", edge)
    add("clean", _clean, "down for every edge of this machine")
    board = "NAME of a board"
    add("reboot", _reboot, "reboot a board and wait until it is up", edge).add_argument(
        "board", help=board
    )
    add("reimage", _reimage, "make a board anew, as from a fresh image", edge).add_argument(
        "board", help=board
    )
    add("npu-lose", _lose, "take a board's NPU nodes away", edge).add_argument("board", help=board)
    add("npu-return", _return, "bring a board's NPU nodes back", edge).add_argument(
        "board", help=board
    )
    add("python-base", _python_base, "build a small Python image and print its name").add_argument(
        "architecture", choices=python_base.ARCHITECTURES
    )
    pods = add("pods", _pods, "run one pod more than there are NPU shares and print what each saw")
    pods.add_argument("--kubeconfig", required=True, help="of the cluster")
    pods.add_argument("--image", help="of the pods (default: the stand-in's busybox)")
    pods.add_argument("--json", action="store_true", help="print JSON instead of a table")
    examples = add("examples", _examples, "apply the example workloads, and see what they see")
    examples.add_argument("--kubeconfig", required=True, help="of the cluster")
    return parser.parse_args(arguments)


def _edge(options: argparse.Namespace) -> Edge:
    edge = make_edge(options.name, options.subnet, find_cache(), options.extra)
    for board in edge.boards:
        models.load(board.model)
    return edge


def _refuse(edge: Edge, *, built: bool) -> None:
    problems = checks.find_problems(edge, built=built)
    if problems:
        raise RefusedError("\nvirtual edge: ".join(problems))


def _is_built(edge: Edge, version: str) -> bool:
    return (
        image.is_built(edge.cache) and (edge.cache / f"k3s-standin-{version}" / ".digest").exists()
    )


def _check(options: argparse.Namespace) -> int:
    edge = _edge(options)
    problems = checks.find_problems(edge, built=_is_built(edge, DEFAULT_K3S_VERSION))
    for line in checks.describe(edge):
        print(line)
    for problem in problems:
        print(f"PROBLEM: {problem}")
    return 2 if problems else 0


def _build(options: argparse.Namespace) -> None:
    edge = _edge(options)
    _refuse(edge, built=_is_built(edge, options.k3s_version))
    _build_all(edge, options.k3s_version)


def _build_all(edge: Edge, version: str) -> None:
    missing = tools.missing_packages()
    if missing:
        tools.install(missing)
        # What could not be asked before podman was there.
        _refuse(edge, built=False)
    image.build(edge.cache)
    if os.environ.get("ROCKNPU_K3S_RELEASE"):
        say("ROCKNPU_K3S_RELEASE is set: no stand-in for k3s")
        return
    try:
        standin.build(edge.cache, version, say)
    except standin.BuildError as problem:
        raise EdgeError(f"{problem}.") from None


def _up(options: argparse.Namespace) -> None:
    edge = _edge(options)
    _refuse(edge, built=_is_built(edge, options.k3s_version))
    if not lifecycle.is_running(edge):
        problem = checks.find_memory_problem(Path("/proc/meminfo").read_text())
        if problem:
            raise RefusedError(problem)
    _build_all(edge, options.k3s_version)
    lifecycle.up(edge)


def _down(options: argparse.Namespace) -> None:
    edge = _edge(options)
    _refuse_without_podman()
    lifecycle.down(edge)
    say(f"nothing of {edge.name} is left")


def _clean(_options: argparse.Namespace) -> None:
    _refuse_without_podman()
    cache = find_cache()
    for name in lifecycle.all_names(cache):
        lifecycle.down(make_edge(name, default_subnet(), cache))
    image.remove_unused()
    say(f"no edge is left; the cache {cache} stays")


def _refuse_without_podman() -> None:
    if os.geteuid() != 0:
        raise RefusedError("The virtual edge's containers are root's: run again as root (sudo -i).")
    if not shutil.which("podman"):
        raise RefusedError("There is no podman on this machine, so there is nothing to do here.")


def _reboot(options: argparse.Namespace) -> None:
    _refuse_without_podman()
    lifecycle.reboot(_edge(options), options.board)


def _reimage(options: argparse.Namespace) -> None:
    _refuse_without_podman()
    lifecycle.reimage(_edge(options), options.board)


def _lose(options: argparse.Namespace) -> None:
    _refuse_without_podman()
    lifecycle.change_npu(_edge(options), options.board, "lose")


def _return(options: argparse.Namespace) -> None:
    _refuse_without_podman()
    lifecycle.change_npu(_edge(options), options.board, "return")


def _python_base(options: argparse.Namespace) -> None:
    _refuse_without_podman()
    print(python_base.build(find_cache(), options.architecture))


def _pods(options: argparse.Namespace) -> int:
    # Only this command needs the Kubernetes client.
    from virtual_edge import experiment

    return experiment.run(Path(options.kubeconfig), options.image, options.json)


def _examples(options: argparse.Namespace) -> int:
    # As above.
    from virtual_edge import examples

    return examples.run(Path(options.kubeconfig))
