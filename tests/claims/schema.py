"""A JSON Schema checker for what docs/reference/openapi.json uses, and no more: an unknown keyword is an error of its own."""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
ANNOTATIONS = {"description", "default", "examples"}
TYPES = {"object": dict, "string": str, "integer": int, "boolean": bool, "array": list}


def resolve(node):
    while "$ref" in node:
        target = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = {**target, **{name: value for name, value in node.items() if name != "$ref"}}
    return node


def mistakes(schema, value, place="$"):
    """What is wrong with a value, as a list of texts."""
    schema = resolve(schema)
    found = []
    for keyword, wanted in schema.items():
        if keyword in ANNOTATIONS:
            continue
        check = CHECKS.get(keyword)
        if check is None:
            raise AssertionError(f"the checker does not know {keyword}")
        found += check(schema, wanted, value, place)
    return found


def check_type(_, wanted, value, place):
    fits = isinstance(value, TYPES[wanted]) and not (wanted == "integer" and isinstance(value, bool))
    return [] if fits else [f"{place} is no {wanted}: {value!r}"]


def check_required(_, wanted, value, place):
    missing = [name for name in wanted if isinstance(value, dict) and name not in value]
    return [f"{place} lacks {name}" for name in missing]


def check_properties(_, wanted, value, place):
    if not isinstance(value, dict):
        return []
    return [text for name, schema in wanted.items() if name in value
            for text in mistakes(schema, value[name], f"{place}.{name}")]


def check_additional(schema, wanted, value, place):
    assert wanted is False
    extra = set(value) - set(schema.get("properties", {})) if isinstance(value, dict) else ()
    return [f"{place} has {name}" for name in extra]


def check_one_of(_, wanted, value, place):
    results = [mistakes(each, value, place) for each in wanted]
    fitting = sum(not result for result in results)
    return [] if fitting == 1 else [f"{place} fits {fitting} of {len(wanted)}: {value!r}: {results}"]


def check_items(_, wanted, value, place):
    if not isinstance(value, list):
        return []
    return [text for index, each in enumerate(value) for text in mistakes(wanted, each, f"{place}[{index}]")]


def check_pattern(_, wanted, value, place):
    return [] if isinstance(value, str) and re.search(wanted, value) else [f"{place} is not {wanted}: {value!r}"]


def check_minimum(_, wanted, value, place):
    return [] if value >= wanted else [f"{place} is below {wanted}"]


def check_maximum(_, wanted, value, place):
    return [] if value <= wanted else [f"{place} is above {wanted}"]


def check_min_length(_, wanted, value, place):
    return [] if len(value) >= wanted else [f"{place} is too short"]


def check_max_length(_, wanted, value, place):
    return [] if len(value) <= wanted else [f"{place} is too long"]


CHECKS = {
    "type": check_type,
    "const": lambda _, wanted, value, place: [] if value == wanted and type(value) is type(wanted) else
    [f"{place} is not {wanted!r}"],
    "enum": lambda _, wanted, value, place: [] if value in wanted else [f"{place} is none of {wanted}"],
    "required": check_required,
    "properties": check_properties,
    "additionalProperties": check_additional,
    "oneOf": check_one_of,
    "items": check_items,
    "pattern": check_pattern,
    "minimum": check_minimum,
    "maximum": check_maximum,
    "minLength": check_min_length,
    "maxLength": check_max_length,
}


def operation(method, path):
    """The path's template and the operation, or None if the document has none."""
    for template, item in DOCUMENT["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", template)
        if re.fullmatch(pattern, path) and method.lower() in item:
            return template, item[method.lower()]
    return None


def check_response(method, path, status, content_type, body):
    """Raises unless the document says that this may be answered."""
    found = operation(method, path)
    if found is None:
        # What the document does not have is answered with a problem all the same.
        assert status in (400, 404, 405), (method, path, status)
        schema, wanted_type = {"$ref": "#/components/schemas/Problem"}, "application/problem+json"
    else:
        responses = found[1]["responses"]
        assert str(status) in responses, f"{method} {found[0]} may not answer {status}: {body!r}"
        content = resolve(responses[str(status)])["content"]
        (wanted_type, media), = content.items()
        schema = media["schema"]
    assert content_type == wanted_type, (method, path, status, content_type)
    wrong = mistakes(schema, json.loads(body))
    assert not wrong, (method, path, status, wrong)


def check_request(method, path, body):
    """What the document says of a request's body: [] if it may be sent."""
    content = operation(method, path)[1]["requestBody"]["content"]["application/json"]
    return mistakes(content["schema"], body)
