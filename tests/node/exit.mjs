// exit.mjs HOW STORE: a process that ends while a claim is held and another call waits for it. HOW: exit (process.exit), throw (an error
// that nobody catches), return (nothing more to do).
import { Gate } from "once";

const [how, store] = process.argv.slice(2);
const gate = await Gate.open({ store, log: "off" });
const claim = await gate.claim({ scope: "exit", key: "k" });
if (how !== "return") {
  void gate.claim({ scope: "exit", key: "k", wait: "60s" });
  setImmediate(() => {
    if (how === "exit") process.exit(7);
    throw new Error("nobody catches this");
  });
}
console.log(claim.acquired);
