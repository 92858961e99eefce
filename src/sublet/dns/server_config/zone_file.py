"""The zone file that a primary starts from: SOA, apex NS, and the addresses of apex nameservers inside the zone."""

from sublet.dns.types import Apex


def initial_zone_file(apex: Apex) -> str:
    """Return the zone as a master file (RFC 1035, section 5), with absolute names, so that no `$ORIGIN` matters."""
    zone, ttl = f"{apex.zone}.", apex.ttl_seconds
    times = f"{apex.refresh_seconds} {apex.retry_seconds} {apex.expire_seconds} {apex.negative_ttl_seconds}"
    lines = [
        f"; The beginning of {zone} What is registered comes by dynamic updates, and the server keeps it from then on.",
        f"{zone} {ttl} IN SOA {apex.soa_mname}. {apex.soa_rname}. {apex.serial} {times}",
        *(f"{zone} {ttl} IN NS {host}." for host in apex.nameservers),
        *(f"{each.owner}. {each.ttl_seconds} IN {each.type} {each.rdata}" for each in apex.addresses),
    ]
    return "\n".join(lines) + "\n"
