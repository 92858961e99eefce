"""The appearance of the pages from the operator's settings: name, colour, logo, contact."""

from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from sublet.config import Settings, SettingsError, contact_url

LOGO_MAX_BYTES = 64 * 1024
LIGHT_BACKGROUND, DARK_BACKGROUND = "#ffffff", "#121417"
"""The background colours of the stylesheet."""
CONTRAST_MIN = 4.5
"""The minimum contrast of text (WCAG 2.2, 1.4.3)."""


class Site(Struct, frozen=True):
    """The appearance of the pages.

    `logo` is the name of an asset, or empty. `assets` are made from the settings.
    """

    name: str
    contact: str
    imprint_url: str
    terms_url: str
    logo: str
    assets: dict[str, bytes]


def load_site(settings: Settings) -> Site:
    """Return the appearance of the pages.

    Raises:
        SettingsError: the logo can't be read, or is too large.
    """
    style = files("sublet.web").joinpath("assets", "console.css").read_text(encoding="utf-8")
    assets = {"console.css": (style + accent_rules(settings.site_color)).encode()}
    icon = files("sublet.web").joinpath("assets", "icon.svg").read_bytes()
    assets["icon.svg"] = icon.replace(
        b"#3451d1", readable_color(settings.site_color, LIGHT_BACKGROUND).encode()
    )
    logo = ""
    if settings.site_logo:
        logo = "logo" + Path(settings.site_logo).suffix
        assets[logo] = _read_logo(Path(settings.site_logo))
    return Site(
        settings.site_name,
        contact_url(settings.site_contact),
        settings.site_imprint_url,
        settings.site_terms_url,
        logo,
        assets,
    )


def accent_rules(color: str) -> str:
    """Return the CSS rules for an accent colour, adjusted to be readable on each background."""
    light, dark = readable_color(color, LIGHT_BACKGROUND), readable_color(color, DARK_BACKGROUND)
    return (
        f"\n:root {{ --accent: {light}; --accent-soft: {_mix(light, LIGHT_BACKGROUND, 0.92)}; --on-accent: "
        f"{LIGHT_BACKGROUND}; }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ --accent: {dark}; --accent-soft: "
        f"{_mix(dark, DARK_BACKGROUND, 0.85)}; "
        f"--on-accent: {DARK_BACKGROUND}; }} }}\n"
    )


def readable_color(color: str, background: str) -> str:
    """Mix a colour with black or white until text in it is readable on a background and on the colour's own
    tint.
    """
    toward = "#000000" if _luminance(background) > 0.5 else "#ffffff"
    for step in range(21):
        mixed = _mix(color, toward, step / 20)
        if contrast(mixed, _mix(mixed, background, 0.85)) >= CONTRAST_MIN:
            return mixed
    return toward


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [each / 255 for each in _channels(color)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _mix(color: str, other: str, share: float) -> str:
    """Return a colour mixed with a share of another colour."""
    pairs = zip(_channels(color), _channels(other), strict=True)
    return "#" + "".join(f"{round(one + (two - one) * share):02x}" for one, two in pairs)


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _read_logo(path: Path) -> bytes:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"site_logo: {path} can't be read: {error.strerror}. Check the path and its permissions."
        ) from error
    if len(body) > LOGO_MAX_BYTES:
        raise SettingsError(
            f"site_logo: {path} has {len(body)} bytes. Give a file of at most {LOGO_MAX_BYTES}."
        )
    return body
