"""HTTP clients without TLS, which wait a minute for an answer.

Loading the trusted certificates takes longer than most tests, and no server here has a certificate.
"""

import ssl
from functools import partial

import httpx

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

Client = partial(httpx.Client, verify=NO_TLS, trust_env=False, timeout=60)
AsyncClient = partial(httpx.AsyncClient, verify=NO_TLS, trust_env=False, timeout=60)
get = partial(httpx.get, verify=NO_TLS, trust_env=False, timeout=60)
post = partial(httpx.post, verify=NO_TLS, trust_env=False, timeout=60)
