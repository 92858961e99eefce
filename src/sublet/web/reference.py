"""The pages about the API: its reference, and the page whose script sends requests with the session.

The reference is open to all, and rendered from the OpenAPI document at the first request.
"""

import asyncio
import json
from typing import Any

from starlette.responses import Response

from sublet.errors import NotFound
from sublet.http.docs_page import Reference
from sublet.operations.operation import BASE_PATH
from sublet.web.assets import CompressedBody
from sublet.web.page import PageCall
from sublet.web.start import DOMAINS_MAX

QUERY_MAX = 100
"""The number of characters of a search that count."""


async def show(call: PageCall) -> Response:
    """Show the first requests and the contents, or with `q` what contains these words."""
    wanted = call.request.query_params.get("q", "").strip()[:QUERY_MAX]
    reference = await _reference(call)
    domains = (await call.api("platform_domains", query={"limit": DOMAINS_MAX})).platform_domains
    open_domains = [each for each in domains if each.registration_open]
    with_records = [each for each in open_domains if each.record_types]
    return await _render(
        call,
        reference,
        wanted=wanted,
        found=reference.search(wanted) if wanted else [],
        domain=next((each.domain for each in [*with_records, *open_domains]), "example.net"),
        has_records=bool(with_records),
        group=None,
    )


async def show_group(call: PageCall) -> Response:
    """Show the entries of a group.

    Raises:
        NotFound: there is no such group.
    """
    reference = await _reference(call)
    for group in reference.groups:
        if group.slug == call.parameters["group"]:
            return await _render(call, reference, wanted="", group=group)
    raise NotFound("The reference has no such page. Look in its contents, at /docs.")


async def _reference(call: PageCall) -> Reference:
    """Return the reference. Rendering it takes a tenth of a second, once in a process."""
    return await asyncio.to_thread(call.shared.reference)


async def _render(call: PageCall, reference: Reference, **values: Any) -> Response:
    """Return the page.

    It is compressed, but not if a search repeats a text of the request beside data of a session (BREACH).
    """
    page = await call.render("reference", reference=reference, **values)
    if call.registrant is not None and values["wanted"]:
        return page
    return CompressedBody("text/html", bytes(page.body)).answer(call.request, {})


async def show_trial(call: PageCall) -> Response:
    """Show the form of a request."""
    operations = [each for each in call.shared.operations.values() if not each.is_open]
    bodies = {
        each.name: json.dumps(each.example_body, indent=2, ensure_ascii=False)
        for each in operations
        if each.example_body is not None
    }
    return await call.render("try_api", operations=operations, base_path=BASE_PATH, bodies=bodies)
