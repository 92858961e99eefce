"""Record the first two minutes at the console as an animated picture, docs/recording.png, for `make
recording`.
"""

import io
import re
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, Page, expect

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from support.chromium import Tab, chromium, outside, tab  # noqa: E402 - after the path is set
from support.console_client import newest_mail  # noqa: E402
from support.running_service import RunningService, running_service  # noqa: E402

FILE = ROOT / "docs" / "recording.png"
SIZE = (800, 560)
CAPTION_HEIGHT = 36
COLORS = 64
DOMAIN, LABEL, EMAIL = "example.net", "annas-cafe", "anna@example.org"
FQDN = f"{LABEL}.{DOMAIN}"


@dataclass
class Film:
    """The frames, each a picture with its duration in milliseconds."""

    frames: list[tuple[Image.Image, int]] = field(default_factory=list)
    caption: str = ""

    def show(self, page: Page, milliseconds: int) -> None:
        """Add what a page shows, above the caption."""
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        frame = Image.new("RGB", (SIZE[0], SIZE[1] + CAPTION_HEIGHT), "#16191d")
        frame.paste(shot, (0, 0))
        font = ImageFont.load_default(18)
        ImageDraw.Draw(frame).text((16, SIZE[1] + 7), self.caption, font=font, fill="#ffffff")
        self.frames.append((frame, milliseconds))

    def type(self, opened: Tab, label: str, text: str) -> None:
        """Add the frames in which a person types into a field."""
        for end in range(3, len(text) + 3, 3):
            opened.fill(label, text[:end])
            self.show(opened.page, 140)

    def save(self, path: Path) -> None:
        """Write the frames in few colours, the same in all frames."""
        sheet = Image.new("RGB", (SIZE[0], SIZE[1] * len(self.frames)))
        for number, (frame, _) in enumerate(self.frames):
            sheet.paste(frame, (0, SIZE[1] * number))
        palette = sheet.quantize(COLORS, Image.Quantize.MAXCOVERAGE)
        first, *others = (each.quantize(palette=palette, dither=Image.Dither.NONE) for each, _ in self.frames)
        durations = [each for _, each in self.frames]
        first.save(path, save_all=True, append_images=others, duration=durations, loop=0, optimize=True)


def record(browser: Browser, service: RunningService) -> Film:
    """Do what a newcomer does, from the search of a name to a name that works."""
    film = Film()
    with tab(browser, service, size=SIZE) as opened:
        page = opened.page
        film.caption = "1. Find a name"
        opened.open("/")
        film.show(page, 1500)
        film.type(opened, "Name", LABEL)
        opened.press("Search")
        film.show(page, 2000)

        film.caption = "2. Open an account: the code comes by mail"
        opened.press(f"Register {FQDN}")
        film.show(page, 1000)
        open_account(opened, service, film)

        film.caption = "3. Register the name"
        opened.open(f"/register?fqdn={FQDN}")
        film.show(page, 1800)
        page.get_by_role("button", name=f"Register {FQDN}").scroll_into_view_if_needed()
        film.show(page, 1500)
        opened.press(f"Register {FQDN}")
        film.show(page, 2000)

        film.caption = "4. Point it to a website"
        page.get_by_text("Website at a host name").click()
        film.show(page, 1000)
        film.type(opened, "Host name", f"{LABEL}.netlify.app")
        opened.press("Point it there")
        film.show(page, 2500)

        film.caption = "5. It works"
        opened.open(f"/names/{FQDN}")
        film.show(page, 2500)
    show_answer(browser, service, film)
    return film


def open_account(opened: Tab, service: RunningService, film: Film) -> None:
    """Open an account with the code of the mail."""
    film.type(opened, "E-mail address", EMAIL)
    expect(opened.page.locator("#challenge")).not_to_have_value("", timeout=60_000)
    opened.press("Mail me a code")
    film.show(opened.page, 1200)
    code = re.findall(r"your code is (\d{6})", outside(newest_mail, service, EMAIL))[0]
    film.type(opened, "Code of six digits", code)
    opened.press("Go on")
    film.show(opened.page, 1200)


def show_answer(browser: Browser, service: RunningService, film: Film) -> None:
    """Add the real answer of the name server, as in a terminal."""
    found = service.dig(FQDN, "A", "+noall", "+answer")
    page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
    page.set_content(
        "<pre style='background:#16191d;color:#fff;height:100vh;margin:-8px;padding:24px;font:19px "
        "monospace'></pre>"
    )
    answer = "\n".join(" ".join(line.split()) for line in found.splitlines() if line)
    page.locator("pre").evaluate(
        "(pre, text) => { pre.textContent = text }", f"$ dig +noall +answer {FQDN}\n{answer}"
    )
    film.show(page, 4000)
    page.close()


def make(path: Path) -> int:
    """Start a service, write the recording, and return its number of frames."""
    with (
        tempfile.TemporaryDirectory() as place,
        running_service(f"sqlite:///{place}/registry.db", signup="open", log_level="error") as service,
    ):
        service.add_domain(
            DOMAIN, "--description", "Names for people and projects of the valley.", "--records", "on"
        )
        with chromium() as browser:
            film = record(browser, service)
    film.save(path)
    return len(film.frames)


def main(words: Iterable[str]) -> None:
    """Write the recording to the path of the command line, or to docs/."""
    path = Path(next(iter(words), FILE))
    print(f"{make(path)} frames, {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
