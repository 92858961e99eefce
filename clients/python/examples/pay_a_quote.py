"""Show what a name costs, and register it if that is not too much: python pay_a_quote.py NAME MAX_CREDITS"""

import sys

from sublet_client import Client, InsufficientCredits, PriceChanged


def main(fqdn: str, max_credits: str) -> None:
    """Pay at most `max_credits`."""
    with Client.from_environment() as client:
        quote = client.subdomains.quote(fqdn, registration_mode="plus")
        print(f"{fqdn} costs {quote.price} credits")
        try:
            done = quote.confirm(max_credits=int(max_credits))
        except (PriceChanged, InsufficientCredits) as refusal:
            sys.exit(f"Nothing was paid: {refusal.message}")
        print(f"paid {done.charged_credits}, until {done.subdomain.expires_at:%Y-%m-%d}")


if __name__ == "__main__":
    main(*sys.argv[1:])
