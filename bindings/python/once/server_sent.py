"""Parses server-sent events as in the HTML standard: https://html.spec.whatwg.org/multipage/server-sent-events.html"""
from __future__ import annotations

import codecs
import re
from typing import Iterator, NamedTuple


class ServerSentEvent(NamedTuple):
    """id: the last one in the stream, possibly of an earlier event, or ""; event: "message" if the stream names none."""
    id: str
    event: str
    data: str


class EventParser:
    """An incomplete event at the end is dropped, as the standard requires."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._began = False
        self._after_cr = False  # a LF that follows belongs to the line that has ended
        self._line = ""
        self._id = self._event = self._data = ""

    def take(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        text = self._decoder.decode(chunk)
        if not text:
            return
        if not self._began:
            self._began = True
            text = text[text.startswith("\ufeff"):]
        if self._after_cr:
            text = text[text.startswith("\n"):]
        self._after_cr = text.endswith("\r")
        *lines, rest = re.split("\r\n|\r|\n", text)
        if lines:
            lines[0] = self._line + lines[0]
            self._line = rest
        else:
            self._line += rest
        for line in lines:
            if line:
                self._field(line)
                continue
            if self._data:
                yield ServerSentEvent(self._id, self._event or "message", self._data[:-1])
            self._data = self._event = ""

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value[value.startswith(" "):]
        if name == "data":
            self._data += value + "\n"
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
