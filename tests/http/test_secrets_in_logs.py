"""A token that comes with a request, wherever it stands there, gets into no log, no metric and no row of the
audit.
"""

from pathlib import Path

import pytest
from sqlalchemy import select

from sublet import audit
from sublet.db import Tx
from sublet.secret import HIDDEN
from support.repetitions import share
from support.running_service import registry_address
from support.serve_process import serve_process

pytestmark = pytest.mark.slow
USER_CODE = "BCDF-GHJK"
CODE = "Zt0cQm3mJ0cLr1h6o8XyqWnTf5bVd2aKp9sGe4uYiRk"


@pytest.mark.uncovered
@pytest.mark.parametrize("log_format", share(["json"], whole=["text", "json"]))
def test_no_token_of_a_request_is_logged_or_stored(tmp_path: Path, log_format: str) -> None:
    with serve_process(registry_address(tmp_path), tmp_path) as serving:
        serving.environment |= {"SUBLET_LOG_FORMAT": log_format, "SUBLET_LOG_LEVEL": "debug"}
        serving.start()
        service = serving.service
        service.add_domain()
        user = service.add_user()
        token = user.token
        wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
        requests = [
            ("GET", f"/subdomains/{token}", {}),
            ("GET", f"/{token}", {}),
            ("GET", f"/me?token={token}", {}),
            ("GET", f"/subdomains?q={token}", {}),
            ("GET", "/me", {"x_request_id": token}),
            ("GET", "/me", {"cookie": f"token={token}"}),
            ("GET", "/me", {"x_forwarded_for": token}),
            (token.replace("_", ""), "/me", {}),
        ]
        for method, path, headers in requests:
            for who in (user, wrong, None):
                service.call(who, method, path, **headers)
        body = {"fqdn": f"{token}.example.test", token: 1}
        service.call(user, "POST", "/subdomains", body, x_request_id=token)
        service.register(user, "blog.example.test")
        service.call(user, "DELETE", "/subdomains/blog.example.test", x_request_id=token)
        accept = f"{service.base_url.removesuffix('/api/v1')}/auth/invitations/{CODE}/accept"
        assert service.client.post(accept, json={}).status_code == 422
        assert service.client.get(accept).status_code == 405
        for path in (f"/devices/{USER_CODE}", f"/devices/{USER_CODE}/allow", f"/devices/{USER_CODE}/typo"):
            service.call(user, "GET", path)
        service.call(None, "GET", f"/auth/invitations/{CODE}")
        metrics = service.client.get(service.origin + "/metrics").text
        assert serving.stop() == 0

        def events(tx: Tx) -> str:
            return str([tuple(row) for row in tx.connection.execute(select(audit.audit_events))])

        log = serving.log.read_text(encoding="utf-8")
        for text in (log, metrics, service.read(events)):
            assert token[:24] not in text
            assert CODE not in text
            assert USER_CODE not in text
        assert log.count("/auth/invitations/{code}/accept") == 2
        assert log.count("subdomain") > 3
        assert HIDDEN in log
        assert service.doctor() == []
