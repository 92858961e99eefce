"""The groups of operations in the documentation, in its order."""

OPEN_ACCOUNT = "Open an account"
SIGN_IN = "Sign in"
SESSIONS = "Sessions and passkeys"
ACCOUNT = "Account and credits"
TOKENS = "Tokens"
ORGANIZATIONS = "Organizations"
SUBDOMAINS = "Subdomains"
RECORDS = "Records"
TICKETS = "Support tickets"

TAGS = {
    OPEN_ACCOUNT: "Requests that need no token, outside of the base path.",
    SIGN_IN: "Sign in with a browser by mail or passkey, or sign in a program.",
    SESSIONS: "The browsers in which the user is signed in, and the user's passkeys.",
    ACCOUNT: "The user of the token, and the account's credits.",
    TOKENS: "The tokens of the user, and what each may do.",
    ORGANIZATIONS: "Organizations share names and credits; each member has a role.",
    SUBDOMAINS: "Registered names and their delegation in the DNS.",
    RECORDS: "The records of names that have no nameservers.",
    TICKETS: "Questions to the operator of the service.",
}
"""The description of each group."""
