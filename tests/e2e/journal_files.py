"""The files of a journal, as docs/reference/journal-format.md says they are: for tests that damage or tear them."""
import contextlib
import dataclasses
import struct

HEADER_SIZE = 64
ALIGNMENT = 8


@dataclasses.dataclass(frozen=True)
class Frame:
    offset: int
    size: int
    payload: bytes


def segments(folder):
    """Oldest first, without the one that is made ahead."""
    return sorted(path for path in folder.glob("*.segment") if path.stem.isdigit())


def frames(path):
    """Up to the end of what was written; a segment that was never closed goes on with zeros."""
    data = path.read_bytes()
    offset = HEADER_SIZE
    while offset + 8 <= len(data):
        length, _ = struct.unpack_from("<II", data, offset)
        size = -(-(8 + length) // ALIGNMENT) * ALIGNMENT
        if length == 0 or offset + size > len(data):
            return
        yield Frame(offset, size, data[offset + 8:offset + 8 + length])
        offset += size


def overwrite(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path, offset):
    with open(path, "rb") as file:
        file.seek(offset)
        byte = file.read(1)
    overwrite(path, offset, bytes([byte[0] ^ 0x40]))


def tear(folder, drawn):
    """Leaves the beginning of a write that never ended behind the last record, as a crash of the machine does. Returns
    how many bytes; 0 if there is nothing to tear."""
    path = segments(folder)[-1]
    written = list(frames(path))
    end = written[-1].offset + written[-1].size if written else HEADER_SIZE
    if not written or end + 8192 > path.stat().st_size:
        return 0
    last = path.read_bytes()[written[-1].offset:end]
    begun = last[:drawn.randint(1, len(last) - ALIGNMENT)]
    # Of a write over several blocks a later one may have come first.
    overwrite(path, end + drawn.choice((0, 0, 4096)), begun)
    return len(begun)


def disk_bytes(folder):
    """What du counts: blocks, not lengths."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # a segment that was dropped since
            total += path.stat().st_blocks * 512
    return total
