// Evaluates the configured readiness checks for /readyz, except the store's. Runs on the admin's thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "admin/ready_check.hpp"
#include "admin/sessions.hpp"
#include "base/clock.hpp"

namespace once::admin {

struct AdminSources;

class Readiness {
 public:
  // The sources outlive this.
  explicit Readiness(const AdminSources& sources) : sources_(sources) {}

  bool asks_store() const { return has(ReadyCheck::store); }
  // A short description of the first failing check; empty: none fails. The store is not checked.
  std::string_view wrong(Instant now);
  // Call regularly, so that wrong() knows when a claim was last refused.
  void look(Instant now);

 private:
  bool has(ReadyCheck check) const;
  bool any_upstream_up(Instant now) const;
  bool full(Instant now) const;

  const AdminSources& sources_;
  std::uint64_t refused_ = 0;  // claims refused because the store was full
  Instant refused_at_ = Instant::min();
};

}  // namespace once::admin
