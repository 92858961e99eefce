"""What the bench makes of its figures: ratios, growth, aims, tables and pictures; nothing is measured here."""

import json
from xml.etree import ElementTree as ET

import pytest
from speed.bare_sql import played
from speed.figures import Aim, Figure, Results, aims, as_json, growth, spread
from speed.hosts_time import processor_times, stolen_share
from speed.load import Request
from speed.pictures import pictures
from speed.recorder import Recorded, Statement
from speed.svg import draw_bars, draw_lines
from speed.table import BEGINS, ENDS, put_between, render


def registry(names: int, one: float, hello: float = 10_000.0, database: str = "SQLite") -> Results:
    return Results(
        database,
        names,
        [
            Figure("hello", "reference: bare hello", (hello, hello, hello)),
            Figure("one", "GET one name", (one, one, one), "hello", (hello, hello, hello)),
        ],
    )


def aim_of(results: list[Results], what: str) -> Aim:
    (found,) = [each for each in aims(results) if each.what == what]
    return found


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    # The machine was busy in the last round: that met both alike.
    figure = Figure("one", "GET one name", (400, 500, 50), "hello", (1000, 1000, 100))
    assert figure.ratio == 0.5
    assert figure.per_second == 400
    assert Figure("hello", "hello", (1.0,)).ratio is None


def test_the_spread_is_a_part_of_the_median() -> None:
    assert spread([90, 100, 120]) == pytest.approx(0.3)
    assert spread([0, 0]) == 0


def test_growth_leaves_the_machines_moods_out() -> None:
    # Half as fast, on a machine that was half as fast then: the same cost.
    assert growth(registry(1000, 400), registry(100_000, 200, hello=5000)) == {"one": pytest.approx(1.0)}
    assert growth(registry(1000, 400), registry(100_000, 200)) == {"one": pytest.approx(2.0)}
    # A busy moment in one round of three met both alike; what is held against hello twice has the one that was measured beside it.
    small, large = registry(1000, 400), registry(100_000, 400)
    small.figures.append(Figure("reply", "reply", (100, 110, 100), "bare", (500, 500, 500)))
    large.figures[:] = [
        Figure("hello", "reference: bare hello", (10_000, 1000, 10_000)),
        Figure("one", "GET one name", (200, 200, 200), "hello", (5000, 5000, 5000)),
        Figure("reply", "reply", (50, 5, 50), "bare", (500, 500, 500)),
    ]
    assert growth(small, large) == {"one": pytest.approx(1.0), "reply": pytest.approx(2.0)}


@pytest.mark.parametrize(
    ("database", "one", "met"), [("SQLite", 4500, True), ("SQLite", 4400, False), ("PostgreSQL", 2500, True)]
)
def test_reads_are_held_against_the_bare_hello(database: str, one: float, met: bool) -> None:
    assert aim_of([registry(1000, one, database=database)], "GET one name, of the bare hello").met is met


def test_more_clients_must_not_make_it_slower() -> None:
    results = registry(1000, 400)
    for clients, rate in ((1, 100.0), (16, 500.0), (64, 300.0)):
        results.figures.append(Figure(f"clients_{clients}", "register", (rate,)))
    what = "registrations a second at 1, 16, 64 clients"
    assert aim_of([results], what).met is False
    results.figures[-1] = Figure("clients_64", "register", (490.0,))
    assert aim_of([results], what).met is True
    # The machine slowed down from round to round, and while both were measured: in each round there were no fewer.
    results.figures[1:] = [
        Figure("one", "GET one name", (400, 400, 400), "hello", (10_000, 10_000, 10_000)),
        Figure("clients_1", "register", (100, 60, 100)),
        Figure("clients_16", "register", (500, 490, 300)),
        Figure("clients_64", "register", (505, 480, 290)),
    ]
    assert aim_of([results], what).met is True


def test_growth_and_memory_are_held_between_the_smallest_and_the_largest_registry() -> None:
    small, middle, large = registry(1000, 400), registry(100_000, 100), registry(1_000_000, 300)
    small.values["pss_serve"], large.values["pss_serve"] = 100.0, 120.0
    assert aim_of([large, small, middle], "GET one name: cost").found == "1.33 times"
    assert aim_of([large, small, middle], "memory of serve").met is False


def test_delays_have_their_limits() -> None:
    results = registry(1000, 400)
    results.values |= {"sweep_read_p99_ms": 20.4, "sweep_write_p99_ms": 90.0}
    assert aim_of([results], "… reads while a sweep runs").met is False
    assert aim_of([results], "… registrations while a sweep runs").met is True


def test_the_length_of_a_list_must_not_be_seen_in_its_statements() -> None:
    results = registry(1000, 400)
    results.values |= {"list_statements_10": 2, "list_statements_100": 3}
    assert aim_of([results], "statements of a list").met is False


def test_the_tables_have_every_figure_and_aim() -> None:
    text = render([registry(1000, 400), registry(100_000, 100)], "A run.")
    assert text.startswith("A run.")
    assert "| GET one name | 400 | 0% | hello | **0.04** |" in text
    assert "| GET one name | 1 | 4.00 |" in text
    assert "| GET one name: cost | SQLite, 1,000 to 100,000 | 4.00 times | ≤ 1.30 times | **no** |" in text


def test_the_tables_take_the_place_of_the_last_ones_and_of_nothing_else() -> None:
    page = f"# Speed\n\n{BEGINS}\nold\n{ENDS}\n\nWhat limits it\n"
    written = put_between(page, "new")
    assert written == f"# Speed\n\n{BEGINS}\n\nnew\n\n{ENDS}\n\nWhat limits it\n"
    assert put_between(written, "new") == written
    for broken in ("# Speed", page + page, f"{ENDS}{BEGINS}"):
        with pytest.raises(ValueError, match="needs the lines"):
            put_between(broken, "new")


def test_figures_are_plain_json() -> None:
    found = json.loads(json.dumps(as_json([registry(1000, 400)], {"run": "now"})))
    (one,) = [each for each in found["registries"][0]["figures"] if each["name"] == "one"]
    assert one["ratio"] == 0.04
    assert one["rounds"] == [400, 400, 400]
    assert found["aims"][0]["met"] is False


def texts(picture: str) -> list[str]:
    # Our own picture of a moment ago.
    root = ET.fromstring(picture)  # noqa: S314
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_bars_are_as_long_as_their_values() -> None:
    picture = draw_bars(
        'A "title" & <more>', ["a", "b", "none"], {"x": {"a": 1.0, "b": 0.5}}, aims={"a": 0.8}
    )
    assert {'A "title" & <more>', "a", "b", "1.00", "0.50"} <= set(texts(picture))
    assert "none" not in texts(picture)
    bars = [each for each in ET.fromstring(picture).iter() if each.get("height") == "14"]  # noqa: S314
    assert float(bars[0].attrib["width"]) == pytest.approx(2 * float(bars[1].attrib["width"]), rel=0.01)
    assert picture.count("stroke-dasharray") == 1


def test_lines_tell_their_names_and_last_values_and_leave_out_what_is_missing() -> None:
    picture = draw_lines(
        "Growth", [1000, 1_000_000], {"x": [1.0, 2.0], "y": [None, 1.98]}, across="names", aim=1.3
    )
    assert {"x  2.00", "y  1.98", "1,000", "1,000,000", "names"} <= set(texts(picture))
    assert picture.count("<circle") == 3


def test_pictures_load_nothing() -> None:
    sizes = [registry(1000, 400), registry(100_000, 300)]
    sizes[0].figures.append(Figure("clients_1", "register", (10.0, 10.0, 10.0)))
    sizes[0].values["read_p99_ms"] = 3.0
    drawn = pictures(sizes)
    assert set(drawn) == {"ratios", "clients", "delays", "growth-sqlite"}
    for picture in drawn.values():
        assert texts(picture)
        assert "href" not in picture
        assert "url(" not in picture
        assert picture.count("http") == 1, "the namespace alone"


def recorded(number: int) -> list[Recorded]:
    statements = (
        Statement(1, "SELECT name FROM users WHERE id = ?", (1,), given="Ada", is_read=True),
        Statement(2, "BEGIN IMMEDIATE"),
        Statement(2, "INSERT INTO names VALUES (?, ?)", (1, f"n{number}"), given=100 + number),
        Statement(2, "INSERT INTO terms VALUES (?, ?)", (100 + number, 1), given=100 + number),
        Statement(2, "INSERT INTO events VALUES (?)", (100 + number,)),
        Statement(2, "COMMIT"),
        Statement(1, "SELECT * FROM names WHERE id = ?", (100 + number,), is_read=True),
        Statement(1, "ROLLBACK"),
    )
    return [Recorded(Request("POST", "/"), 201, statements)]


def test_what_is_played_again_takes_the_ids_that_it_is_given() -> None:
    first, *_ = played([recorded(number) for number in range(3)])
    assert [part.commits for part in first] == [True, False]
    steps = [step for part in first for step in part.steps]
    assert [step.links for step in steps] == [(), (), ((0, 2),), ((0, 2),), ((0, 2),)]
    assert [step.gives for step in steps] == [False, True, False, False, False]


def test_requests_of_another_form_are_not_played() -> None:
    odd = [Recorded(Request("POST", "/"), 409, (Statement(1, "SELECT 1"),))]
    assert len(played([recorded(1), odd, recorded(2)])) == 2


def test_what_the_host_took_is_a_part_of_all_time() -> None:
    # user, nice, system, idle, iowait, irq, softirq, steal
    before, after = (100, 0, 10, 800, 5, 0, 5, 3), (150, 0, 20, 830, 5, 0, 6, 12)
    assert stolen_share(before, after) == pytest.approx(0.09)
    assert stolen_share(before, before) == 0
    assert len(processor_times()) == len(before)


def test_rounds_that_do_not_count_are_told() -> None:
    results = registry(1000, 400)
    results.values |= {"again": 2, "stolen": 0.001, "check_again": 1, "check_stolen": 0.002}
    told = "the host took 0.2% of the processors for others meanwhile, at most; 3 rounds don't count"
    assert told in render([results], "a run")


def test_what_the_bare_hello_waits_is_told_and_has_no_limit() -> None:
    results = registry(1000, 400)
    told = {"p50_ms": 0.4, "p99_ms": 30.0, "max_ms": 50.0, "rate": 900.0, "asked": 900.0, "late": 0.0}
    results.values |= {f"check_hello_{name}": value for name, value in told.items()}
    line = "… while the zone is checked: the bare hello in place of both, 900 of 900 a second: p50 0.4 ms, p99 30.0 ms, max 50.0 ms"
    assert f"- {line}\n" in render([results], "a run")
    assert all("30" not in each.found for each in aims([results]))
