"""Header fields: the same values as the framework's own type finds."""

import pytest
from starlette.datastructures import Headers

from sublet.http.header_fields import HeaderFields

FIELDS = [
    (b"accept", b"text/html"),
    (b"authorization", b"Bearer \xe9"),
    (b"accept", b""),
    (b"x-empty", b""),
]


@pytest.mark.parametrize("name", ["accept", "authorization", "x-empty", "x-none", "Accept"])
def test_they_are_found_as_the_framework_finds_them(name: str) -> None:
    """All but the case of a name asked for, which is always lower here."""
    ours, theirs = HeaderFields(FIELDS), Headers(raw=FIELDS)
    if name.islower():
        assert ours.get(name) == theirs.get(name)
        assert ours.getlist(name) == theirs.getlist(name)
    assert (name in ours) == (name in theirs and name.islower())
