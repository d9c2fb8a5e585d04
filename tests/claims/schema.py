"""Responses held against docs/reference/openapi.json."""
import json
import pathlib
import re

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())


def mistakes(schema, value):
    """What is wrong with a value, as a list of texts."""
    validator = jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def resolve(node):
    while "$ref" in node:
        target = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


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
