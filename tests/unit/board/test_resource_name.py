# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of extended resources, by Kubernetes' own rules."""

from __future__ import annotations

import string

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.resource_name import check_resource_name
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "name",
    [
        "rocknpu.device/npu",
        "rockchip.com/npu",
        "rock-chips.com/rknpu",
        "example.com/NPU_fast-1.2",
        "localdomain/npu",
        "1.2.3/4",
        "fpga.example.com/" + "a" * 63,
        # 253 characters for "requests." and the domain.
        ".".join(["a" * 60] * 4) + "/npu",
        "a" * 244 + "/npu",
        "kubernetes.io.example.com/npu",
        "notrequests.example.com/npu",
    ],
)
def test_good(name: str) -> None:
    assert check_resource_name(name) is None


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        # https://github.com/networkservicemesh/networkservicemesh/issues/100
        ("nsm.ligato.io", "DOMAIN/NAME"),
        ("npu", "DOMAIN/NAME"),
        ("", "DOMAIN/NAME"),
        # https://github.com/koordinator-sh/koordinator/pull/1025
        ("kubernetes.io/npu", "reserved"),
        ("x.kubernetes.io/npu", "reserved"),
        ("mykubernetes.io/npu", "reserved"),
        # https://github.com/intel/intel-device-plugins-for-kubernetes/issues/301
        ("fpga.example.com/" + "a" * 64, "64 characters"),
        ("rockchip.com/npu/npu", "one slash"),
        ("requests.example.com/npu", "quotas"),
        ("Rocknpu.device/npu", "lower-case"),
        ("rocknpu.Device/npu", "lower-case"),
        ("rock_npu.device/npu", "lower-case"),
        ("-rocknpu.device/npu", "lower-case"),
        ("rocknpu-.device/npu", "lower-case"),
        ("rocknpu..device/npu", "lower-case"),
        (".device/npu", "lower-case"),
        ("rocknpu.device./npu", "lower-case"),
        ("/npu", "lower-case"),
        ("rocknpu.device/", "after the slash"),
        ("rocknpu.device/-npu", "after the slash"),
        ("rocknpu.device/npu.", "after the slash"),
        ("rocknpu.device/n pu", "after the slash"),
        ("rocknpu.device/npu\n", "after the slash"),
        ("rocknpu.device\n/npu", "lower-case"),
        ("rocknpu.device/nPü", "after the slash"),
        ("a" * 245 + "/npu", "245 characters"),
    ],
)
def test_bad(name: str, rule: str) -> None:
    sentence = check_resource_name(name)
    assert sentence is not None
    assert name in sentence
    assert rule in sentence
    assert sentence.endswith(".")


_EDGE = string.ascii_lowercase + string.digits
_LABEL = st.text(_EDGE + "-", min_size=1, max_size=40).filter(
    lambda label: label[0] != "-" != label[-1]
)
_DOMAIN = (
    st.lists(_LABEL, min_size=1, max_size=5)
    .map(".".join)
    .filter(
        lambda domain: (
            not domain.endswith("kubernetes.io")
            and not domain.startswith("requests.")
            and len(domain) <= 244
        )
    )
)
_NAME = st.text(string.ascii_letters + string.digits + "-_.", min_size=1, max_size=63).filter(
    lambda name: name[0] not in "-_." and name[-1] not in "-_."
)


@given(_DOMAIN, _NAME)
def test_every_name_by_the_rules_is_good(domain: str, name: str) -> None:
    assert check_resource_name(f"{domain}/{name}") is None


@given(_DOMAIN, _NAME, st.sampled_from(" /@:,;'\"\\äÉ\n\t\0"), st.data())
def test_one_wrong_character_is_bad(
    domain: str, name: str, wrong: str, data: st.DataObject
) -> None:
    good = f"{domain}/{name}"
    at = data.draw(st.integers(0, len(good)))
    assert check_resource_name(good[:at] + wrong + good[at:]) is not None


@given(st.text())
def test_any_text_is_checked(text: str) -> None:
    sentence = check_resource_name(text)
    assert sentence is None or sentence.endswith(".")
