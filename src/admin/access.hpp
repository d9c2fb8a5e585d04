// Access control of the admin interface. Health is public; these rules apply to everything else:
// - Without a token the interface listens on loopback only, and every client has full access. A web page in a local
//   browser can connect, too. So Host must be a loopback name (against DNS rebinding), Origin must be the dashboard's
//   own, and a request that changes something needs the header Once-Admin: 1, which a page of another origin can only
//   send after a preflight that is always refused.
// - With a token every request needs it: as Authorization: Bearer, or in exchange for a session cookie
//   (POST /v1/login). After too many wrong tokens an address is blocked for a while, even with the right token,
//   because it could be a guess.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "admin/sessions.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "http/service.hpp"

namespace once::admin {

// Whether an address such as "127.0.0.1:8081" is reachable from this machine only.
bool is_loopback(std::string_view address);

class AdminAccess {
 public:
  // An empty token: none is required.
  AdminAccess(std::string_view token, const Log& log);

  bool needs_token() const { return needs_token_; }
  // Sets the actual listen address: cookies of gateways on one host are distinguished by port.
  void listens_at(std::string_view address);

  enum class What : std::uint8_t {
    open,  // the page itself: it is the same for all and contains no data
    data,
  };
  // The refusal, or nullopt if the request is allowed.
  std::optional<http::ServiceResponse> refuse(const http::ServiceRequest& request, What what, Instant now);

  // POST /v1/login with {"token": "…"}, POST /v1/logout.
  http::ServiceResponse login(const http::ServiceRequest& request, Instant now);
  http::ServiceResponse logout(const http::ServiceRequest& request);

  // For a request that was allowed: a function that says whether it still would be. Used by responses that stream.
  std::function<bool(Instant)> pass(const http::ServiceRequest& request) const;

  // Logs a refusal, within a rate limit.
  void log_refusal(const http::ServiceRequest& request, std::string_view reason, Instant now);

 private:
  struct Refusal {
    std::string_view reason;  // why, for the log
    http::ServiceResponse response;
  };
  std::optional<Refusal> why_not(const http::ServiceRequest& request, What what, Instant now);
  std::optional<Refusal> by_a_page(const http::RequestHead& head, What what) const;
  std::optional<Refusal> without_token(const http::ServiceRequest& request, Instant now);
  // nullopt: the token is right. Wrong ones are counted; after too many, tokens are refused without comparison.
  std::optional<Refusal> refuse_token(std::string_view token, std::string_view peer, Instant now);
  bool shows_token(const http::RequestHead& head) const;
  std::string_view session_of(const http::RequestHead& head) const;
  http::ServiceResponse cookie(std::string_view id, std::chrono::seconds age) const;

  Digest token_{};
  bool needs_token_;
  std::string cookie_name_;
  SystemRandom random_;
  Sessions sessions_;
  FailedLogins failed_;
  LineLimit lines_;
  const Log& log_;
};

}  // namespace once::admin
