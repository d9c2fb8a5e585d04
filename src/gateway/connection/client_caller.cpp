// Who a request comes from.
#include "gateway/connection/client.hpp"

namespace once {

IdentityRules Client::rules() {
  return {.settings = generation_->settings(),
          .routes = generation_->routes(),
          .ids = shared_.ids,
          .tokens = generation_->tokens(),
          .clock = shared_.clock};
}

RequestFacts Client::facts() {
  return {.head = io_.head,
          .peer = io_.peer,
          .trust = trust(),
          .transport = io_.secure ? Origin::Transport::tls : Origin::Transport::plain,
          .tls_subject = io_.tls_subject,
          .tls_issuer = io_.tls_issuer};
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

}  // namespace once
