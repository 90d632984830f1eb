# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options for access to the Kubernetes API, named as in the collection kubernetes.core."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig file on the host that runs the module.
      - Not read when both O(host) and O(api_key) are given.
      - Without any of these options the service account of the pod is used where the module runs
        in one, else the files in E(KUBECONFIG) or C(~/.kube/config).
      - E(K8S_AUTH_KUBECONFIG) is used when the option is not set.
    type: path
  context:
    description:
      - Context of the kubeconfig file to use, instead of its current one.
      - E(K8S_AUTH_CONTEXT) is used when the option is not set.
    type: str
  host:
    description:
      - Address of the API, such as V(https://192.0.2.11:6443). Overrides that of the kubeconfig.
      - E(K8S_AUTH_HOST) is used when the option is not set.
    type: str
  api_key:
    description:
      - Bearer token. Overrides that of the kubeconfig. Never printed.
      - E(K8S_AUTH_API_KEY) is used when the option is not set.
    type: str
  ca_cert:
    description:
      - Path of a PEM file with the certificates of the cluster's CA.
      - E(K8S_AUTH_SSL_CA_CERT) or E(K8S_AUTH_CA_CERT) is used when the option is not set.
    type: path
    aliases: [ssl_ca_cert]
  validate_certs:
    description:
      - Whether the certificate of the API must be valid. What the kubeconfig says, else V(true),
        when the option is not set.
      - E(K8S_AUTH_VERIFY_SSL) or E(K8S_AUTH_VALIDATE_CERTS) is used when the option is not set.
    type: bool
    aliases: [verify_ssl]
attributes:
  action_group:
    description: Use C(group/rocknpu.edge.edge) in C(module_defaults) to set the access once.
    support: full
    membership:
      - rocknpu.edge.edge
requirements:
  - kubernetes >= 24.2 (Python package) on the host that runs the module
"""
