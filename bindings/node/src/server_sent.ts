// Parses server-sent events as in the HTML standard: https://html.spec.whatwg.org/multipage/server-sent-events.html

export interface ServerSentEvent {
  /** The last id in the stream, possibly of an earlier event; "" if there was none. */
  id: string;
  /** "message" if the stream does not name one. */
  event: string;
  data: string;
}

/** An incomplete event at the end is dropped, as the standard requires. */
export async function* parseEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent, void, undefined> {
  const parser = new EventParser();
  for await (const chunk of chunks) yield* parser.take(chunk);
}

class EventParser {
  #decoder = new TextDecoder(); // drops a byte order mark
  #line = "";
  #afterCr = false; // a LF that follows belongs to the line that has ended
  #id = "";
  #event = "";
  #data = "";

  *take(chunk: Uint8Array): Generator<ServerSentEvent, void, undefined> {
    let text = this.#decoder.decode(chunk, { stream: true });
    if (text === "") return;
    if (this.#afterCr && text.startsWith("\n")) text = text.slice(1);
    this.#afterCr = text === "" ? false : text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    lines[0] = this.#line + lines[0];
    this.#line = lines.pop() as string;
    for (const line of lines) {
      if (line !== "") this.#field(line);
      else if (this.#data !== "") yield this.#dispatch();
      else this.#event = "";
    }
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data += `${value}\n`;
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }

  #dispatch(): ServerSentEvent {
    const event = { id: this.#id, event: this.#event || "message", data: this.#data.slice(0, -1) };
    this.#data = this.#event = "";
    return event;
  }
}
