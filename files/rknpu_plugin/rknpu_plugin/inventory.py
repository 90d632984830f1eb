# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which shares are offered, from the configuration, the board and what containers hold."""

from __future__ import annotations

import threading
from typing import Callable

from .board import Board
from .config import Config
from .log import log
from .podresources import Holder
from .share_list import ShareList
from .shares import select_shares, share_id, share_index


class Inventory:
    """Publishes the shares.

    Args:
        config: returns the configuration in force.
        read_board: reads the board in full.
        holders: asks the kubelet who holds shares; None if it does not say.
        shares: where the result goes.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        read_board: Callable[[], Board],
        holders: Callable[[], list[Holder] | None],
        shares: ShareList,
    ) -> None:
        self._config = config
        self._read_board = read_board
        self._holders = holders
        self._shares = shares
        self._lock = threading.Lock()
        self._in_use: list[int] = []
        self.board = read_board()

    @property
    def cores(self) -> int:
        """Cores of the NPU; 1 if unknown, which gives no hints about cores."""
        return self.board.cores or 1

    @property
    def count(self) -> int:
        """How many shares to offer: as configured, else what suits the board."""
        configured = self._config().shares
        if configured is not None:
            return configured
        # A machine that is no Rockchip board has nothing to offer, not even something unhealthy.
        is_board = self.board.soc is not None or self.board.driver != "none"
        return self.board.default_shares if is_board else 0

    def update(self) -> None:
        """Choose the shares anew."""
        # Asked one at a time, because an answer that is older than another's choice would undo it.
        with self._lock:
            holders = self._holders()
            if holders is not None:
                indexes = (share_index(holder.share) for holder in holders)
                self._in_use = [index for index in indexes if index is not None]
            chosen = [share_id(index) for index in select_shares(self.count, self._in_use)]
            before = self._shares.current.shares
            if self._shares.publish(shares=chosen) and tuple(chosen) != before:
                log.info(
                    "shares are offered",
                    share=",".join(chosen) or "none",
                    withdrawn=",".join(share for share in before if share not in chosen) or None,
                )

    def set_health(self, healthy: bool) -> None:
        """Tell the kubelet that the NPU is usable or not."""
        if healthy:
            # A driver that was bound late tells its version and its cores only now.
            self.board = self._read_board()
            self.update()
        self._shares.publish(healthy=healthy)
