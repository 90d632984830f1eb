# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of modules that look at a host and change nothing there."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Can run in C(check_mode) and return the same as without it.
    support: full
  diff_mode:
    description: Returns details on what has changed in diff mode.
    support: none
    details:
      - The module changes nothing.
  platform:
    description: Target systems that the module can read.
    support: full
    platforms: posix
"""
