"""`sublet user delete` and `sublet domain remove`: what they print."""

from pathlib import Path

from support.commands import answer, run
from support.operator_registry import ANNA, BOB, small_registry

REMOVE = ("domain", "remove", "example.test")


def test_a_platform_domain_closes_at_a_date_and_is_removed(tmp_path: Path) -> None:
    url = small_registry(tmp_path).url
    said = answer(url, *REMOVE, "--names-until", "2099-12-31")
    assert (said["names_until"], said["mails"]) == ("2099-12-31T00:00:00Z", 1)
    assert "2099-12-31 00:00 UTC" in run(url, "domain", "list")
    assert "stays open" in run(url, *REMOVE, "--withdraw")
    run(url, *REMOVE, "--withdraw", "--names-until", "2099-12-31", expect=2)
    run(url, "domain", "add", "empty.test", "--closed")
    assert "empty.test is removed." in run(url, "domain", "remove", "empty.test")
    assert [each["domain"] for each in answer(url, "domain", "list")] == ["example.test"]


def test_a_deletion_reports_the_rows_that_remain(tmp_path: Path) -> None:
    url = small_registry(tmp_path).url
    assert "Give --yes to do it." in run(url, "user", "delete", ANNA, "--trash-names", expect=1)
    said = run(url, "user", "delete", ANNA, "--trash-names", "--yes")
    assert "The user 1 is deleted: 2 names to the trash, 90 credits forfeited." in said
    assert "- 3 transfers, because the ledger must balance." in said
    assert [each["email"] for each in answer(url, "user", "list")] == [BOB]
    assert answer(url, "user", "show", "1")["name"] == "Deleted user"
    run(url, "user", "add", ANNA, "--name", "Anna")
