"""Stand-ins for hosted services: what they refuse, as their documentation and users report it.

A rule gets the body of a request and returns an HTTP status and an error, or None if the service
would answer.
"""

from tests.support.fake_server import Body, Rule

OPENAI_FIELDS = {
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "seed",
    "temperature",
    "top_p",
    "stop",
    "logprobs",
    "top_logprobs",
    "response_format",
}
"""What this project sends that OpenAI's API knows; vLLM's further fields are unknown there."""


def openai_error(
    message: str, param: str | None = None, code: str | None = None
) -> Body:
    kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def openai_reasoning(body: Body) -> tuple[int, Body] | None:
    """OpenAI's o-series and GPT-5, which Azure serves with the same errors."""
    for name in sorted(body.keys() - OPENAI_FIELDS):
        return 400, openai_error(f"Unrecognized request argument supplied: {name}")
    if "max_tokens" in body:
        said = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )
        return 400, openai_error(said, "max_tokens", "unsupported_parameter")
    for name in ("top_p", "stop"):
        if name in body:
            said = f"Unsupported parameter: '{name}' is not supported with this model."
            return 400, openai_error(said, name, "unsupported_parameter")
    temperature = body.get("temperature", 1)
    if temperature != 1:
        said = (
            f"Unsupported value: 'temperature' does not support {temperature} with this model. "
            "Only the default (1) value is supported."
        )
        return 400, openai_error(said, "temperature", "unsupported_value")
    if "logprobs" in body:
        return 403, openai_error(
            "You are not allowed to request logprobs from this model"
        )
    if (
        body.get("max_completion_tokens", 4096) < 64
    ):  # all of them go into its reasoning
        said = (
            "Could not finish the message because max_tokens or model output limit was reached. "
            "Please try again with higher max_tokens."
        )
        return 400, openai_error(said)
    return None


def azure(*filtered: str) -> Rule:
    """Azure: OpenAI's models, behind a filter that stops some of a refusal benchmark's prompts."""

    def rule(body: Body) -> tuple[int, Body] | None:
        if body["messages"][-1]["content"] not in filtered:
            return openai_reasoning(body)
        said = (
            "The response was filtered due to the prompt triggering Azure OpenAI's content "
            "management policy. Please modify your prompt and retry."
        )
        return 400, openai_error(said, "prompt", "content_filter")

    return rule


def bedrock(body: Body) -> tuple[int, Body] | None:
    """Open-weight models on Bedrock's endpoints: only fields that OpenAI's reference has."""
    unknown = sorted(body.keys() - OPENAI_FIELDS)
    for name in [*unknown, *body.keys() & {"logprobs"}]:
        said = f"Validation error: extraneous key [{name}] is not permitted"
        return 400, {"message": said}
    return None


def litellm(body: Body) -> tuple[int, Body] | None:
    """LiteLLM's proxy before a GPT-5: it renames the limit, and refuses what the model refuses."""
    inner = dict(body)
    if "max_tokens" in inner:
        inner["max_completion_tokens"] = inner.pop("max_tokens")
    error = openai_reasoning(inner)
    if error is None:
        return None
    said = f"litellm.UnsupportedParamsError: {error[1]['error']['message']}"
    return 400, {
        "error": {"message": said, "type": "None", "param": None, "code": "400"}
    }


def claude(body: Body) -> tuple[int, Body] | None:
    """A gateway before recent Claude models, which take one of a pair of settings."""
    if "temperature" in body and "top_p" in body:
        said = (
            "`temperature` and `top_p` cannot both be specified for this model. Please use only "
            "one."
        )
        return 400, {"error": {"message": said, "type": "invalid_request_error"}}
    return None


def openrouter(body: Body) -> tuple[int, Body] | None:
    """OpenRouter before an OpenAI model: at least 16 tokens; other fields are ignored."""
    if body.get("max_tokens", 16) >= 16:
        return None
    raw = "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"
    error = {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": raw},
    }
    return 400, {"error": error}


def openrouter_strict(body: Body) -> tuple[int, Body] | None:
    """The same where the account routes only to endpoints that take all parameters."""
    if body.keys() & {"top_k", "top_p", "temperature", "logprobs", "return_token_ids"}:
        said = "No endpoints found that can handle the requested parameters."
        return 404, {"error": {"message": said, "code": 404}}
    return openrouter(body)
