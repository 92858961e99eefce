"""Run nginx with the files of `deploy/nginx/` in front of a test's APIs."""

import getpass
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support import http_clients
from support.deploy_files import DEPLOY
from support.free_ports import free_address
from support.programs import find_program
from support.waiting import wait_until

FOLDER = DEPLOY / "nginx"
NAME = "names.example.net"


@dataclass(slots=True)
class Proxy:
    """A running nginx: its addresses for HTTPS and HTTP, and the folder with its files."""

    https: tuple[str, int]
    http: tuple[str, int]
    folder: Path

    def memory_bytes(self) -> int:
        """Return the resident memory of nginx's main process and its worker."""
        main = int((self.folder / "nginx.pid").read_text())
        workers = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return resident_bytes(main) + sum(resident_bytes(int(each)) for each in workers)

    def context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the proxy's certificate."""
        return ssl.create_default_context(cafile=str(self.folder / "tls.pem"))

    def client(self, address: str = "127.0.0.1") -> httpx.Client:
        """Return a client that connects from one of this host's addresses."""
        transport = httpx.HTTPTransport(local_address=address, verify=self.context())
        host, port = self.https
        return http_clients.Client(
            transport=transport, base_url=f"https://{host}:{port}", headers={"Host": NAME}, timeout=60
        )

    def connect(self, address: str = "127.0.0.1") -> ssl.SSLSocket:
        """Return a TLS connection from one of this host's addresses."""
        plain = socket.create_connection(self.https, timeout=60, source_address=(address, 0))
        return self.context().wrap_socket(plain, server_hostname=self.https[0])


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    (pages,) = re.findall(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(pages) * 1024


@contextmanager
def nginx(folder: Path, *upstreams: str) -> Iterator[Proxy]:
    """Run nginx in front of one or two APIs, with the deployment files; only addresses and paths are
    replaced.
    """
    proxy = Proxy(free_address(), free_address(), folder)
    _make_certificate(folder)
    of_upstream = {
        "192.0.2.11:8053": upstreams[0],
        "192.0.2.12:8053": upstreams[-1],
    }
    _copy("sublet-upstream.conf", folder, of_upstream)
    _copy(
        "sublet.conf",
        folder,
        {
            "    listen [::]:80;\n": "",
            "    listen [::]:443 ssl;\n": "",
            "listen 80;": f"listen {proxy.http[0]}:{proxy.http[1]};",
            "listen 443 ssl;": f"listen {proxy.https[0]}:{proxy.https[1]} ssl backlog=4096;",
            f"/etc/nginx/tls/{NAME}.pem": f"{folder}/tls.pem",
            f"/etc/nginx/tls/{NAME}.key": f"{folder}/tls.key",
        },
    )
    places = "".join(
        f"    {each}_temp_path {folder}/{each};\n"
        for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    _copy(
        "nginx.conf",
        folder,
        {
            # nginx's own user may not enter root's temporary folders
            "pid /run/nginx.pid": f"user {getpass.getuser()};\npid {folder}/nginx.pid",
            "/var/log/nginx/error.log crit": "stderr crit",
            "access_log /var/log/nginx/access.log sublet;": "access_log "
            f"{folder}/access.log "
            f"sublet;\n{places}",
            "/etc/nginx/conf.d/*.conf": f"{folder}/sublet*.conf",
            "worker_processes auto;": "worker_processes 1;",
        },
    )
    words = [find_program("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    tried = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False, timeout=180)
    assert tried.returncode == 0, tried.stderr
    assert "[warn]" not in tried.stderr.replace('the "user" directive', ""), tried.stderr
    with (folder / "nginx.log").open("wb") as log:
        process = subprocess.Popen([*words, "-g", "daemon off;"], stdout=log, stderr=log)
    try:
        wait_until(lambda: _listens(proxy.https))
        yield proxy
    finally:
        process.terminate()
        process.wait(60)


def _copy(name: str, folder: Path, changes: dict[str, str]) -> None:
    """Copy a deployment file with replaced texts. The file must have each of them."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    for given, wanted in changes.items():
        assert given in text, given
        text = text.replace(given, wanted)
    (folder / name).write_text(re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), encoding="utf-8")


def _listens(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


def _make_certificate(folder: Path) -> None:
    """Write a certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
