"""Properties that hold for whatever comes in (Hypothesis)."""

from __future__ import annotations

import string

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rknpu_plugin.board import parse_load
from rknpu_plugin.config import KEYS, plain
from rknpu_plugin.config_sources import ConfigError, load_config
from rknpu_plugin.resource_name import check_resource_name
from rknpu_plugin.shares import (
    MAX_SHARES,
    core_mask,
    cores_of,
    prefer,
    select_shares,
    share_id,
    share_index,
)

pytestmark = pytest.mark.slow

# Busy machines are slow, and a failure should be the same for everyone.
settings.register_profile("plugin", deadline=None, derandomize=True)
settings.load_profile("plugin")

NAMES = [key.name for key in KEYS]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
counts = st.integers(1, MAX_SHARES)
cores = st.integers(1, 4)
in_file = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


def load_text(directory, text):
    file = directory / "config.yaml"
    file.write_bytes(text)
    return load_config({}, {}, str(file)).config


@in_file
@given(content=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), values, max_size=5))
def test_configuration_loads_or_names_what_is_wrong(tmp_path, content):
    try:
        config = load_text(tmp_path, yaml.safe_dump(content).encode("utf-8", "surrogatepass"))
    except ConfigError as error:
        assert error.problems
        assert all(problem.startswith(str(tmp_path)) for problem in error.problems)
        assert all(problem.endswith(".") for problem in error.problems)
    else:
        assert set(content) <= set(NAMES)
        assert load_text(tmp_path, yaml.safe_dump(plain(config)).encode()) == config


@in_file
@given(text=st.binary(max_size=200))
def test_any_file_is_read_or_refused(tmp_path, text):
    try:
        load_text(tmp_path, text)
    except ConfigError as error:
        assert error.problems


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20), max_size=4))
def test_any_environment_is_read_or_refused(texts):
    environment = {f"RKNPU_PLUGIN_{name.upper()}": text for name, text in texts.items()}
    try:
        load_config({}, environment)
    except ConfigError as error:
        assert all("RKNPU_PLUGIN_" in problem for problem in error.problems)


label = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20)


@given(st.lists(label, min_size=1, max_size=4), label)
def test_plain_names_are_good(labels, name):
    assert check_resource_name(f"{'.'.join(labels)}.example/{name}") is None


@given(st.text(max_size=80))
def test_good_names_have_the_shape_of_a_name(text):
    if check_resource_name(text) is None:
        domain, slash, name = text.partition("/")
        assert domain
        assert slash
        assert 0 < len(name) <= 63
        assert domain == domain.lower()
        assert "kubernetes.io/" not in text
        assert not set(text) & set(" \n\t\0")


@given(counts, st.lists(st.integers(0, 150), max_size=120))
def test_selection_spares_what_is_in_use(count, in_use):
    chosen = select_shares(count, in_use)
    assert len(chosen) == count
    assert chosen == sorted(set(chosen))
    held, dropped = set(in_use) & set(chosen), set(in_use) - set(chosen)
    # Never one in use dropped while a free one stays.
    assert not dropped or held == set(chosen)
    # Of those in use the lowest stay, and the free ones are the lowest there are.
    assert all(kept < lost for kept in held for lost in dropped)
    free = [index for index in chosen if index not in set(in_use)]
    assert free == [index for index in range(300) if index not in set(in_use)][: len(free)]


@given(counts, cores)
def test_every_core_is_used_and_no_other(shares, core_count):
    used = [list(cores_of(index, shares, core_count)) for index in range(shares)]
    assert all(used)
    assert {core for group in used for core in group} == set(range(core_count))
    loads = [sum(group.count(core) for group in used) for core in range(core_count)]
    assert max(loads) - min(loads) <= 1


@given(counts, cores, st.data())
def test_core_masks_name_existing_cores(shares, core_count, data):
    indexes = data.draw(st.lists(st.integers(0, shares - 1), min_size=1, max_size=5))
    mask = core_mask(indexes, shares, core_count)
    assert (mask is None) == (core_count == 1)
    assert mask is None or (mask in (0, 1, 2, 3, 4, 7) and mask < 2**core_count)


@given(st.integers(1, 12), cores, st.data())
def test_preference_is_a_choice_the_kubelet_accepts(count, core_count, data):
    offered = [share_id(index) for index in range(count)]
    available = data.draw(st.lists(st.sampled_from(offered), unique=True, min_size=1))
    required = data.draw(st.lists(st.sampled_from(available), unique=True))
    size = data.draw(st.integers(len(required), len(available)))
    chosen = prefer(available, required, size, offered, core_count)
    assert len(chosen) == len(set(chosen)) == size
    assert set(required) <= set(chosen) <= set(available)


@given(st.integers(1, 12), st.data())
def test_one_containers_shares_lie_on_different_cores(count, data):
    """As long as nobody else holds a share and there are cores left."""
    offered = [share_id(index) for index in range(count)]
    size = data.draw(st.integers(1, min(count, 3)))
    chosen = prefer(offered, [], size, offered, 3)
    used = [core for share in chosen for core in cores_of(share_index(share), count, 3)]
    assert len(used) == len(set(used))


@given(st.integers(0, 999))
def test_ids_and_indexes_are_each_others_inverse(index):
    assert share_index(share_id(index)) == index


@given(st.dictionaries(st.integers(0, 7), st.integers(0, 10**9), min_size=1), st.booleans())
def test_load_texts_are_read_back(load, trailing_comma):
    text = "NPU load:  " + ", ".join(f"Core{core}: {value:2d}%" for core, value in load.items())
    assert parse_load(text + (",\n" if trailing_comma else "\n")) == load


@given(st.text(max_size=100))
def test_other_texts_are_no_load(text):
    load = parse_load(text)
    assert load is None or ("%" in text and all(value >= 0 for value in load.values()))
