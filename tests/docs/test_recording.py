"""docs/recording.png is an animated picture of bearable size, and can be made again."""

from pathlib import Path

import pytest
from console_recording import CAPTION_HEIGHT, FILE, SIZE, make
from PIL import Image

MAX_BYTES = 500_000


def check(path: Path) -> int:
    """Check a recording, and return its number of frames."""
    assert path.stat().st_size < MAX_BYTES
    with Image.open(path) as found:
        assert found.format == "PNG"
        assert found.size == (SIZE[0], SIZE[1] + CAPTION_HEIGHT)
        return int(getattr(found, "n_frames", 1))


def test_the_recording_is_there() -> None:
    assert check(FILE) > 20


@pytest.mark.whole
def test_the_recording_can_be_made_again(tmp_path: Path) -> None:
    path = tmp_path / "recording.png"
    frames = make(path)
    # Equal frames in a row are one in the file.
    assert frames - 3 <= check(path) <= frames
