import pytest

from sublet.counted import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 names"), (1, "1 name"), (2, "2 names"), (12_345, "12,345 names")]
)
def test_counted(count: int, text: str) -> None:
    assert counted(count, "name") == text
