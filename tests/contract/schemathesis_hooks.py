"""What the document says in words because JSON Schema has none for it: loaded by schemathesis, by name in its
configuration.
"""

from typing import Any

import schemathesis


@schemathesis.hook
def before_load_schema(_context: Any, raw_schema: dict[str, Any]) -> None:
    """Leave out the header that says for whom a session acts: schemathesis sends all schemes together, and a
    token may not have it.
    """
    schemes = raw_schema["components"]["securitySchemes"]
    (name,) = (each for each, scheme in schemes.items() if scheme.get("name") == "Sublet-Organization")
    del schemes[name]
    operations = [each for methods in raw_schema["paths"].values() for each in methods.values()]
    for each in (raw_schema, *operations):
        if "security" in each:
            each["security"] = [one for one in each["security"] if name not in one]


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Change no token, and write whole numbers without a fraction: for JSON Schema 1.0 is an integer, for the
    service it is none.

    The run must not revoke or restrict its own token; and a revoked one stays visible, which schemathesis
    takes for a fault.
    """
    if case.operation.path.startswith("/tokens/") and case.method != "GET":
        case.path_parameters["id"] = "999999"
    written = without_fractions(case.body)
    if repr(written) != repr(
        case.body
    ):  # 1 == 1.0; and schemathesis takes a body that is set again for another one
        case.body = written


def without_fractions(value: Any) -> Any:
    """Return the value with integers in place of whole numbers that would be written as `1.0`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [without_fractions(each) for each in value]
    if isinstance(value, dict):
        return {name: without_fractions(each) for name, each in value.items()}
    return value
