"""Refusals of the API in the words of pages: the API's are for programs, which send requests, and people fill in forms."""

import re

_SAME_KEY = "This was done already with other values. Open the page again."
_PHRASES = (
    (r"The resource has changed: .* the new `ETag`\.", "It has changed since you opened this page. Open it again."),
    (r"This Idempotency-Key was used for another request\..*", _SAME_KEY),
    (r"A request with this Idempotency-Key is still running\..*", "This is still running. Try again in a moment."),
    (r"If you sent an Idempotency-Key, .* Otherwise check the result first\.", "Look at the result first."),
    (r"You sent more than (\S+) `\w+` requests in a minute", r"More than \1 actions in a minute are too many"),
    (r"This (\w+) sent more than (\S+) requests in a minute", r"This \1 loaded more than \2 pages in a minute"),
    (r"(\S+) of your requests are querying name servers\. Wait until one of them is answered\.",
     r"\1 of your checks are running. Wait until one of them ends."),
    (r"Too many requests are querying name servers\.", "Too many checks are running."),
    (r"only owners may send this request\. Ask an owner to send it\.", "only owners may do this. Ask an owner to do it."),
    (r"then send \{\"confirm\": .*?\}\.?", "then type your address."),
    (r"[Tt]o accept the price, send the request with a higher `max_credits`\.", "To accept the price, confirm it."),
    (r"then send the same request again\.", "then try again."),
    (r"then send \S+.*", "then confirm it."),
    (r"Send POST /\S+ to create", "Create"),
    (r"sent (\S+) invitations", r"mailed \1 invitations"),
    (r" is missing; send it", " is missing"),
    (r"is missing; send it", "is missing"),
    (r"or send PUT …/nameservers\.", "or set the nameservers here."),
    (r"send PUT …/nameservers\.", "set the nameservers here."),
    (r"Send (?:the request|it|them) (?:again )?without (?:a |the )?`?(\w+)`?", r"Leave out the \1"),
    (r"[Ss]end (?:the request|the form|it|this) again", "Try again"),
    (r"[Tt]his request (needs|took|can|is about)", r"This \1"),
    (r"doesn't allow this request", "doesn't allow this"),
    (r"the token of (?:this|the) request", "your token"),
    (r"from all requests", "from all people"),
    (r"(\w+) requested more than", r"\1 asked for more than"),
    (r"was requested", "was asked for"),
    (r"requested (a|the|these)", r"asked for \1"),
    (r"requests (its|the|a)\b", r"asks for \1"),
    (r"The zone's request\b", "What the zone asks for"),
    (r"the request\b", "what it asks for"),
    (r"that the zone requests", "that the zone asks for"),
    (r"that it requests", "that it asks for"),
    (r"its request is deleted", "it is gone"),
    (r"query parameter", "filter"),
    (r"\b([Pp])arameter", r"\1art of the address"),
    (r"is sent together with", "is given together with"),
    (r"must be sent", "must be given"),
    (r"was sent\b", "was given"),
    (r"were sent\b", "were given"),
    (r"you sent\b", "you gave"),
    (r"\bSend\b", "Give"),
    (r"\bsend\b", "give"),
    (r"\b[Ss]ends?\b", "gives"),
    (r"\bRepeat\b", "Do it again:"),
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern), words) for pattern, words in _PHRASES)
_PLANS = {"mode": "plan", "modes": "plans", "Mode": "Plan", "Modes": "Plans"}
_MODE = re.compile(r"\b[Mm]odes?\b")
FOR_PROGRAMS = re.compile(r"\b(?:send|sends|sent|requests?|requested|repeat|parameters?)\b", re.IGNORECASE)
"""Words that pages don't use for what a person does."""


def in_words_of_pages(text: str) -> str:
    """Return a message of the API as a page says it."""
    if FOR_PROGRAMS.search(text):
        for pattern, words in _COMPILED:
            text = pattern.sub(words, text)
    return _MODE.sub(lambda found: _PLANS[found[0]], text)
