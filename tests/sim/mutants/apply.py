"""Writes a copy of one source with the hunks of all given mutants in it. The build calls it for every source that a patch
touches, so a patch that no longer fits fails the build.

apply.py ROOT SOURCE COPY PATCH…    SOURCE is relative to ROOT, as patches name it

Each patch is placed by itself in the original: what it removes and its context must be found there exactly once; the line
numbers of the hunk do not matter. So neighbouring mutants do not disturb each other, and none lands at a wrong place.
"""
import dataclasses
import pathlib
import re
import sys


class Unfit(Exception):
    """What is wrong with a patch, in one line that names it."""


@dataclasses.dataclass(frozen=True)
class Edit:
    patch: str
    begin: int  # lines of the original that are replaced: [begin, end)
    end: int
    lines: tuple


def hunks_of(patch, text, source):
    """The hunks for `source`, each a list of diff lines."""
    name = pathlib.PurePath(patch).stem
    before, found, files = text.split("\n--- a/", 1)[0], [], re.split(r"^--- a/", text, flags=re.MULTILINE)[1:]
    if not files or not before.strip() or before.startswith("---"):
        raise Unfit(f"{patch}: begins with a line that says which promise it breaks, then a unified diff")
    if f'mutant("{name}")' not in text:
        raise Unfit(f'{patch}: has no mutant("{name}") to switch it on')
    for file in files:
        head, *parts = re.split(r"^@@[^\n]*\n", file, flags=re.MULTILINE)
        if head.split("\n", 1)[0].strip() == source:
            found += [part.splitlines() for part in parts]
    return found


def place(patch, hunk, original, source):
    """The edits of one hunk."""
    expected = [line[1:] for line in hunk if line[:1] in (" ", "-", "")]
    size = len(expected)
    starts = [at for at in range(len(original) - size + 1) if original[at:at + size] == expected]
    if not starts:
        raise Unfit(f"{patch}: does not apply to {source}, which has changed. Looked for these lines:\n"
                    + "\n".join(f"    {line}" for line in expected))
    if len(starts) > 1:
        raise Unfit(f"{patch}: fits {source} in {len(starts)} places, at lines "
                    f"{', '.join(str(at + 1) for at in starts)}; give the hunk more context")
    edits, at, begin, added = [], starts[0], None, []
    for line in [*hunk, " "]:  # the last one only ends an edit
        if line[:1] in ("-", "+"):
            begin = at if begin is None else begin
            if line[0] == "+":
                added.append(line[1:])
                continue
        elif begin is not None:
            edits.append(Edit(patch, begin, at, tuple(added)))
            begin, added = None, []
        at += 1
    return edits


def apply(original, edits, source):
    """`original` with all edits, which must not replace the same line twice."""
    copy, at, last = [], 0, None
    for edit in sorted(edits, key=lambda each: (each.begin, each.end, each.patch)):
        if edit.begin < at:
            raise Unfit(f"{edit.patch}: changes the same line of {source} as {last.patch}; insert a line instead")
        copy += original[at:edit.begin]
        copy += edit.lines
        at, last = edit.end, edit
    return copy + original[at:]


def mutated(source, text, patches):
    """`text` of `source` with the patches, given as pairs of name and text."""
    original = text.splitlines()
    edits = [edit for name, patch in patches for hunk in hunks_of(name, patch, source)
             for edit in place(name, hunk, original, source)]
    return "\n".join(apply(original, edits, source)) + "\n"


def main():
    root, source, copy, *patches = sys.argv[1:]
    root, copy = pathlib.Path(root), pathlib.Path(copy)
    texts = [(str(pathlib.Path(patch).relative_to(root)), pathlib.Path(patch).read_text()) for patch in patches]
    try:
        text = mutated(source, (root / source).read_text(), texts)
    except Unfit as unfit:
        sys.exit(f"error: mutant {unfit}")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(text)


if __name__ == "__main__":
    main()
