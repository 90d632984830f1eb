# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the configuration comes from: flags, then environment, then file, then defaults.

Everything is strict: an unknown key or a bad value anywhere is an error that names its place, its
key and the rule, and all of them are reported at once.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Hashable, Mapping, NamedTuple

import yaml

from .config import KEYS, Config, read_value, show

DEFAULT_FILE = "/etc/rknpu-plugin/config.yaml"
ENVIRONMENT_PREFIX = "RKNPU_PLUGIN_"
FILE_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"

# Of a file; the longest that makes sense has a few hundred bytes for each key.
_MAX_BYTES = 64 * 1024
# No value has more than one pair.
_MAX_BRACKETS = 20
_NAMES = [key.name for key in KEYS]


class ConfigError(Exception):
    """The configuration cannot be used; *problems* has one sentence for each mistake.

    needs_restart: whether a new process could use it.
    """

    def __init__(self, problems: list[str], needs_restart: bool = False) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.needs_restart = needs_restart


class LoadedConfig(NamedTuple):
    """A configuration, and for each key the place its value came from."""

    config: Config
    origins: dict[str, str]


class _StrictLoader(yaml.SafeLoader):
    """Refuses what YAML allows and nobody means here.

    A key that stands twice, of which YAML silently keeps the last; aliases, with which a few lines
    become a list without end; brackets in brackets, over which PyYAML takes minutes.
    """

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= _MAX_BRACKETS:
            raise yaml.MarkedYAMLError(
                problem="too many brackets in brackets", problem_mark=self.get_mark()
            )
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases are not supported, write the value again", problem_mark=mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{_name(key)} stands more than once", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_config(
    flags: Mapping[str, str], environment: Mapping[str, str], file: str | None = None
) -> LoadedConfig:
    """Merge and check the configuration.

    Args:
        flags: texts of the command line, by key.
        environment: the process environment.
        file: the configuration file. Without it, RKNPU_PLUGIN_CONFIG names the file; without that,
            it is /etc/rknpu-plugin/config.yaml, which alone may be missing.

    Raises:
        ConfigError: anything wrong, in sentences for the user.
    """
    named = environment.get(FILE_VARIABLE) or None if file is None else file
    path = named or DEFAULT_FILE
    problems: list[str] = []
    layers = [
        _from_flags(flags),
        _from_environment(environment, problems),
        _from_file(path, problems, required=named is not None),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key in KEYS:
        layer = next((layer for layer in layers if key.name in layer), {})
        origin, value = layer.get(key.name, ("default", None))
        origins[key.name] = origin
        try:
            values[key.name] = read_value(key, value)
        except ValueError as error:
            problems.append(f"{origin}: {key.name}: {error}.")
    if problems:
        raise ConfigError(problems)
    return LoadedConfig(Config(**values), origins)


_Layer = Mapping[str, "tuple[str, Any]"]


def _from_flags(flags: Mapping[str, str]) -> _Layer:
    return {
        key.name: ("command line", key.parse(flags[key.name])) for key in KEYS if key.name in flags
    }


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> _Layer:
    layer = {}
    keys = {ENVIRONMENT_PREFIX + key.name.upper(): key for key in KEYS}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == FILE_VARIABLE:
            continue
        if variable in keys:
            key = keys[variable]
            layer[key.name] = (f"environment {variable}", key.parse(environment[variable]))
        else:
            problems.append(
                f"environment: {_name(variable)}: is unknown{_suggest(variable, list(keys))}."
            )
    return layer


def _from_file(path: str, problems: list[str], required: bool) -> _Layer:
    try:
        content = yaml.load(_read(path), _StrictLoader)
    except FileNotFoundError:
        if required:
            problems.append(f"{path}: there is no such file.")
        return {}
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}.")
        return {}
    except UnicodeDecodeError:
        problems.append(f"{path}: is not UTF-8 text.")
        return {}
    except Exception as error:
        # Not YAMLError alone: PyYAML fails in many ways at values that do not fit their tag.
        problems.append(f"{path}: is not valid YAML: {_explain_yaml(error)}.")
        return {}
    if content is None:
        return {}
    if not isinstance(content, dict):
        problems.append(f'{path}: must hold keys and values, for example "shares: 2".')
        return {}
    for name in content:
        if name not in _NAMES:
            problems.append(f"{path}: {_name(name)}: is unknown{_suggest(str(name), _NAMES)}.")
    return {name: (path, content[name]) for name in _NAMES if name in content}


def _read(path: str) -> str:
    """The text of a file that may be anything.

    Raises:
        OSError: it cannot be read, or is not what a configuration can be.
        UnicodeDecodeError: it is no text.
    """

    def open_at_once(name: str, flags: int) -> int:
        # Else a FIFO would block for ever.
        return os.open(name, flags | os.O_NONBLOCK)

    with open(path, "rb", opener=open_at_once) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(0, "it is no regular file")
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(0, f"it is larger than {_MAX_BYTES // 1024} KiB")
    return content.decode("utf-8")


def _name(name: object) -> str:
    """A key in a message: bare where it could be one."""
    text = str(name)
    return text if text.isidentifier() or text.isdigit() else show(text)


def _explain_yaml(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if isinstance(error, (yaml.YAMLError, ValueError, RecursionError)):
        return " ".join(str(error).split())
    return "a value does not fit its tag"


def _suggest(name: str, names: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f", did you mean {close[0]}"
    return f"; there are {', '.join(names)}"
