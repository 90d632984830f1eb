# Copyright: (c) 2026, The rocknpu.edge authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Talk to a Kubernetes API server, with errors that say what is wrong.

The options are those of the collection kubernetes.core, so that what works there works here.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import traceback
from pathlib import Path
from typing import Any, Iterator, Mapping
from urllib.parse import urlsplit

from ansible.module_utils.basic import (  # type: ignore[import-untyped]
    AnsibleModule,
    env_fallback,
    missing_required_lib,
)

from .kube_objects import KubeObject

KUBERNETES_IMPORT_ERROR: str | None = None
try:
    import urllib3
    import yaml
    from kubernetes import client as kube_client
    from kubernetes import config as kube_config
    from kubernetes.dynamic import DynamicClient
except ImportError:
    KUBERNETES_IMPORT_ERROR = traceback.format_exc()

#: Argument specification of the options in the documentation fragment kube_auth.
AUTH_ARGUMENTS: dict[str, dict[str, Any]] = {
    "kubeconfig": {"type": "path", "fallback": (env_fallback, ["K8S_AUTH_KUBECONFIG"])},
    "context": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_CONTEXT"])},
    "host": {"type": "str", "fallback": (env_fallback, ["K8S_AUTH_HOST"])},
    "api_key": {
        "type": "str",
        "no_log": True,
        "fallback": (env_fallback, ["K8S_AUTH_API_KEY"]),
    },
    "ca_cert": {
        "type": "path",
        "aliases": ["ssl_ca_cert"],
        "fallback": (env_fallback, ["K8S_AUTH_SSL_CA_CERT", "K8S_AUTH_CA_CERT"]),
    },
    "validate_certs": {
        "type": "bool",
        "aliases": ["verify_ssl"],
        "fallback": (env_fallback, ["K8S_AUTH_VERIFY_SSL", "K8S_AUTH_VALIDATE_CERTS"]),
    },
}


def check_start(module: AnsibleModule, least: int = 0) -> None:
    """End a module that cannot begin: without the client library, or with too short a timeout.

    least: the shortest timeout in seconds.
    """
    if KUBERNETES_IMPORT_ERROR:
        module.fail_json(msg=missing_required_lib("kubernetes"), exception=KUBERNETES_IMPORT_ERROR)
    if module.params["timeout"] < least:
        module.fail_json(msg=f"timeout: must be {least} or more, not {module.params['timeout']}.")


_HEADER_WORD = re.compile(r"[!-~]+")


class ApiError(Exception):
    """The API server gave no answer that can be used.

    Attributes:
        reason: One of configuration, unreachable, certificate, unauthorized, forbidden, missing,
            conflict, invalid and unavailable.
        may_pass: Whether waiting may cure it.
    """

    def __init__(self, reason: str, message: str, may_pass: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.may_pass = may_pass


class KubeApi:
    """An API server, and what to do with it in words of HTTP."""

    def __init__(self, configuration: Any) -> None:
        # Every path is known, so the server is not asked what it has.
        self._client = DynamicClient(  # type: ignore[no-untyped-call]
            kube_client.ApiClient(configuration), discoverer=lambda *_: None
        )
        self._address = _printable(configuration.host)

    def items(self, path: str, action: str, timeout: int, **query: str) -> list[KubeObject]:
        """Return the objects of a list, see request()."""
        items = self.request("get", path, action, timeout, **query).get("items")
        if not isinstance(items, list):
            raise self._not_kubernetes()
        return items

    def request(
        self, method: str, path: str, action: str, timeout: int, body: Any = None, **options: Any
    ) -> KubeObject:
        """Send one request and return the object in its answer.

        Args:
            method: of HTTP.
            path: below the API's address.
            action: what it is for, to follow "may", as in "list nodes".
            timeout: in whole seconds. Some versions of the client take no notice of a fraction, and
                would wait for ever.
            body: text, or what is to be sent as JSON.
            options: parameters as in the client's DynamicClient.request(), such as content_type.

        Raises:
            ApiError
        """
        options["_request_timeout"] = timeout
        try:
            # The JSON as it came: the client's own classes differ from version to version.
            answer = self._client.request(method, path, body=body, serialize=False, **options)
            content = json.loads(answer.data)
        except (kube_client.ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise self._explain(error, action) from error
        except ValueError as error:
            raise self._not_kubernetes() from error
        if not isinstance(content, dict):
            raise self._not_kubernetes()
        return content

    def _not_kubernetes(self) -> ApiError:
        return ApiError(
            "unavailable",
            f"{self._address} does not answer as a Kubernetes API does; check the address.",
            may_pass=True,
        )

    def _explain(self, error: Exception, action: str) -> ApiError:
        status = getattr(error, "status", None)
        if status:
            return self._explain_status(error, int(status), action)
        for cause in _chain(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                return ApiError(
                    "certificate",
                    f"The certificate of the API at {self._address} is not trusted: "
                    f"{cause.verify_message.rstrip('.')}; give the cluster's CA in ca_cert or use "
                    "the kubeconfig of this cluster.",
                )
        return ApiError(
            "unreachable",
            f"The API at {self._address} is not reachable: {_describe_failure(error)}; check the "
            "address, the network, and that k3s runs on the server.",
            may_pass=True,
        )

    def _explain_status(self, error: Exception, status: int, action: str) -> ApiError:
        answer = _status_of(error)
        said = f": {answer['message'].rstrip('.')}" if answer["message"] else ""
        if status == 401:
            return ApiError(
                "unauthorized",
                f"The API at {self._address} does not accept the credentials (401 Unauthorized); "
                "use a valid api_key, or fetch the kubeconfig from the server again.",
            )
        if status == 403:
            return ApiError(
                "forbidden",
                f"The API at {self._address} does not let this user {action} (403 Forbidden"
                f"{said}); give it a ClusterRole that may.",
            )
        if answer["reason"] == "NotFound":
            return ApiError("missing", f"The API at {self._address} cannot {action}{said}.")
        if status == 409:
            return ApiError(
                "conflict", f"Somebody else was faster, cannot {action}{said}.", may_pass=True
            )
        if status in (400, 422):
            return ApiError("invalid", f"The API at {self._address} cannot {action}{said}.")
        return ApiError(
            "unavailable",
            f"The API at {self._address} answers {status}{said} to the request to {action}; see "
            "the log of k3s on the server.",
            may_pass=True,
        )


def connect(options: Mapping[str, Any]) -> KubeApi:
    """Prepare access to the API; nothing is sent yet.

    Args:
        options: Values of AUTH_ARGUMENTS.

    Raises:
        ApiError: The options do not lead to an API server.
    """
    configuration = kube_client.Configuration()
    host, api_key = options["host"], (options["api_key"] or "").strip()
    if not (host and api_key):
        _load_configuration(configuration, options["kubeconfig"], options["context"])
    if host:
        _check_address(host)
        configuration.host = host.rstrip("/")
    if api_key:
        if not _HEADER_WORD.fullmatch(api_key):
            raise _bad_options("api_key must be one word of printable ASCII characters")
        # All of it: newer clients keep the kubeconfig's token under another name and prefer that.
        configuration.api_key = {"authorization": f"Bearer {api_key}"}
        configuration.refresh_api_key_hook = None
        # A certificate of the kubeconfig's user would be asked first.
        configuration.cert_file = configuration.key_file = None
    if options["ca_cert"]:
        _check_ca(options["ca_cert"])
        configuration.ssl_ca_cert = options["ca_cert"]
    if options["validate_certs"] is not None:
        configuration.verify_ssl = options["validate_certs"]
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    _check_address(configuration.host)
    # Waiting is the caller's: urllib3's own three retries would multiply every timeout.
    configuration.retries = False
    return KubeApi(configuration)


def _load_configuration(configuration: Any, kubeconfig: str | None, context: str | None) -> None:
    """Fill in what a kubeconfig says, or inside a pod what its service account says."""
    try:
        if not (kubeconfig or context) and "KUBERNETES_SERVICE_HOST" in os.environ:
            kube_config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
        else:
            kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig,
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
    except kube_config.ConfigException as error:
        raise _bad_options(f"{kubeconfig or 'the kubeconfig'}: {error}".rstrip(".")) from error
    except OSError as error:
        raise _bad_options(f"{kubeconfig or 'the kubeconfig'}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError):
        # Without the error itself: it may quote lines of the file, which holds keys.
        raise _bad_options(f"{kubeconfig or 'the kubeconfig'} is no kubeconfig file") from None


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets that do not fit, or a port that is no number to 65535
        sound = False
    if not sound or not _HEADER_WORD.fullmatch(address):
        raise _bad_options(f'the API is at https://ADDRESS:PORT, not "{_printable(address)}"')


def _check_ca(path: str) -> None:
    if not Path(path).is_file():
        raise _bad_options(f"ca_cert: there is no file {path}")
    try:
        ssl.create_default_context(cafile=path)
    except (ssl.SSLError, OSError) as error:
        raise _bad_options(f"ca_cert: {path} holds no certificate in PEM form") from error


def _bad_options(reason: str) -> ApiError:
    return ApiError(
        "configuration",
        f"No way to the Kubernetes API: {reason}; set kubeconfig, or host and api_key.",
    )


def _printable(address: str) -> str:
    """Return an address without the user and password that it may hold."""
    return address.rpartition("@")[2] if "@" in address else address


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it came from, the outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _describe_failure(error: Exception) -> str:
    for cause in reversed(list(_chain(error))):
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused, nothing listens there"
        if isinstance(cause, (TimeoutError, socket.timeout)):
            return "no answer in time"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({cause.reason or 'connection closed'})"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return "the connection broke"


def _status_of(error: Exception) -> dict[str, str]:
    """Return message and reason of an error answer of the API, empty where it has none."""
    try:
        status = json.loads(getattr(error, "body", None) or "{}")
        return {key: str(status.get(key) or "") for key in ("message", "reason")}
    except (ValueError, TypeError, AttributeError):
        return {"message": "", "reason": ""}
