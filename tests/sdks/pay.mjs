// node pay.mjs x402|mppx URL KEY: one POST through a client that pays when it is asked to, as its users set it up. Prints one JSON
// object: {ok, status, body} or {ok: false, name, message}. Signatures are real (x402); no chain and no Stripe is asked.
// Only the client that is asked for is loaded.
const [library, url, key] = process.argv.slice(2);

const clients = {
  async x402() {
    const { ExactEvmScheme } = await import("@x402/evm");
    const { wrapFetchWithPaymentFromConfig } = await import("@x402/fetch");
    const { privateKeyToAccount } = await import("viem/accounts");
    const account = privateKeyToAccount(`0x${"11".repeat(32)}`);
    return wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: "eip155:84532", client: new ExactEvmScheme(account) }] });
  },
  async mppx() {
    const { Mppx, stripe } = await import("mppx/client");
    const createToken = async () => `spt_${crypto.randomUUID()}`;
    return Mppx.create({ methods: [stripe({ createToken, paymentMethod: "pm_card_visa" })], polyfill: false }).fetch;
  },
};

try {
  const response = await (await clients[library]())(url, {
    method: "POST",
    headers: { "Idempotency-Key": key, "Content-Type": "application/json" },
    body: '{"report":7}',
  });
  console.log(JSON.stringify({ ok: response.ok, status: response.status, body: await response.text() }));
} catch (error) {
  console.log(JSON.stringify({ ok: false, name: error.name, message: error.message }));
}
process.exit(0);
