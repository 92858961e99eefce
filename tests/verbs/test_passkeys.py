"""Add, use and remove passkeys, and recover from lost ones. In a browser: tests/contract/test_passkeys_in_a_browser.py."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from sublet.accounts.recent_sign_in import require_recent_sign_in
from sublet.accounts.users import suspend_user
from sublet.errors import (
    AccountSuspended,
    Conflict,
    PasskeyNotFound,
    SessionInvalid,
    SignInRequired,
    ValidationFailed,
)
from sublet.registry.delete_user import delete_user
from sublet.registry.erasure_store import find_mentions
from sublet.sign_in.add_passkey import PASSKEYS_MAX, add_passkey, offer_passkey
from sublet.sign_in.end_session import end_session
from sublet.sign_in.identify import identify_by_passkey
from sublet.sign_in.model import Browser, SignedIn
from sublet.sign_in.recovery import start_recovery, stop_recovery
from sublet.sign_in.remove_passkey import remove_passkey
from sublet.sign_in.store import find_recovery, list_passkeys
from support.authenticator import PRESENT, Authenticator
from support.hostile_input import NESTED if False else None  # noqa: E999
