"""The page whose script sends requests to the API with the browser's session, and shows the answers."""

import json

from starlette.responses import Response

from sublet.http.endpoints import BASE_PATH
from sublet.http.examples import BODIES
from sublet.http.routes import ENDPOINTS
from sublet.web.page import PageCall


async def show(call: PageCall) -> Response:
    """Show the form of a request."""
    bodies = {name: json.dumps(body, indent=2, ensure_ascii=False) for name, body in BODIES.items()}
    return call.render("try_api", endpoints=ENDPOINTS, base_path=BASE_PATH, bodies=bodies)
