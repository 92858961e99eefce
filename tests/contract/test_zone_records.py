"""`sublet zone record`: the built-in name server answers with the operator's records at once."""

from support.running_service import RunningService


def test_the_operators_records_are_served(service: RunningService) -> None:
    def short(name: str, rdtype: str) -> list[str]:
        return service.dig(name, rdtype, "+short").splitlines()

    service.operator("domain", "add", "own.test")
    first_serial = short("own.test", "SOA")
    for owner, rdtype, values in (
        ("@", "CAA", ["0 issue letsencrypt.org"]),
        ("_psl", "TXT", ["https://example.net/pull/1; x"]),
        ("a.site", "A", ["192.0.2.7", "192.0.2.8"]),
        ("*.wild", "CNAME", ["a.site.own.test"]),
    ):
        words = [word for value in values for word in ("--value", value)]
        service.operator("zone", "record", "set", "own.test", "--owner", owner, "--type", rdtype, *words)
    assert short("own.test", "CAA") == ['0 issue "letsencrypt.org"']
    assert short("_psl.own.test", "TXT") == ['"https://example.net/pull/1; x"']
    assert sorted(short("a.site.own.test", "A")) == ["192.0.2.7", "192.0.2.8"]
    assert "status: NOERROR" in service.dig("site.own.test", "A"), "an empty non-terminal"
    assert sorted(short("any.wild.own.test", "A")) == ["192.0.2.7", "192.0.2.8", "a.site.own.test."]
    assert short("own.test", "SOA") != first_serial
    for owner, rdtype in (("@", "CAA"), ("_psl", "TXT"), ("a.site", "A"), ("*.wild", "CNAME")):
        service.operator("zone", "record", "remove", "own.test", "--owner", owner, "--type", rdtype)
    assert "status: NXDOMAIN" in service.dig("a.site.own.test", "A")
    assert short("own.test", "CAA") == []
