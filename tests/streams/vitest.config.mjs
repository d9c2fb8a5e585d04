export default {
  test: {
    include: ["suite.test.mjs"],
    server: { deps: { inline: [/server-conformance-tests/] } }, // it must get this vitest, not load one of its own
    testTimeout: 20000, // a busy machine is no difference
  },
};
