// Who a request comes from.
#include "gateway/connection/client.hpp"

namespace once {

// What is asked for costs something: a system call, a look at the clock.
CallerFacts Client::caller_facts(const Policy& policy) {
  CallerFacts facts{.hosts = &generation_->settings().hosts, .trust = trust()};
  for (const CallerSource& source : policy.caller) {
    switch (source.kind) {
      case CallerSource::Kind::header:
      case CallerSource::Kind::proxy_header:
      case CallerSource::Kind::cookie: break;
      case CallerSource::Kind::jwt:
        facts.token_header = generation_->settings().tokens.header;
        facts.tokens = generation_->tokens();
        facts.now = shared_.clock.now();
        break;
      case CallerSource::Kind::mtls_subject:
        facts.tls_subject = io_.tls_subject;
        facts.tls_issuer = io_.tls_issuer;
        break;
      case CallerSource::Kind::client_ip:
        facts.peer = io_.peer;
        facts.trusted_proxies = &generation_->settings().trusted_proxies;
        break;
    }
  }
  return facts;
}

const Origin* Client::origin() {
  if (!origin_) origin_.emplace(io_.peer, io_.secure ? Origin::Transport::tls : Origin::Transport::plain);
  origin_->trust(generation_->settings().trusted_proxies);
  return &*origin_;
}

PeerTrust Client::trust() {
  if (generation_->settings().trusted_proxies.empty()) return PeerTrust::client;
  return origin()->peer();
}

AskedHost Client::asked_host() {
  return {io_.head, generation_->settings().hosts, trust()};
}

std::string_view Client::tenant_of(const ScopeParts& scope) {
  if (scope.caller().empty()) return {};
  const TenantTag& tag = tenant_.of(shared_.ids, scope.caller());
  return {tag.data(), tag.size()};
}

}  // namespace once
