"""Write pictures of every page of the console to docs/console/, for `make screenshots`."""

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from support.console_pages import PAGES, cookie, fill  # noqa: E402 - after the path is set
from support.running_service import RunningService, running_service  # noqa: E402

FOLDER = ROOT / "docs" / "console"
SIZES = {"360": (360, 740), "1440": (1440, 900)}
DARK = ("start", "names", "name", "register")
"""The pages that are also shown in dark."""
COLORS = 96


def write(browser: Browser, service: RunningService, secret: str, folder: Path) -> None:
    """Write the pictures of all pages."""
    origin = service.base_url.removesuffix("/api/v1").replace("127.0.0.1", "localhost")
    for scheme in ("light", "dark"):
        for size, (width, height) in SIZES.items():
            with browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,  # type: ignore[arg-type] # one of the two
            ) as context:
                for shown in PAGES:
                    if scheme == "dark" and shown.name not in DARK:
                        continue
                    context.clear_cookies()
                    if not shown.is_open:
                        context.add_cookies([cookie(origin, secret)])  # type: ignore[list-item] # as it is typed
                    page = context.new_page()
                    page.goto(origin + shown.path, wait_until="load")
                    picture = page.screenshot(full_page=True)
                    page.close()
                    _save(picture, folder / f"{shown.name}-{size}{'-dark' if scheme == 'dark' else ''}.png")


def _save(picture: bytes, path: Path) -> None:
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLORS)
    image.save(path, optimize=True)


def main() -> None:
    """Start a service with some names, and write the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as place,
        running_service(f"sqlite:///{place}/registry.db", signup="open", log_level="error") as service,
    ):
        secret = fill(service)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
            write(browser, service, secret, folder)
            browser.close()
    pictures = list(folder.glob("*.png"))
    print(f"{len(pictures)} pictures, {sum(each.stat().st_size for each in pictures) // 1024} kB")


if __name__ == "__main__":
    main()
