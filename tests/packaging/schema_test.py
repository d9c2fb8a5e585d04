"""docs/reference/once.schema.json accepts and refuses what the loader does, setting by setting, and every example file is valid.

The schema speaks of YAML 1.2, as editors read it, so files are read that way here: yes and off are words.
"""
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import unittest

import jsonschema
import yaml

import support

SCHEMA = json.loads((support.ROOT / "docs/reference/once.schema.json").read_text())
# A secret_file of any name is well formed; it need not be there.
WITH_SECRET = {**os.environ, "ONCE_SECRET": "0123456789abcdef"}
# Where the schema is only a sketch: it accepts all that the loader does, and more.
SKETCHED = {"admin_token", "include", "proxy_protocol.from", "store", "trusted_proxies"}
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZES = {"": 1, "B": 1, "KB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
ODD = ["", " ", "x", "0", "1", "7", "-1", "1.5", "01", "12345678901234567890123", "yes", "no", "true", "false", "on", "off", "none", "all", "auto",
       "null", "é", "a b", "POST", "post", "GET", "caller", "1.2", "1.3", "1.4", "2xx", "6xx", "200", "599", "600", "404", "409", "0404",
       "X-Key", "a:b", "a,b", "Bad Header", "a" * 100, "a" * 101, "/", "//", "/a", "/a/", "/a//b", "/a/*", "/a/**", "/**/a", "/a*", "/{id}/x", "/{i*d}", "/{}",
       "/.", "/a/..", "/a/.b", "/a?x", "/a#x", "/~0~1", "/~2", "/~", "a/b", "/\u00e9", "127.0.0.1:8080", "127.0.0.1:", "127.0.0.1", ":80", "host:65535",
       "host:65536", "host:000080", "host:00080", "[::1]:80", "[::1]", "[]:80", "[80]:80", "::1:80", "http://a", "http://a:9000/b", "https://a:443", "http://a:80",
       "http://a:0", "http://a/b?c", "http://A", "ftp://a", "unix:/a.sock", "unix:a.sock", "unix:", "unix:/" + "a" * 106, "unix:/" + "a" * 107, "unix:/a b",
       "https://app.example", "https://app.example/", "https://a://b", "://a", "*", "**", "app://x", "https://a@b", "http://[::1]:90",
       "header:X", "header:", "header:a b", "cookie:sid", "jwt:sub", "jwt:/a/b", "jwt:/a~b", "jwt:", "jwt:a b", "mtls:subject", "mtls:x", "client-ip", "json:/a", "json:a",
       "memory", "memory:", "journal", "journal:/x", "redis://a:1", "postgres://a/b", "mysql://a/b", "oracle://a/b", "10.0.0.0/8", "10.0.0.1/8", "unix", "::/0",
       "keep", "upstream", "api.internal:8080", "round_robin", "stripe", "ietf", "IETF", "a\tb", "a\nb", "w" * 64, "w" * 65, "w" * 200, "w" * 201, "w" * 1001,
       "/" + "p" * 999, "/" + "p" * 1000, "/etc/once/x"]


class Core(yaml.SafeLoader):
    """YAML 1.2: only true and false are truth values, only null, ~ and nothing are null."""


Core.yaml_implicit_resolvers = {}
for tag, pattern, first in (("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
                            ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
                            ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
                            ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""])):
    Core.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))
Core.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value, 10))


def validator(schema):
    return jsonschema.Draft202012Validator({**schema, "$defs": SCHEMA["$defs"]})


def errors_of(text):
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(yaml.load(text, Core))]


def leaves(schema, path=()):
    """(path, schema) of every setting below an object's schema."""
    for name, inner in schema["properties"].items():
        if "$ref" in inner:
            inner = SCHEMA["$defs"]["policy"]["properties"][name]
        if "properties" in inner:
            yield from leaves(inner, (*path, name))
        elif name not in ("routes", "upstreams", "tokens"):
            yield (*path, name), inner


def around(schema):
    """Texts at the limits that the schema's description names."""
    limits = re.search(r", (\d+)(\w*) to (\d+)(\w*)\.$", schema["description"])
    if not limits:
        return []
    durations = "a duration" in schema["description"]
    units = UNITS if durations else SIZES if "a size" in schema["description"] else {"": 1}
    values = set()
    for number, unit in ((limits[1], limits[2]), (limits[3], limits[4])):
        value = int(number) * units[unit]
        for step in units.values():
            values |= {(value // step + more, step) for more in (-1, 0, 1, 2)}
    names = {step: name for name, step in units.items()}
    return [f"{count}{names[step]}" for count, step in sorted(values) if count >= 0]


def forms(text):
    """How a value may be written: in quotes, and plain if YAML takes that for something else than a text."""
    yield json.dumps(text, ensure_ascii=False)
    if re.fullmatch(r"[a-z0-9.]+", text) and not isinstance(yaml.load(text, Core), str):
        yield text


def candidates(schema, odd):
    words = [word for form in (schema, *schema.get("anyOf", [])) for word in form.get("enum", [])]
    texts = list(dict.fromkeys([*odd, *around(schema), *(str(word) for word in words)]))
    written = list(dict.fromkeys(form for text in texts for form in forms(text)))
    if any(form.get("type") == "array" for form in schema.get("anyOf", [])):
        some = [form for text in odd for form in list(forms(text))[:1]]
        draw = random.Random(len(schema["description"]))
        written += ["[]", "[[a]]", "{a: b}", "[x, x]", "[POST, PATCH]", "[none]", "[none, POST]", "[all]", "[caller, path]", "[2xx, 404]", "[404, 404]"]
        written += ["[" + ", ".join(draw.sample(some, 2)) + "]" for _ in range(20)]
        written += ["[" + ", ".join(f"http://h{i}" for i in range(count)) + "]" for count in (64, 65)]
        written += ["[" + ", ".join(f"/p{i}" for i in range(count)) + "]" for count in (100, 101)]
    return [*written, "", "{}", "{a: b}", "[a, [b]]"]


def with_odd_values(settings):
    """Of settings that look alike the first gets everything odd, the others a part of it."""
    seen = set()
    draw = random.Random(1)
    for path, inner in settings:
        look = json.dumps({**inner, "description": "", "default": ""})
        yield path, inner, ODD if look not in seen else draw.sample(ODD, 20)
        seen.add(look)


class Sheet:
    """A file in which every setting has a line of its own, and settings may be there several times, in blocks."""

    def __init__(self, head):
        self.lines = ["not_a_setting: 1", *head]  # the first so that nothing but reading it is done
        self.at = {}

    def add(self, settings, values, block, head, indent):
        self.lines += head
        open_groups = ()
        for path, _ in settings:
            if path not in values:
                continue
            for depth, group in enumerate(path[:-1]):
                if open_groups[:depth + 1] != path[:depth + 1]:
                    self.lines.append(f"{indent}{'  ' * depth}{group}:")
            open_groups = path[:-1]
            self.lines.append(f"{indent}{'  ' * (len(path) - 1)}{path[-1]}: {values[path]}")
            self.at[len(self.lines)] = (block, path)

    def refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "once.yaml"
            file.write_text("\n".join(self.lines) + "\n")
            # Unlike check it does not look at what settings mean together.
            done = subprocess.run([support.FAST_ONCE, "sweep", "--config", str(file)], capture_output=True, text=True, errors="replace",
                                  env=WITH_SECRET)
        places = {int(match) for match in re.findall(r"^error: [^:]+:(\d+):", done.stderr, re.MULTILINE)}
        assert 1 in places, done.stderr
        return {place for line, place in self.at.items() if line in places}


class Agreement(unittest.TestCase):
    maxDiff = None

    def compare(self, schema, section=None, head=None, sketched=()):
        """Every setting with each of its candidates: as many in one file as there may be."""
        settings = list(leaves(schema))
        pools = {path: candidates(inner, odd) for path, inner, odd in with_odd_values(settings)}
        turns = max(map(len, pools.values()))
        values = [{path: pool[turn] for path, pool in pools.items() if turn < len(pool)} for turn in range(turns)]
        indent = "    " if section else ""
        refused = set()
        for first in range(0, turns, 50 if section else 1):
            sheet = Sheet([section] if section else [])
            for turn in range(first, min(first + 50, turns) if section else first + 1):
                needed = [] if not section or {("path",), ("servers",)} & values[turn].keys() else ["    path: /", "    servers: http://a"]
                needed = [line for line in needed if line.split(":")[0].strip() in schema["required"]] if needed else []
                sheet.add(settings, values[turn], turn, [head.format(turn), *needed] if section else [], indent)
            refused |= sheet.refused()
        self.check(settings, values, refused, sketched)

    def check(self, settings, values, refused, sketched):
        checks = {path: validator(inner) for path, inner in settings}
        wrong = []
        accepted = 0
        for turn, row in enumerate(values):
            for path, value in row.items():
                valid = checks[path].is_valid(yaml.load(f"value: {value}", Core)["value"])
                accepted += valid
                if valid == ((turn, path) in refused) and not (valid and ".".join(path) in sketched):
                    wrong.append(f"{'.'.join(path)}: {value[:90]}: the schema {'accepts' if valid else 'refuses'}, the loader does not")
        self.assertEqual(wrong, [])
        self.assertGreater(accepted, len(settings))
        self.assertGreater(len(refused), len(settings))

    def test_settings_of_the_process(self):
        self.compare({"properties": {name: inner for name, inner in SCHEMA["properties"].items() if name != "defaults"}}, sketched=SKETCHED)

    def test_settings_of_a_route(self):
        self.compare(SCHEMA["properties"]["routes"]["items"], "routes:", "  - # {}")

    def test_settings_of_an_upstream(self):
        self.compare(SCHEMA["$defs"]["upstream"], "upstreams:", "  u{}:")


class Files(unittest.TestCase):
    def test_the_schema_is_one(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_the_binary_prints_it(self):
        done = subprocess.run([support.ONCE, "config", "--schema"], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout), SCHEMA)

    def test_every_setting_says_what_it_is_for(self):
        for part in (SCHEMA, SCHEMA["$defs"]["policy"], SCHEMA["$defs"]["upstream"]):
            for path, inner in leaves(part):
                with self.subTest(setting=".".join(path)):
                    self.assertTrue(inner["description"])
                    self.assertIn("default", inner)
                    self.assertTrue("enum" in inner or "type" in inner or "anyOf" in inner)

    def test_every_configuration_in_the_repository_is_valid(self):
        files = {str(path): path.read_text() for path in support.configurations()}
        files["once config"] = subprocess.run([support.ONCE, "config"], capture_output=True, text=True, check=True).stdout
        self.assertGreaterEqual(len(files), 3)
        for name, text in files.items():
            with self.subTest(file=name):
                self.assertEqual(errors_of(text), [])

    def test_what_is_wrong_is_refused(self):
        wrong = ("listne: 1", "log: {level: loud}", "log: debug", "defaults: {ttl: 400d}", "defaults: {listen: off}", "defaults: {path: /a}",
                 "routes: [{methods: [POST]}]", "routes: {path: /}", "routes: [{path: a}]", "routes: [{path: /, ttl: 0s}]", "upstreams: http://a",
                 "upstreams: {a: {base_path: /x}}", "upstreams: {a b: http://a}", "upstreams: {a: }", "claims: {tokens: {a: [b]}}", "[]", "5", "threads: 0")
        for text in wrong:
            with self.subTest(text=text):
                self.assertNotEqual(errors_of(text), [])
                with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                    file.write(text)
                    file.flush()
                    done = subprocess.run([support.ONCE, "check", "--upstream", "http://a", "--config", file.name], capture_output=True, env=WITH_SECRET)
                self.assertEqual(done.returncode, 2, "the loader takes it")


if __name__ == "__main__":
    unittest.main()
