"""What is typed is completed, in the real shells."""
import functools
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

import support

DEADLINE = 60
LOG_LEVELS = {"debug", "info", "warn", "error", "off"}
ZSH = r"""
fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D; PROMPT=; setopt no_beep
# Whatever would be offered is printed, each in a line of its own.
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return $?; fi
  local -a found
  builtin compadd -A found "$@"
  local word
  for word in $found; do print -r -- "<<$word>>"; done
  builtin compadd "$@"
}
ended() { print -r -- "<<""ended>>"; comppostfuncs=(ended) }
comppostfuncs=(ended)
bindkey '^I' expand-or-complete
cd %s
print -r -- "<<""ready>>"
"""


@functools.cache
def printed(shell):
    return subprocess.run([support.ONCE, "completion", shell], capture_output=True, text=True, check=True).stdout


class Shell:
    """What every shell must know; `complete` gives the words that it offers for what was typed."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-shell-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "once.yaml").touch()
        (self.folder / "other").mkdir()

    def complete(self, line):
        raise NotImplementedError

    def test_words(self):
        self.assertEqual(self.complete("once se"), {"serve", "send"})
        self.assertEqual(self.complete("once journal "), {"verify", "repair"})
        self.assertIn("completion", self.complete("once "))
        self.assertNotIn("manual", self.complete("once "))
        self.assertEqual(self.complete("once journal repair --y"), {"--yes"})
        self.assertEqual(self.complete("once serve --st"), {"--store"})
        self.assertEqual(self.complete("once serve --yes"), set())

    def test_values(self):
        self.assertEqual(self.complete("once simulate --store jou"), {"journal"})
        self.assertEqual(self.complete("once keys list --state unk"), {"unknown"})
        self.assertEqual(self.complete("once serve --config on"), {"once.yaml"})
        self.assertEqual({word.rstrip("/") for word in self.complete("once journal verify o")}, {"other"})
        self.assertTrue({word.removesuffix("=").split("=")[0] for word in self.complete("once serve --set log.")} >=
                        {"log.level", "log.format", "log.access"})
        self.assertEqual({word.split("=")[-1] for word in self.complete("once serve --set log.level=")}, LOG_LEVELS)
        self.assertEqual({word.split("=")[-1] for word in self.complete("once check --config a --set defaults.mode=sh")}, {"shadow"})


class Bash(Shell, unittest.TestCase):
    def complete(self, line):
        # As readline cuts it.
        words = re.findall(r"=|[^\s=]+", line)
        if line[-1] in " ":
            words.append("")
        script = printed("bash") + '\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _once; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())


class Fish(Shell, unittest.TestCase):
    def complete(self, line):
        script = printed("fish") + f"\ncomplete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True, cwd=self.folder,
                              env={**os.environ, "HOME": str(self.folder)})
        self.assertEqual(done.stderr, "")
        return {text.split("\t")[0] for text in done.stdout.splitlines()}


class Zsh(Shell, unittest.TestCase):
    def setUp(self):
        super().setUp()
        functions = pathlib.Path(tempfile.mkdtemp(prefix="once-zsh-"))
        self.addCleanup(shutil.rmtree, functions)
        (functions / "_once").write_text(printed("zsh"))
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.environ.update(TERM="dumb", HOME=str(functions))
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.addCleanup(self.end)
        (functions / "start").write_text(ZSH % (functions, self.folder))
        self.type(f"source {functions}/start\n")
        self.read_to("<<ready>>")

    def end(self):
        os.close(self.terminal)
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_to(self, mark):
        text = ""
        until = time.monotonic() + DEADLINE
        while mark not in text:
            ready, _, _ = select.select([self.terminal], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise AssertionError(f"zsh did not come to {mark}: {text[-2000:]}")
            text += os.read(self.terminal, 65536).decode(errors="replace")
        return text

    def complete(self, line):
        self.type("\x15" + line + "\t")
        return set(re.findall(r"<<(.*?)>>", self.read_to("<<ended>>"))) - {"ended"}


if __name__ == "__main__":
    unittest.main()
