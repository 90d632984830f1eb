"""An HTTP server on loopback that speaks what the modules need of the Kubernetes API."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

RESOURCE = "rocknpu.device/npu"


def make_node(
    name: str,
    capacity: str | None = "2",
    allocatable: str | None = "2",
    ready: str = "True",
    message: str = "kubelet is posting ready status",
    **others: str,
) -> dict[str, Any]:
    """A Node as the API server sends it; None leaves the resource out."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/arch": "arm64"}},
        "status": {
            "capacity": {"cpu": "8", "memory": "16221272Ki", **others}
            | ({} if capacity is None else {RESOURCE: capacity}),
            "allocatable": {"cpu": "8", "memory": "16118872Ki", **others}
            | ({} if allocatable is None else {RESOURCE: allocatable}),
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "message": "sufficient memory"},
                {"type": "Ready", "status": ready, "message": message, "reason": "KubeletX"},
            ],
            # Names that are null break the classes of some versions of the Python client.
            "images": [{"names": None, "sizeBytes": 1}],
        },
    }


def make_pod(
    name: str,
    node: str,
    request: str | None = "1",
    phase: str = "Running",
    reason: str | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Pod with one container that asks for the resource."""
    requests = {"cpu": "100m"} | ({} if request is None else {RESOURCE: request})
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}], **spec},
        "status": {"phase": phase} | ({"reason": reason} if reason else {}),
    }


class KubeServer:
    """The server and what it answers; every attribute may be changed while it runs."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.pods: list[dict[str, Any]] = []
        # Any other object by its path. Those that are applied get what a real server adds.
        self.objects: dict[str, dict[str, Any]] = {}
        self.token: str | None = None
        self.forbidden: set[str] = set()
        self.status = 200
        self.body: bytes | None = None
        self.hangs = False
        self.conflicts = 0  # how many patches are refused because somebody else was faster
        self.requests: list[str] = []
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> KubeServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(
        self, target: str, token: str, method: str = "GET", patch: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """Return status and body for a GET, PATCH or DELETE; called once per request."""
        self.requests.append(target)
        if self.hangs:
            self._released.wait()
        path = urlsplit(target)
        kind = path.path.rpartition("/")[2]
        if self.token and token != f"Bearer {self.token}":
            return 401, _status(401, "Unauthorized")
        if kind in self.forbidden:
            return 403, _status(403, f'{kind} is forbidden: User "u" cannot list resource "{kind}"')
        if self.status != 200:
            return self.status, _status(self.status, "apiserver not ready")
        if self.body is not None:
            return 200, self.body
        if path.path == "/api/v1/nodes":
            return 200, _list("NodeList", self.nodes)
        if path.path == "/api/v1/pods":
            selector = parse_qs(path.query).get("fieldSelector")
            node = selector and selector[0].removeprefix("spec.nodeName=")
            wanted = [p for p in self.pods if node in (None, p["spec"].get("nodeName"))]
            return 200, _list("PodList", wanted)
        if path.path.startswith("/api/v1/nodes/"):
            name = path.path.split("/")[4]
            return self._answer_node(name, patch, "dryRun" in parse_qs(path.query))
        if "/api" in path.path:
            return self._answer_object(method, path.path, patch, "dryRun" in parse_qs(path.query))
        return 404, _status(404, "the server could not find the requested resource")

    def _answer_node(
        self, name: str, patch: dict[str, Any] | None, dry_run: bool
    ) -> tuple[int, bytes]:
        found = [node for node in self.nodes if node["metadata"]["name"] == name]
        if not found:
            return 404, _status(404, f'nodes "{name}" not found', "NotFound")
        metadata = found[0]["metadata"]
        if patch is None:
            metadata.setdefault("resourceVersion", "1")
            return 200, json.dumps(found[0]).encode()
        wanted = patch.get("metadata", {}).get("resourceVersion", metadata["resourceVersion"])
        if self.conflicts or wanted != metadata["resourceVersion"]:
            self.conflicts -= 1
            return 409, _status(409, "the object has been modified", "Conflict")
        node = found[0] if not dry_run else json.loads(json.dumps(found[0]))
        merge(node, patch)
        node["metadata"]["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        return 200, json.dumps(node).encode()

    def _answer_object(
        self, method: str, path: str, patch: dict[str, Any] | None, dry_run: bool
    ) -> tuple[int, bytes]:
        namespace = path.split("/namespaces/")[-1].split("/")
        home = f"/api/v1/namespaces/{namespace[0]}"
        if path not in self.objects and (method != "PATCH" or path != home not in self.objects):
            return 404, _status(404, f'"{path}" not found', "NotFound")
        item = json.loads(json.dumps(self.objects.get(path, {})))
        if method == "PATCH":
            merge(item, patch or {})
            version = int(item["metadata"].get("resourceVersion", "0")) + 1
            added = {"resourceVersion": str(version), "uid": "u", "managedFields": []}
            if "kind" in (patch or {}):
                added["managedFields"] = [{"manager": "rocknpu.edge", "time": str(version)}]
                item.setdefault("spec", {"finalizers": ["kubernetes"]})
            item["metadata"].update(added)
            if not dry_run:
                self.objects[path] = item
        if method == "DELETE":
            inside = [other for other in self.objects if other.startswith(f"{path}/")]
            for gone in (path, *inside):
                del self.objects[gone]
        return 200, json.dumps(item).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self, patch: dict[str, Any] | None = None) -> None:
                token = self.headers.get("Authorization", "")
                status, body = owner.answer(self.path, token, self.command, patch)
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # the client went away while the server was hanging

            def do_PATCH(self) -> None:
                assert self.headers["Content-Type"] in (
                    "application/merge-patch+json",
                    "application/apply-patch+yaml",
                )
                self.do_GET(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_DELETE(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Apply a merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def _status(code: int, message: str, reason: str = "") -> bytes:
    status = {"kind": "Status", "code": code, "message": message, "reason": reason}
    return json.dumps(status).encode()


def _list(kind: str, items: list[dict[str, Any]]) -> bytes:
    return json.dumps({"kind": kind, "apiVersion": "v1", "items": items}).encode()


def make_certificates(directory: Path, address: str = "127.0.0.1") -> tuple[Path, ssl.SSLContext]:
    """Make a CA and a server certificate for one address.

    Returns:
        The file of the CA's certificate, and the context for the server.
    """
    now = datetime.datetime.now(datetime.timezone.utc)

    def build(subject: str, issuer: str, key: Any, signer: Any, extension: Any) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(extension, critical=False)
            .sign(signer, hashes.SHA256())
        )

    ca_key, key = (ec.generate_private_key(curve) for curve in [ec.SECP256R1()] * 2)
    ca = build("test ca", "test ca", ca_key, ca_key, x509.BasicConstraints(True, None))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    certificate = build("api", "test ca", key, ca_key, names)
    pem = serialization.Encoding.PEM
    ca_file, chain_file = directory / "ca.pem", directory / "server.pem"
    ca_file.write_bytes(ca.public_bytes(pem))
    chain_file.write_bytes(
        certificate.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain_file)
    return ca_file, context
