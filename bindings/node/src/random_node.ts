// Gives Node 18, which has no global `crypto`, a source of random keys. Every entry for Node imports it.
import { webcrypto } from "node:crypto";

import { useRandomSource } from "./random.js";

useRandomSource(webcrypto as unknown as Parameters<typeof useRandomSource>[0]);
