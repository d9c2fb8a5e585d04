// node send.mjs LIBRARY URL KEY [BODY [HEADERS]]: one POST through a client library that retries, as its users set it up. Prints one
// JSON object: {ok, status, body} or {ok: false, name, status, code, message, requestId}. A try that takes two seconds has timed out.
// Only the library that is asked for is loaded.
const [library, url, key, body = '{"amount":1}', headersText = "{}"] = process.argv.slice(2);
const target = new URL(url);
const extra = JSON.parse(headersText);
const headers = { ...(key ? { "Idempotency-Key": key } : {}), "Content-Type": "application/json", ...extra };
const timeout = 2000;
const retries = 3;

const libraries = {
  async "axios-retry"() {
    const { default: axios } = await import("axios");
    const { default: axiosRetry } = await import("axios-retry");
    axiosRetry(axios, {
      retries,
      shouldResetTimeout: true,
      retryDelay: axiosRetry.exponentialDelay,
      retryCondition: (error) => error.code === "ECONNABORTED" || axiosRetry.isNetworkError(error) || axiosRetry.isRetryableError(error),
    });
    const response = await axios.post(url, body, { headers, timeout, responseType: "text" });
    return { status: response.status, body: response.data };
  },
  async got() {
    const { default: got } = await import("got");
    const response = await got.post(url, { body, headers, timeout: { request: timeout }, retry: { limit: retries, methods: ["POST"] } });
    return { status: response.statusCode, body: response.body };
  },
  async undici() {
    const { Agent, RetryAgent, request } = await import("undici");
    const agent = new RetryAgent(new Agent({ headersTimeout: timeout }), {
      maxRetries: retries,
      methods: ["POST"],
      errorCodes: ["ECONNRESET", "ECONNREFUSED", "UND_ERR_SOCKET", "UND_ERR_HEADERS_TIMEOUT"],
    });
    const response = await request(url, { method: "POST", body, headers, dispatcher: agent });
    const text = await response.body.text();
    if (response.statusCode >= 400) throw Object.assign(new Error(text), { status: response.statusCode });
    return { status: response.statusCode, body: text };
  },
  async openai() {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ apiKey: "sk", baseURL: target.origin, timeout, maxRetries: retries });
    const { response } = await client.post(target.pathname, { body: JSON.parse(body), headers }).withResponse();
    return { status: response.status };
  },
  async stripe() {
    const { default: Stripe } = await import("stripe");
    const { hostname: host, port } = target;
    const client = new Stripe("sk_test_1", { host, port, protocol: "http", timeout, maxNetworkRetries: retries, telemetry: false });
    const account = extra["Stripe-Account"];
    const answer = await client.charges.create(JSON.parse(body), { idempotencyKey: key || undefined, ...(account ? { stripeAccount: account } : {}) });
    return { status: answer.lastResponse.statusCode, body: JSON.stringify(answer), requestId: answer.lastResponse.requestId };
  },
};

try {
  console.log(JSON.stringify({ ok: true, ...(await libraries[library]()) }));
} catch (error) {
  console.log(
    JSON.stringify({
      ok: false,
      name: error.type ?? error.name,
      status: error.statusCode ?? error.status ?? error.response?.statusCode ?? error.response?.status,
      code: error.code,
      message: error.message,
      requestId: error.requestId,
    }),
  );
}
process.exit(0);
