#!/usr/bin/python
# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: k3s_server_info
short_description: Find a k3s server that answers and takes a token
version_added: 1.0.0
description:
  - Asks k3s servers what a joining node asks first, namely who the server is and whether it takes
    the token, and says which one did, or what is wrong.
  - A node that cannot join tries again for ever and tells the reason in its log alone. This module
    tells it before anything is changed.
  - Runs on the host that is to join, so that the answer holds for its network and its clock. Needs
    nothing but Python there. Proxies are not used, as k3s does not use them on this way.
options:
  urls:
    description:
      - Addresses of servers, each C(https://ADDRESS:PORT). They are asked in this order until one
        takes the token.
      - A server that is down, or that answers and is not what it should be, does not keep the next
        one from being asked.
    type: list
    elements: str
    required: true
  token:
    description: Token of the cluster, in any form that k3s takes.
    type: str
    required: true
  user:
    description: What the host is to be. A server needs the server's token, an agent may have one
      that lets agents join only.
    type: str
    choices: [node, server]
    default: node
  timeout:
    description: Seconds to wait for a server that answers. With V(0) each is asked once.
    type: int
    default: 60
extends_documentation_fragment:
  - rocknpu.edge.reads_only
seealso:
  - name: k3s token
    description: The forms of a token, and how a node joins with it.
    link: https://docs.k3s.io/cli/token
author:
  - The rocknpu.edge authors (@rocknpu)
"""

EXAMPLES = r"""
- name: Ask before the board joins
  rocknpu.edge.k3s_server_info:
    urls:
      - https://192.0.2.11:6443
      - https://192.0.2.12:6443
    token: "{{ k3s_token }}"
    timeout: 20
  register: __edge_server

- name: Assert that the board may join
  ansible.builtin.assert:
    that: __edge_server.state == 'ok'
    fail_msg: "{{ __edge_server.answers | to_json }}"
"""

RETURN = r"""
url:
  description: Address of the server that takes the token, else of the one that came nearest to it.
  returned: always
  type: str
  sample: https://192.0.2.11:6443
state:
  description:
    - V(ok), or what is wrong with that server - V(refused) (the token), V(other_authority) (the
      token names another cluster), V(clock) (its certificate is not valid now), V(name) (its
      certificate does not cover the address), V(certificate), V(other) (no k3s server) or
      V(unreachable).
  returned: always
  type: str
  sample: ok
detail:
  description: What exactly was wrong, in the words of the system. Empty for V(ok).
  returned: always
  type: str
  sample: Connection refused
answers:
  description: The last answer of each server that was asked, the best first.
  returned: always
  type: list
  elements: dict
  contains:
    url:
      description: Address of the server.
      type: str
      returned: always
      sample: https://192.0.2.11:6443
    state:
      description: As RV(state).
      type: str
      returned: always
      sample: unreachable
    detail:
      description: As RV(detail).
      type: str
      returned: always
      sample: Connection refused
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rocknpu.edge.plugins.module_utils.k3s_access import Answer, ask, find

# For each request: a board on the same network answers in milliseconds, a busy one in seconds.
_REQUEST_TIMEOUT = 5


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "urls": {"type": "list", "elements": "str", "required": True},
            "token": {"type": "str", "required": True, "no_log": True},
            "user": {"type": "str", "choices": ["node", "server"], "default": "node"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    urls = module.params["urls"]
    bad = [url for url in urls if not url.startswith("https://")]
    if bad or not urls:
        module.fail_json(msg=f"urls must be addresses such as https://192.0.2.11:6443, not {bad}.")
    if module.params["timeout"] < 0:
        module.fail_json(msg=f"timeout: must be 0 or more, not {module.params['timeout']}.")

    def ask_one(url: str) -> Answer:
        return ask(url, module.params["token"], module.params["user"], _REQUEST_TIMEOUT)

    answers = find(urls, module.params["timeout"], ask_one)
    module.exit_json(
        changed=False,
        **answers[0]._asdict(),
        answers=[answer._asdict() for answer in answers],
    )


if __name__ == "__main__":
    main()
