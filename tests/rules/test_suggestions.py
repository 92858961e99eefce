import pytest

from sublet.web.start import suggest_labels


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (
            "my café & bar",
            ["my-cafe-bar", "mycafebar", "my-my-cafe-bar", "my-cafe-bar-home", "the-my-cafe-bar"],
        ),
        ("Straße 7", ["strasse-7", "strasse7", "my-strasse-7", "strasse-7-home", "the-strasse-7"]),
        ("blog", ["my-blog", "blog-home", "the-blog"]),
        ("ærø_", ["aero", "my-aero", "aero-home", "the-aero"]),
        ("- -", []),
        ("日本", []),
        ("a" * 63, []),
        ("xn--a", ["xna", "my-xn-a", "the-xn-a"]),
    ],
)
def test_suggestions(text: str, labels: list[str]) -> None:
    assert suggest_labels(text) == labels
