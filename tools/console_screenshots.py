"""Write pictures of the pages of the console to docs/console/, for `make screenshots`."""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from support.chromium import NARROW, WIDE, chromium, tab  # noqa: E402 - after the path is set
from support.console_pages import PAGES, fill, settings_of_pages  # noqa: E402
from support.running_service import RunningService, running_service  # noqa: E402

FOLDER = ROOT / "docs" / "console"
SIZES = {"360": NARROW, "1440": WIDE}
DARK = ("names",)
"""The pages that are also shown in dark."""
LONG = ("reference", "activity")
"""The pages of which only the first view is shown."""
COLORS = 20


def write(browser: Browser, service: RunningService, secret: str, folder: Path) -> None:
    """Write the pictures of the pages."""
    for shown in (each for each in PAGES if each.has_picture):
        for scheme in ("light", "dark") if shown.name in DARK else ("light",):
            for name, size in SIZES.items():
                asked = "" if shown.is_open else secret
                with tab(browser, service, secret=asked, size=size, dark=scheme == "dark") as opened:
                    opened.open(shown.path)
                    picture = opened.page.screenshot(
                        full_page=not shown.name.startswith(LONG), animations="disabled"
                    )
                ending = "-dark" if scheme == "dark" else ""
                _save(picture, folder / f"{shown.name}-{name}{ending}.png")


def _save(picture: bytes, path: Path) -> None:
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE)
    image.save(path, optimize=True)


def main() -> None:
    """Start a service with some names, and write the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        running_service(
            f"sqlite:///{place}/registry.db",
            signup="open",
            log_level="error",
            **settings_of_pages(Path(place)),
        ) as service,
    ):
        secret = fill(service)
        with chromium() as browser:
            write(browser, service, secret, folder)
    pictures = list(folder.glob("*.png"))
    print(f"{len(pictures)} pictures, {sum(each.stat().st_size for each in pictures) // 1024} kB")


if __name__ == "__main__":
    main()
