// The C++ of docs/guides/gate.md, built and run as it stands there.
#include <cstdio>
#include <string>

#include <once/gate.hpp>

namespace {

int charges = 0;

// The service's own handler: what must happen once.
once::gate::Response charge(const once::gate::Request& request, const std::string& token) {
  ++charges;
  return {.status = 201, .fields = {{"X-Had-Claim", token.empty() ? "no" : "yes"}}, .body = request.body};
}

// docs: serve
once::gate::Reply serve(once::Gate& gate, const once::gate::Request& request) {
  const once::gate::Begun begun = gate.begin(request);  // waits for an owner as the route says
  if (begun.reply) return *begun.reply;                 // replay, conflict, mismatch, problem
  if (begun.passes()) {                                 // no key: not protected
    once::gate::Response made = charge(request, "");
    return {.status = made.status, .fields = made.fields, .body = made.body};
  }
  const once::gate::Response made = charge(request, begun.claim->token());
  return gate.finish(*begun.claim, made);  // recorded first, then sent
}
// docs: end

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // docs: open
  auto gate = once::Gate::open({
      .settings = {{"store", "memory:"}, {"defaults.caller_missing", "anonymous"}, {"data_dir", argv[1]}},
  });
  if (!gate) {
    std::fprintf(stderr, "%s\n", gate.error().detail.c_str());
    return 1;
  }
  // docs: end
  const once::gate::Request request{.method = "POST",
                                    .target = "/charges",
                                    .fields = {{"Host", "api.example"}, {"Idempotency-Key", "order-1"}},
                                    .body = R"({"amount": 4200})"};
  const once::gate::Reply first = serve(*gate, request);
  const once::gate::Reply again = serve(*gate, request);
  const bool replayed = again.ending == once::gate::Ending::replayed && again.body == first.body;
  return first.status == 201 && replayed && charges == 1 ? 0 : 1;
}
