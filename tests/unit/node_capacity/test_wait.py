"""Waiting, against a clock that only sleeping and looking move."""

from __future__ import annotations

import pytest
from ansible_collections.rocknpu.edge.plugins.module_utils.capacity_wait import (
    Deadline,
    wait_until,
)
from ansible_collections.rocknpu.edge.plugins.module_utils.kube_api import ApiError


class World:
    """A clock, and answers that come one per look; the last one stays."""

    def __init__(self, seconds, answers, cost=0.0):
        self.now = 100.0
        self.answers = list(answers)
        self.cost = cost
        self.looks = 0
        self.deadline = Deadline(seconds, clock=lambda: self.now)

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds

    def look(self):
        self.looks += 1
        self.now += self.cost
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def wait(self):
        return wait_until(self.look, lambda seen: seen == 2, self.deadline, self.sleep)


DOWN = ApiError("unreachable", "down", may_pass=True)


def test_returns_as_soon_as_it_holds():
    world = World(120, [0, 1, 2])
    assert world.wait() == (2, None)
    assert (world.looks, world.deadline.elapsed()) == (3, 4.0)


@pytest.mark.parametrize("seconds", [0, 0.5, 1, 3, 10, 120])
def test_looks_at_least_once_and_never_after_the_deadline(seconds):
    world = World(seconds, [0])
    assert world.wait() == (0, None)
    assert world.looks >= 1
    assert world.deadline.elapsed() <= seconds


def test_errors_that_may_pass_are_waited_for():
    world = World(120, [DOWN, DOWN, 2])
    assert world.wait() == (2, None)


def test_the_error_of_the_last_look_comes_with_what_was_seen_before():
    world = World(10, [1, DOWN])
    assert world.wait() == (1, DOWN)


def test_an_error_that_has_passed_is_forgotten():
    assert World(10, [DOWN, 1]).wait() == (1, None)


def test_an_error_that_waiting_does_not_cure_ends_the_wait():
    world = World(120, [ApiError("unauthorized", "no")])
    with pytest.raises(ApiError, match="no"):
        world.wait()
    assert world.looks == 1


def test_a_slow_api_does_not_stretch_the_wait():
    world = World(30, [DOWN], cost=10)
    world.wait()
    assert world.deadline.elapsed() <= 40
    assert world.looks == 3


@pytest.mark.parametrize(
    ("passed", "timeout"), [(0, 10), (105, 10), (115, 5), (119.5, 5), (200, 5)]
)
def test_a_request_gets_what_is_left_within_bounds(passed, timeout):
    world = World(120, [0])
    world.now += passed
    assert world.deadline.request_timeout() == timeout


def test_a_request_gets_whole_seconds():
    # kubernetes 24 and older take a fraction for no timeout at all.
    world = World(7.9, [0])
    assert isinstance(world.deadline.request_timeout(), int)
