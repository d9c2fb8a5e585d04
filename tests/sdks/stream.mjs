// node stream.mjs LIBRARY URL KEY [TIMEOUT_MS]: one streamed answer through an SDK, as its users read it. Prints a JSON line for every piece of text as
// it arrives, and {end: true, status} or {end: true, error} last. A try whose head takes longer than the timeout is retried by the SDK itself.
// Only the SDK that is asked for is loaded.
const [library, url, key, timeoutText = "60000"] = process.argv.slice(2);
const timeout = Number(timeoutText);
const messages = [{ role: "user", content: "hi" }];
const headers = { "Idempotency-Key": key };
const maxRetries = 3;
const say = (line) => console.log(JSON.stringify(line));

const libraries = {
  async openai() {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ apiKey: "sk", baseURL: `${url}/v1`, timeout, maxRetries });
    const answer = client.chat.completions.create({ model: "m", messages, stream: true }, { headers });
    const { data, response } = await answer.withResponse();
    for await (const chunk of data) say({ text: chunk.choices[0].delta.content });
    return response.headers.get("Idempotency-Status");
  },
  async anthropic() {
    const { default: Anthropic } = await import("@anthropic-ai/sdk");
    const client = new Anthropic({ apiKey: "sk", baseURL: url, timeout, maxRetries });
    const answer = client.messages.create({ model: "m", max_tokens: 100, messages, stream: true }, { headers });
    const { data, response } = await answer.withResponse();
    for await (const event of data) if (event.type === "content_block_delta") say({ text: event.delta.text });
    return response.headers.get("Idempotency-Status");
  },
  async ai() {
    const { createOpenAI } = await import("@ai-sdk/openai");
    const { streamText } = await import("ai");
    const provider = createOpenAI({ apiKey: "sk", baseURL: `${url}/v1` });
    let failure;
    const onError = ({ error }) => (failure = error);
    const answer = streamText({ model: provider.chat("m"), messages, headers, maxRetries, onError });
    for await (const text of answer.textStream) say({ text });
    if (failure) throw failure;
    return (await answer.response).headers["idempotency-status"];
  },
};

try {
  const status = await libraries[library]();
  say({ end: true, status });
} catch (error) {
  say({ end: true, error: `${error.name}: ${error.message}` });
}
