"""The page whose script sends requests to the API with the browser's session, and shows the answers."""

import json

from starlette.responses import Response

from sublet.operations.operation import BASE_PATH
from sublet.web.page import PageCall


async def show(call: PageCall) -> Response:
    """Show the form of a request."""
    operations = [each for each in call.shared.operations.values() if not each.is_open]
    bodies = {
        each.name: json.dumps(each.example_body, indent=2, ensure_ascii=False)
        for each in operations
        if each.example_body is not None
    }
    return call.render("try_api", operations=operations, base_path=BASE_PATH, bodies=bodies)
