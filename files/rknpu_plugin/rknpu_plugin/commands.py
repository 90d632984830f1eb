# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of `rknpu-plugin`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from typing import Any, Mapping, Sequence

from . import __version__
from .board import read_board
from .config import KEYS, plain
from .config_sources import DEFAULT_FILE, ENVIRONMENT_PREFIX, ConfigError, LoadedConfig, load_config
from .log import log, set_up_logging
from .signals import handle_signals, hold_signals

EXIT_FAILURE = 1
EXIT_CONFIG = 2
EXIT_HELD = 3
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
_LIBRARIES = (
    "grpcio, protobuf or prometheus-client cannot be used, install what requirements.txt asks for"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _make_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except ConfigError as error:
        for problem in error.problems:
            print(f"rknpu-plugin: {problem}", file=sys.stderr)
        return EXIT_CONFIG
    return code


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rknpu-plugin", description="Kubernetes device plugin for the NPU of Rockchip boards."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    serve = commands.add_parser("serve", help="offer the NPU to the kubelet until stopped")
    serve.set_defaults(run=_serve)
    serve.add_argument(
        "--follow-config",
        action="store_true",
        help="read the configuration again whenever its file changes, as in a pod; where that is "
        "not enough, stop, to be started anew",
    )
    probe = commands.add_parser("probe", help="print what is on this board")
    probe.add_argument("--format", choices=("text", "json"), default="text")
    probe.set_defaults(run=_probe)
    config = commands.add_parser("config", help="print or check the configuration")
    config.add_argument(
        "--check", metavar="FILE", help="check this file alone and print nothing else"
    )
    config.add_argument("--format", choices=("yaml", "json"), default="yaml")
    config.set_defaults(run=_config)
    version = commands.add_parser(
        "version", help="print the versions of the plugin and its libraries"
    )
    version.set_defaults(run=_version)
    for command in (serve, probe, config):
        _add_config_flags(command)
    return parser


def _add_config_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "configuration",
        "Each of these is also a key of the file and, in upper case after "
        f"{ENVIRONMENT_PREFIX}, an environment variable. A flag wins over the environment, that "
        "over the file.",
    )
    group.add_argument(
        "--config", metavar="FILE", help=f"the file; {DEFAULT_FILE} unless it is missing"
    )
    for key in KEYS:
        group.add_argument(
            "--" + key.name.replace("_", "-"), dest=key.name, metavar=key.metavar, help=key.help
        )


def _load(options: argparse.Namespace) -> LoadedConfig:
    flags = {
        key.name: getattr(options, key.name)
        for key in KEYS
        if getattr(options, key.name) is not None
    }
    return load_config(flags, os.environ, options.config)


def _serve(options: argparse.Namespace) -> int:
    from .memory import import_without_openssl, use_one_arena

    hold_signals(_SIGNALS)
    _stay_in_this_release()
    use_one_arena()
    try:
        import_without_openssl()
        # After that, and here, because the other commands work without these libraries.
        from .config_watch import ConfigWatch
        from .handover import Predecessor
        from .lock import HeldError
        from .plugin import Plugin
        from .systemd import take_listener
    except (ImportError, TypeError) as error:
        # Generated code and the protobuf that is installed do not fit: a TypeError.
        print(f"rknpu-plugin: {_LIBRARIES}: {error}", file=sys.stderr)
        return EXIT_FAILURE

    # Sockets and the lock are for the kubelet, which is root, alone.
    os.umask(0o077)
    # Before the file is read: what changes from then on is noticed.
    watch = ConfigWatch(options.config or DEFAULT_FILE) if options.follow_config else None
    loaded = _load(options)
    config = loaded.config
    set_up_logging(config.log_format, config.log_level, config.resource)
    log.info("starting", version=__version__, **_effective(loaded))
    predecessor = Predecessor.find()
    plugin = Plugin(
        loaded,
        lambda: _load(options),
        predecessor=predecessor,
        listener=predecessor.listener if predecessor else take_listener(),
    )
    actions = (plugin.stop, plugin.stop, plugin.reload, plugin.hand_over)
    handle_signals(dict(zip(_SIGNALS, actions)))
    if watch is not None:
        watch.follow(plugin.follow)
    try:
        plugin.run()
    except HeldError as error:
        log.error("refusing to start", reason=str(error))
        return EXIT_HELD
    log.info("stopped")
    return 0


def _stay_in_this_release() -> None:
    """Import from where the paths lead now, also later, when a link may lead to another release."""
    sys.path[:] = [os.path.realpath(place) if place else place for place in sys.path]
    package = sys.modules[__package__]
    package.__path__ = [os.path.realpath(place) for place in package.__path__]


def _effective(loaded: LoadedConfig) -> dict[str, Any]:
    """The configuration as fields of one event; what is not set has none."""
    values = plain(loaded.config)
    del values["resource"]
    return {
        name: ",".join(value) if isinstance(value, list) else value
        for name, value in values.items()
        if value not in (None, [])
    }


def _probe(options: argparse.Namespace) -> int:
    from .npu_problems import find_problems, is_usable

    board = read_board(_load(options).config.host_root)
    problems = find_problems(board)
    usable = is_usable(board, problems)
    if options.format == "json":
        reading = {
            "npu": board.to_dict(),
            "problems": [problem._asdict() for problem in problems],
            "usable": usable,
        }
        print(json.dumps(reading, indent=2, sort_keys=True))
        return 0
    for name, value in {"usable": usable, **board.to_dict()}.items():
        print(f"{name:<22} {_show(value)}")
    for problem in problems:
        print(f"\n{'problem' if problem.blocking else 'note'}: {problem.message}\n{problem.remedy}")
    return 0


def _show(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_show(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _config(options: argparse.Namespace) -> int:
    if options.check is not None:
        load_config({}, {}, options.check)
        return 0
    loaded = _load(options)
    values = plain(loaded.config)
    if options.format == "json":
        print(json.dumps({"values": values, "origins": loaded.origins}, indent=2))
        return 0
    for name, value in values.items():
        # JSON is YAML, and keeps each value on its line.
        print(f"{name}: {json.dumps(value)}  # {loaded.origins[name]}")
    return 0


def _version(_options: argparse.Namespace) -> int:
    import google.protobuf
    import grpc

    print(f"rknpu-plugin {__version__}")
    print(f"Python {platform.python_version()}")
    print(f"grpcio {grpc.__version__}")
    print(f"protobuf {google.protobuf.__version__}")
    return 0
