"""What the model reads if a tool fails: sentences about parameters, not of the library that validates."""

from collections.abc import Mapping
from typing import Any, cast

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

from sublet_client import ApiError

_KINDS = {"string": "a text", "integer": "a whole number", "boolean": "true or false"}


def sentences_of(refusal: ApiError) -> str:
    """Return the sentence of a refusal, those of its fields, and what a payment would need."""
    if refusal.raw_quote:
        price, balance = refusal.raw_quote["price"], refusal.raw_quote["balance"]
        next_step = f"Ask the user; if they agree, call again with max_credits={price}."
        if balance < price:
            next_step = f"The user must buy {price - balance} credits first: `account` has the packages."
        begin = f"It costs {price} credits, and the balance is {balance}. Nothing was paid."
        return f"{begin} {next_step} ({refusal.code})"
    fields = [f"{each.field}: {each.message}" for each in refusal.errors]
    lines = [each for each in fields if each not in refusal.message]
    return "\n".join([f"{refusal.message} ({refusal.code})", *lines])


class ToolServer(MCPServer[None]):
    """A server that refuses wrong arguments in its own words, and parameters that a tool doesn't have."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool.

        Raises:
            ToolError: there is no such tool or parameter, an argument is missing or of the wrong type, or the
                tool failed.
        """
        schemas = {each.name: each.input_schema for each in await self.list_tools()}
        if name not in schemas:
            raise ToolError(f"There is no tool {name}. The tools are {', '.join(schemas)}.")
        parameters: dict[str, Any] = schemas[name].get("properties", {})
        for each in arguments:
            if each not in parameters:
                known = ", ".join(parameters) or "none"
                raise ToolError(f"{name} has no parameter {each}. Its parameters: {known}.")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_wrong_arguments(name, parameters, error.__cause__)) from None
            raise


def _wrong_arguments(tool: str, parameters: Mapping[str, Any], error: ValidationError) -> str:
    """Return what is wrong with the arguments of a tool, a sentence for each."""
    wrong: dict[str, str] = {}
    for each in error.errors():
        parameter = str(each["loc"][0])
        if each["type"] == "value_error":  # of `sublet_client.spelling`
            wrong[parameter] = f"`{parameter}`: {each.get('ctx', {}).get('error')}"
            continue
        is_missing = each["type"] == "missing" and len(each["loc"]) == 1
        verb = "is missing. It is" if is_missing else "must be"
        schema = parameters.get(parameter, {})
        wrong[parameter] = f"`{parameter}` {verb} {kind_of(schema)}. {schema.get('description', '')}".strip()
    return f"{tool} was not called, because arguments are wrong:\n" + "\n".join(wrong.values())


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return in words which values a JSON schema accepts."""
    if "anyOf" in schema:
        options = cast("list[dict[str, Any]]", schema["anyOf"])
        return " or ".join(kind_of(each) for each in options if each.get("type") != "null")
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if schema.get("type") == "array":
        return "a list of texts"
    if schema.get("type") == "object":
        return "an object with a list of texts for each key"
    least = f", at least {schema['minimum']}" if "minimum" in schema else ""
    return _KINDS.get(str(schema.get("type")), "another value") + least
