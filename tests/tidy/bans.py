"""What must not be in the tree, and what to use instead. `bans.py --self-test` proves that every ban fires."""
import dataclasses
import re
import sys

import sources

# From the lowest to the highest; a layer includes only itself and what stands before it.
LAYERS = ("base", "core", "client", "store", "guard", "http", "gateway", "claims", "admin", "config", "gate", "cli")
MOST_LINES = 600

PRODUCT = ("src/", "include/")
EVERYWHERE = tuple(f"{folder}/" for folder in sources.FOLDERS)


@dataclasses.dataclass(frozen=True)
class Ban:
    name: str
    pattern: str  # matched line by line, in C++ without its comments and the content of its strings
    instead: str
    bad: str  # a line that must be found
    good: str = "int x = 0;"  # one that must not
    folders: tuple = PRODUCT
    but: tuple = ()  # files or folders where it is allowed
    raw: bool = False  # look at comments and strings too
    comments: bool = False  # look at comments only, each joined to one line
    suffixes: tuple = sources.CPP



def wording(name, pattern, instead, bad, good):
    """An idiom that has no place in a comment, and the usual words for it."""
    return Ban(name, rf"(?i){pattern}", instead, f"// {bad}", f"// {good}\nint x = 0;", folders=(*PRODUCT, "sim/", "bindings/"),
               comments=True, suffixes=(*sources.CPP, ".h", ".cc"))


BANS = (
    Ban("asks-the-time", r"\b(system_clock|steady_clock|high_resolution_clock)::now|\bclock_gettime\(|\bgettimeofday\(",
        "take a Time or a const Clock& (base/clock.hpp)", "auto t = std::chrono::steady_clock::now();",
        "auto t = clock.now();", but=("src/base/clock.cpp",)),
    Ban("own-randomness", r"(?<![\w.>])(std::)?s?rand\(|\brandom_device\b|\bmt19937|\bgetrandom\(",
        "take a Random& (base/random.hpp)", "int x = rand();", "auto x = random.nonce();", but=("src/base/random.cpp",)),
    Ban("catch-all", r"catch\s*\(\s*\.\.\.\s*\)", "catch the driver's own exception type, at its edge",
        "} catch (...) {", "} catch (const YAML::Exception& e) {", but=("src/guard/caught.cpp",)),
    Ban("getenv", r"\bgetenv\(", "take an Environ (config/prepare.hpp); only cli/ and gate/ read the environment",
        'const char* x = std::getenv("X");', but=("src/cli/", "src/gate/environment.cpp")),
    Ban("sleeps", r"this_thread::sleep|\busleep\(|\bnanosleep\(|(?<![\w:.>])::sleep\(",
        "co_await sleep_for(executor, …), or wait for the thing itself with a deadline",
        "std::this_thread::sleep_for(50ms);", "co_await sleep_for(executor, 50ms);", folders=EVERYWHERE),
    Ban("to-do", r"\b(TODO|FIXME|XXX)\b", "do it now, or open an issue", "// TODO: later", "// why",
        folders=EVERYWHERE, raw=True, suffixes=(*sources.CPP, ".py", ".js", ".txt", ".cmake"), but=("tests/tidy/",)),
    Ban("prints", r"\bstd::(cout|cerr|clog)\b|(?<!\w)(std::)?f?(printf|puts)\(|\bfmt::print",
        "take a const Log& (base/log.hpp); only cli/ talks to the terminal", 'std::printf("x");',
        "std::snprintf(a, b, c);", but=("src/cli/", "src/base/assert.cpp")),
    Ban("plain-assert", r"(?<![\w_])assert\(|<cassert>", "ONCE_ASSERT (base/assert.hpp): it holds in release too",
        "assert(x);", "static_assert(x);"),
    Ban("sockets", r"#\s*include\s*<(sys/socket\.h|sys/epoll\.h|netinet/|arpa/inet\.h|netdb\.h)",
        "the types of http/; it alone knows sockets", "#include <sys/socket.h>", "#include <sys/stat.h>",
        but=("src/core/host.cpp", "src/http/", "src/store/redis/", "src/store/postgres/connection.cpp",
             "src/store/server/cutter.cpp", "src/store/server/discard_unsent.cpp")),
    Ban("network-calls", r"(?<![\w>])::(recv|recvfrom|recvmsg|send|sendto|sendmsg|accept4?|epoll_\w+|shutdown)\(",
        "the loop's Net (http/net.hpp): the simulator has one of its own", "::recv(fd, room, size, 0);",
        "net.receive(fd, room);", folders=("src/http/", "src/gateway/", "src/admin/", "src/claims/"),
        but=("src/http/kernel_net.cpp", "src/http/activation.cpp")),
    Ban("yaml", r"#\s*include\s*<yaml-cpp/", "parse_yaml() (config/yaml.hpp): exceptions end there",
        "#include <yaml-cpp/yaml.h>", but=("src/config/yaml.cpp",)),
    Ban("deprecated-openssl", r"OPENSSL_SUPPRESS_DEPRECATED|Wdeprecated-declarations", "Sha256 and HmacSha256 (base/sha256.hpp)",
        "#define OPENSSL_SUPPRESS_DEPRECATED", but=("src/base/sha256.hpp", "src/base/sha256.cpp")),
    Ban("using-namespace-in-header", r"^\s*using\s+namespace\b", "full names: every includer would get all of it",
        "using namespace std;", "using std::string;", folders=EVERYWHERE, suffixes=(".hpp",),
        but=("src/base/layers.hpp", "tests/unit/support/layers.hpp")),
    Ban("public-namespace", r"^namespace once \{", "the namespace of the folder (base/layers.hpp); once:: is the public API",
        "namespace once {", "namespace once::core {", folders=("src/", "sim/", "tests/", "bench/"),
        but=("src/base/layers.hpp", "tests/unit/support/layers.hpp", "tests/consumer/", "tests/mutation/mutant.hpp")),
    wording("unnamed-subject", r"\b(nobody|somebody|everybody|anybody|whoever|those who)\b",
            "the subject: the client, the owner, an operator, another process", "nobody waits for this",
            "no client waits for this"),
    wording("told", r"\b(is|are|was|were|be|been|being) (told|said)\b|\bwhat (was|is) said\b",
            "sent, answered, reported, notified or logged", "the owner is told", "the owner is notified"),
    wording("at-work", r"\bat work\b", "running, executing, in progress or busy", "requests at work", "requests in progress"),
    wording("goes-on", r"\b(goes|go|going|went) on\b", "continues", "the request goes on", "the request continues"),
    wording("as-it-may", r"\bas (much|many|long|large) as (it|they|one|there) (may|can)( be)?\b", "up to its limit",
            "as much as it may", "up to its limit"),
    wording("one-of-both", r"\bone of both\b", "name the two", "notified when one of both has ended", "notified when it ends"),
    wording("ours", r"\b(is|are|was|were) (ours|theirs|mine)\b", "granted, or the owner by its name", "the claim is ours",
            "the claim was granted"),
    wording("became-of", r"\bwhat (becomes|became|comes|came) of\b", "the result, state or outcome of", "what became of a try",
            "the result of a try"),
    wording("is-none", r"\b(that|which) (is|are) none\b", "malformed, invalid, unknown or absent", "a field that is none",
            "a malformed field"),
    wording("tell-apart", r"\b(tell|told|tells|know|known)s? .{0,20}\bapart\b", "distinguish, or share one bucket",
            "sizes that are not told apart", "sizes that share one bucket"),
    wording("of-no-use", r"\bof no (use|interest)\b", "obsolete, ignored or useless", "half of the log is of no use",
            "half of the log is obsolete"),
    wording("as-it-stands", r"\b(as|where|what) (it|they) (stand|stands|stood|comes?|came)\b", "unchanged, its position, on arrival",
            "the value as it stands", "the value, unchanged"),
    wording("once-more", r"\bonce more\b", "again", "looked up once more", "looked up again"),
    wording("in-vain", r"\bin vain\b", "the failure: not reached, refused, timed out", "tried in vain", "tried, but not reached"),
    wording("true-means", r"\b(true|false): ", "an enum whose values say it, or \"Whether …\" for a predicate",
            "False: the store is full.", "Whether the store has room."),
)

TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def without_comments(text):
    """Same lines, but comments gone and strings empty. The name in an #include stays."""

    def blank(match):
        token = match.group(0)
        line_begin = text.rfind("\n", 0, match.start()) + 1
        if token.startswith('"') and text[line_begin:match.start()].lstrip().startswith("#"):
            return token
        return "\n" * token.count("\n") if token.startswith("/") else '""' + "\n" * token.count("\n")

    return TOKENS.sub(blank, text)


def comments_of(text):
    """(line, text) of every comment; the lines of one that wraps are joined."""
    begin, joined = 0, ""
    code_ends = None  # where the last comment ended
    for match in TOKENS.finditer(text):
        token = match.group(0)
        if not token.startswith("/"):
            continue
        words = " ".join(line.strip().lstrip("/*").removesuffix("*/").strip() for line in token.splitlines())
        if joined and not text[code_ends:match.start()].strip() and text.count("\n", code_ends, match.start()) == 1:
            joined += " " + words
        else:
            if joined:
                yield begin, joined
            begin, joined = text.count("\n", 0, match.start()) + 1, words
        code_ends = match.end()
    if joined:
        yield begin, joined


def applies(ban, path):
    return path.endswith(ban.suffixes) and path.startswith(ban.folders) and not path.startswith(ban.but or ("\0",))


def layer_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def layer_findings(path, code):
    layer = layer_of(path)
    if layer is None:
        return
    if layer not in LAYERS:
        yield 1, f"src/{layer} is not a layer; add it to LAYERS in tests/tidy/bans.py, in its place"
        return
    for number, line in enumerate(code.splitlines(), 1):
        included = re.match(r'\s*#\s*include\s+"(\w+)/', line)
        if included and included[1] in LAYERS and LAYERS.index(included[1]) > LAYERS.index(layer):
            yield number, f"{layer} includes {included[1]}, which is above it; pass what it needs as a value or a port"


def findings(path, text):
    """(line, what) for everything wrong with a file."""
    is_cpp = path.endswith((*sources.CPP, ".h"))
    code = without_comments(text) if is_cpp else text
    comments = list(comments_of(text)) if is_cpp else []
    for ban in BANS:
        if applies(ban, path):
            for number, line in comments if ban.comments else enumerate((text if ban.raw else code).splitlines(), 1):
                if re.search(ban.pattern, line):
                    yield number, f"{ban.name}: instead, {ban.instead}"
    yield from layer_findings(path, code)
    if text.count("\n") > MOST_LINES:
        yield MOST_LINES, f"longer than {MOST_LINES} lines: split it by what it is about"
    if path.endswith(".hpp") and "#pragma once" not in text:
        yield 1, "a header begins with #pragma once"


def self_test():
    for ban in BANS:
        path = f"{ban.folders[0]}base/sample{ban.suffixes[0]}"
        found = [what for _, what in findings(path, f"#pragma once\n{ban.bad}\n")]
        assert any(what.startswith(ban.name + ":") for what in found), f"{ban.name} does not fire on: {ban.bad}"
        found = [what for _, what in findings(path, f"#pragma once\n{ban.good}\n")]
        assert not any(what.startswith(ban.name + ":") for what in found), f"{ban.name} fires on: {ban.good}"
        for allowed in ban.but:
            allowed_path = allowed + ("sample.cpp" if allowed.endswith("/") else "")
            assert not any(what.startswith(ban.name + ":") for _, what in findings(allowed_path, f"{ban.bad}\n")), ban.name
    assert list(findings("src/core/a.cpp", '#include "store/store.hpp"\n')), "a lower layer may not include a higher one"
    assert not list(findings("src/store/a.cpp", '#include "core/record.hpp"\n'))
    assert not list(findings("src/core/a.cpp", '// #include "store/store.hpp"\n'))
    assert list(findings("src/new/a.cpp", "\n")), "an unknown layer is found"
    assert list(findings("src/base/a.cpp", "\n" * (MOST_LINES + 1))), "a long file is found"
    assert list(findings("src/base/a.hpp", "int x;\n")), "a header without #pragma once is found"
    assert not list(findings("src/base/a.cpp", '// rand()\nauto x = "std::cout"; /* getenv( */\n'))
    raw_string = 'auto x = R"(catch (...)\n)";\nint y = rand();\n'
    assert [line for line, _ in findings("src/base/a.cpp", raw_string)] == [3], "lines are counted through strings"
    assert list(findings("src/base/a.cpp", "int x;  // the owner is\n        // told\n")), "a comment that wraps is joined"
    assert not list(findings("src/base/a.cpp", "// the owner is\nint told;\n// told\n"))
    assert not list(findings("src/base/a.cpp", 'auto x = "nobody";\n'))
    print(f"{len(BANS)} bans fire")


def main():
    found = 0
    paths = [path for path in sources.tracked((*sources.CPP, ".h", ".py", ".js", ".txt", ".cmake"))]
    for path in paths:
        for line, what in findings(str(path), (sources.ROOT / path).read_text()):
            print(f"{path}:{line}: {what}")
            found += 1
    if not paths:
        sys.exit("no sources found")
    if found:
        sys.exit(f"{found} findings in {len(paths)} files")
    print(f"{len(paths)} files, none of {len(BANS)} bans broken")


if __name__ == "__main__":
    self_test() if "--self-test" in sys.argv[1:] else main()
