// Server-sent events from the body of a response. EventSource cannot send a body or a key, so the page uses fetch().

/**
 * @param id that of the last event before these
 * @yields {{id: string, data: string}} id is that of the last event that had one
 */
export async function* events(body, id) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) yield { id, data: data.join("\n") };
        data = [];
      } else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      else if (line.startsWith("id:")) id = line.slice(3).replace(/^ /, "");
    }
  }
}
