"""Start Sublet with demo data and print requests to paste, for `make run`.

It uses the operator's commands, so it is also an example of a first start.
"""

import io
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

from sublet.cli.main import app as command_line

FOLDER = Path(__file__).resolve().parent.parent / ".run"
SUBLET = str(Path(sys.executable).parent / "sublet")
EMAIL = "demo@example.org"
DOMAIN = "example.test"


def sublet(*words: str) -> Any:
    """Run one of the operator's commands and return its JSON value. A refusal ends the demo.

    It runs in this process, because starting a new one takes a second.
    """
    written = io.StringIO()
    try:
        with redirect_stdout(written):
            command_line([*words, "--json"], prog_name="sublet")
    except SystemExit as ended:
        if ended.code:
            sys.exit(f"`sublet {' '.join(words)}` failed.")
    return json.loads(written.getvalue())


def demo_token() -> str:
    """Return the demo user's token from its file; create the demo data if the registry is empty."""
    file = FOLDER / "demo-token"
    if sublet("user", "list"):
        return file.read_text().strip() if file.exists() else issue(file)
    sublet("user", "add", EMAIL, "--name", "Demo", "--organization", "Demo Works")
    sublet(
        "domain",
        "add",
        DOMAIN,
        "--public-name",
        "Example Test",
        "--description",
        "A domain for trying things out.",
        "--records",
        "on",
    )
    sublet(
        "domain",
        "offer",
        DOMAIN,
        "--mode",
        "plus",
        "--price",
        "10",
        "--renewal-price",
        "10",
        "--period-days",
        "365",
    )
    sublet(
        "domain",
        "offer",
        DOMAIN,
        "--mode",
        "premium",
        "--price",
        "50",
        "--renewal-price",
        "25",
        "--period-days",
        "365",
    )
    sublet("label", "set", "gold", "--domain", DOMAIN, "--class", "premium")
    sublet("package", "add", "Starter", "--credits", "100", "--price", "9.00", "--currency", "EUR")
    sublet("coupon", "add", "WELCOME", "--percent", "50")
    sublet("credits", "grant", EMAIL, "--credits", "100", "--reason", "A welcome from the demo")
    return issue(file)


def issue(file: Path) -> str:
    """Issue a token for the demo user and store it for the next run."""
    token = str(sublet("token", "issue", EMAIL, "--name", "demo")["token"])
    file.touch(mode=0o600)
    file.write_text(token + "\n")
    return token


def wait_until_ready(url: str, service: "subprocess.Popen[bytes]") -> None:
    """Wait until the service is ready. Exit if it ends."""
    while service.poll() is None:
        try:
            with urllib.request.urlopen(url + "/readyz", timeout=60):  # noqa: S310 - our own address
                return
        except OSError:
            time.sleep(0.05)
    sys.exit("The service did not start; the line above says why.")


def free_labels(url: str, token: str) -> tuple[str, str, str]:
    """Return three labels that are not registered, so that the printed requests work at every start."""
    request = urllib.request.Request(  # noqa: S310 - our own address
        f"{url}/api/v1/subdomains?limit=500", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        held = {each["label"] for each in json.load(answer)["subdomains"]}
    endings = ["", *(f"-{number}" for number in range(2, 1000))]
    labels = ("blog", "shop", "site")
    ending = next(each for each in endings if held.isdisjoint(f"{label}{each}" for label in labels))
    return f"blog{ending}", f"shop{ending}", f"site{ending}"


def console_link() -> str:
    """Return a link that signs the demo user in to the console."""
    return str(sublet("user", "sign-in-link", EMAIL)["link"])


def what_to_try(url: str, dns: str, updates: str, token: str, link: str) -> str:
    """Return the link to the console, and the requests to paste."""
    free, paid, site = free_labels(url, token)
    host, port = dns.rsplit(":", 1)
    send = (
        f'curl -s -X POST -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" {url}/api/v1'
    )
    nameservers = '"nameservers": ["ns1.provider.example", "ns2.provider.example"]'
    order = f'"fqdn": "{paid}.{DOMAIN}", "registration_mode": "plus", {nameservers}, "coupon_code": "WELCOME"'
    return f"""
Sublet is running. Open the console, signed in (the link works once, for 15 minutes):
{link}

Or paste these into another terminal:

  export TOKEN={token}

  # the user and its credits
  curl -s -H "Authorization: Bearer $TOKEN" {url}/api/v1/me
  curl -s -H "Authorization: Bearer $TOKEN" {url}/api/v1/credits

  # register a name, and see its delegation in the DNS
  {send}/subdomains -d '{{"fqdn": "{free}.{DOMAIN}", {nameservers}}}'
  dig @{host} -p {port} {free}.{DOMAIN} NS +norecurse

  # register a name with records, which works without nameservers
  {send}/subdomains -d '{{"fqdn": "{site}.{DOMAIN}", "records": [{{"name": "www", "type": "CNAME", "values": ["example.github.io"]}}]}}'
  dig @{host} -p {port} www.{site}.{DOMAIN} CNAME +norecurse

  # a key that may change nothing but the challenges of certificates, and a challenge as certbot sends it
  export KEY=$({send}/subdomains/{site}.{DOMAIN}/update-keys -d '{{"record_names": ["_acme-challenge"]}}' | sed -E 's/.*"key_name":"([^"]*)".*"secret":"([^"]*)".*/hmac-sha256:\\1:\\2/')
  printf 'server %s %s\\nupdate add _acme-challenge.{site}.{DOMAIN} 60 TXT challenge\\nsend\\n' {updates.replace(":", " ")} | nsupdate -y "$KEY"
  dig @{host} -p {port} _acme-challenge.{site}.{DOMAIN} TXT +norecurse

  # a name that costs credits: a quote, then its confirmation
  {send}/subdomains -d '{{{order}}}'
  {send}/subdomains -d '{{{order}, "confirm": true}}'

  # a support ticket
  {send}/support/tickets -d '{{"subject": "Hello", "message": "What is glue?", "fqdn": "{free}.{DOMAIN}"}}'

  # open an account: the mail with the code is printed here, in the terminal of the service
  curl -s -X POST -H "Content-Type: application/json" {url}/auth/signup -d '{{"email": "you@example.org", "name": "You"}}'

  # the operator's commands
  export SUBLET_DATABASE_URL={os.environ["SUBLET_DATABASE_URL"]}
  {SUBLET} ticket list
  {SUBLET} doctor

All endpoints: {url}/docs
Stop with Ctrl-C. The data stays in {FOLDER}.
"""  # noqa: E501


def main() -> None:
    """Create the registry, start the service, and print the requests. SIGTERM and Ctrl-C stop the service."""
    FOLDER.mkdir(exist_ok=True)
    os.environ.setdefault("SUBLET_DATABASE_URL", f"sqlite:///{FOLDER}/sublet.db")
    http = os.environ.setdefault("SUBLET_HTTP_LISTEN", "127.0.0.1:8053")
    dns = os.environ.setdefault("SUBLET_DNS_LISTEN", "127.0.0.1:5300")
    key_file = FOLDER / "update-key"
    if not key_file.exists():
        key_file.touch(mode=0o600)
        key_file.write_text(secrets.token_hex(32))
    os.environ.setdefault("SUBLET_UPDATE_KEY_FILE", str(key_file))
    updates = os.environ.setdefault("SUBLET_UPDATE_LISTEN", "127.0.0.1:5301")
    os.environ.setdefault("SUBLET_SIGNUP", "open")
    os.environ.setdefault("SUBLET_MAIL_TRANSPORT", "print")
    # Links of mails lead to localhost too: without TLS, browsers keep cookies and passkeys there only.
    os.environ.setdefault("SUBLET_PUBLIC_URL", f"http://localhost:{http.rpartition(':')[2]}")
    sublet("init")
    token = demo_token()
    service = subprocess.Popen([SUBLET, "serve"])

    def stop(number: int, _frame: FrameType | None) -> None:
        service.send_signal(number)

    # The terminal sends Ctrl-C to the service too; SIGTERM must be forwarded.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        wait_until_ready(f"http://{http}", service)
        print(what_to_try(f"http://{http}", dns, updates, token, console_link()), flush=True)
        sys.exit(service.wait())
    finally:  # a demo that fails leaves no service behind
        service.terminate()
        service.wait()


if __name__ == "__main__":
    main()
