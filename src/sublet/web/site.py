"""The appearance of the pages from the operator's settings: name, colour, logo, contact."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from sublet.config import Settings, SettingsError

LOGO_MAX_BYTES = 64 * 1024
LIGHT_PAPER, DARK_PAPER = "#ffffff", "#121417"
"""The background colours of the stylesheet."""
CONTRAST_MIN = 4.5
"""The minimum contrast of text (WCAG 2.2, 1.4.3)."""


@dataclass(frozen=True, slots=True)
class Site:
    """The appearance. `logo` is the name of an asset, or empty. `assets` are the assets from the settings."""

    name: str
    contact: str
    imprint_url: str
    logo: str
    assets: dict[str, bytes]


def site_of(settings: Settings) -> Site:
    """Return the appearance of the pages.

    Raises:
        SettingsError: the logo can't be read, or is too large.
    """
    style = files("sublet.web").joinpath("assets", "console.css").read_text(encoding="utf-8")
    assets = {"console.css": (style + accents(settings.site_color)).encode()}
    icon = files("sublet.web").joinpath("assets", "icon.svg").read_bytes()
    assets["icon.svg"] = icon.replace(b"#3451d1", readable(settings.site_color, LIGHT_PAPER).encode())
    logo = ""
    if settings.site_logo:
        logo = "logo" + Path(settings.site_logo).suffix
        assets[logo] = _read_logo(Path(settings.site_logo))
    contact = settings.site_contact
    return Site(
        settings.site_name,
        f"mailto:{contact}" if "@" in contact and "://" not in contact else contact,
        settings.site_imprint_url,
        logo,
        assets,
    )


def accents(color: str) -> str:
    """Return the rules of the stylesheet for a colour, made readable on each background."""
    light, dark = readable(color, LIGHT_PAPER), readable(color, DARK_PAPER)
    return (
        f"\n:root {{ --accent: {light}; --accent-soft: {_mixed(light, LIGHT_PAPER, 0.92)}; --on-accent: {LIGHT_PAPER}; }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ --accent: {dark}; --accent-soft: {_mixed(dark, DARK_PAPER, 0.85)}; "
        f"--on-accent: {DARK_PAPER}; }} }}\n"
    )


def readable(color: str, paper: str) -> str:
    """Return a colour, mixed with black on a light background or white on a dark one until text in it is readable, also on its tint."""
    toward = "#000000" if _luminance(paper) > 0.5 else "#ffffff"
    for step in range(21):
        mixed = _mixed(color, toward, step / 20)
        if contrast(mixed, _mixed(mixed, paper, 0.85)) >= CONTRAST_MIN:
            return mixed
    return toward


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [each / 255 for each in _parts(color)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _mixed(color: str, other: str, share: float) -> str:
    """Return a colour mixed with a share of another colour."""
    pairs = zip(_parts(color), _parts(other), strict=True)
    return "#" + "".join(f"{round(one + (two - one) * share):02x}" for one, two in pairs)


def _parts(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _read_logo(path: Path) -> bytes:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"site_logo: can't read {path}: {error.strerror}") from error
    if len(body) > LOGO_MAX_BYTES:
        raise SettingsError(
            f"site_logo: {path} has {len(body)} bytes. Give a file of {LOGO_MAX_BYTES} at most"
        )
    return body
