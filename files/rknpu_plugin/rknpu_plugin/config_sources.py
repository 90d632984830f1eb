# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the configuration comes from: flags, then environment, then file, then defaults.

Everything is strict: an unknown key or a bad value anywhere is an error that names its place, its
key and the rule, and all of them are reported at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Hashable, Mapping, NamedTuple

import yaml

from .config import KEYS, Config, read_value

DEFAULT_FILE = "/etc/rknpu-plugin/config.yaml"
ENVIRONMENT_PREFIX = "RKNPU_PLUGIN_"
FILE_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"

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
    """Refuses a key that stands twice, of which YAML silently keeps the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{key} stands more than once", problem_mark=key_node.start_mark
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
    named = file or environment.get(FILE_VARIABLE) or None
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
            problems.append(f"environment: {variable}: is unknown{_suggest(variable, list(keys))}.")
    return layer


def _from_file(path: str, problems: list[str], required: bool) -> _Layer:
    try:
        with Path(path).open(encoding="utf-8") as stream:
            content = yaml.load(stream, _StrictLoader)
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
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.append(f"{path}: is not valid YAML: {_explain_yaml(error)}.")
        return {}
    if content is None:
        return {}
    if not isinstance(content, dict):
        problems.append(f'{path}: must hold keys and values, for example "shares: 2".')
        return {}
    for name in content:
        if name not in _NAMES:
            problems.append(f"{path}: {name}: is unknown{_suggest(str(name), _NAMES)}.")
    return {name: (path, content[name]) for name in _NAMES if name in content}


def _explain_yaml(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return str(error).replace("\n", " ")


def _suggest(name: str, names: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f", did you mean {close[0]}"
    return f"; there are {', '.join(names)}"
