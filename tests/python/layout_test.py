"""The structs that ctypes was told about are those of include/once/once.h, member for member."""
import ctypes
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from once import _library
from support import ROOT

HEADER = pathlib.Path(ROOT, "include", "once", "once.h")
STRUCTS = {"once_options": _library.Options, "once_request": _library.Request, "once_response": _library.Response,
           "once_work": _library.Work, "once_reply": _library.Reply, "once_claim_info": _library.ClaimInfo,
           "once_outcome": _library.Outcome, "once_log_line": _library.LogLine, "once_event": _library.Event,
           "once_bytes": _library.Bytes, "once_field": _library.Field, "once_text": _library.Text}
VALUES = {"ONCE_ABI_VERSION": _library.ABI_VERSION, "ONCE_OK": _library.OK, "ONCE_TIMEOUT": _library.TIMEOUT,
          "ONCE_BROKEN": _library.BROKEN, "ONCE_EVENT_REPLY": _library.REPLY, "ONCE_EVENT_LOG": _library.LOG,
          "ONCE_EVENT_CLAIM": _library.CLAIM, "ONCE_EVENT_OUTCOME": _library.OUTCOME, "ONCE_EVENT_PASS": _library.PASS,
          "ONCE_RESPONSE_BODY_NOT_KEPT": _library.BODY_NOT_KEPT, "ONCE_LOG_EVENTS": _library.LOG_EVENTS,
          "ONCE_EXECUTED": _library.ENDINGS.index("executed"), "ONCE_PASSED": _library.ENDINGS.index("passed"),
          "ONCE_SETTLED_UNRECORDED": _library.SETTLED.index("unrecorded"), "ONCE_HOLD": _library.ON_UNKNOWN["hold"]}


def said_by_python():
    lines = [f"{name} {value}" for name, value in VALUES.items()]
    for name, struct in STRUCTS.items():
        lines.append(f"{name} {ctypes.sizeof(struct)}")
        lines += [f"{name}.{member} {getattr(struct, member).offset}" for member, _ in struct._fields_]
    return lines


class Layout(unittest.TestCase):
    def test_structs_and_values_are_those_of_the_header(self):
        prints = [f'printf("{line.split()[0]} %zu\\n", (size_t){line.split()[0]});' for line in said_by_python()[:len(VALUES)]]
        for name, struct in STRUCTS.items():
            prints.append(f'printf("{name} %zu\\n", sizeof({name}));')
            prints += [f'printf("{name}.{member} %zu\\n", offsetof({name}, {member}));' for member, _ in struct._fields_]
        folder = pathlib.Path(tempfile.mkdtemp(prefix="once-layout-"))
        self.addCleanup(shutil.rmtree, folder)
        program = '#include <once/once.h>\n#include <stdio.h>\nint main(void) {\n' + "\n".join(prints) + "\nreturn 0;\n}\n"
        (folder / "layout.c").write_text(program)
        subprocess.run(["clang-19", "-I", ROOT / "include", folder / "layout.c", "-o", folder / "layout"], check=True)
        said = subprocess.run([folder / "layout"], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")
        self.assertEqual(said_by_python(), said[:-1])

    def test_every_function_of_the_header_is_declared(self):
        functions = set(re.findall(r"^ONCE_API [^;(]*?\*?(once_\w+)\(", HEADER.read_text(), re.MULTILINE))
        self.assertGreater(len(functions), 25)
        self.assertEqual(functions - {"once_hash_text"}, set(_library._SIGNATURES) | set(_library._OTHER_SIGNATURES))


if __name__ == "__main__":
    unittest.main()
