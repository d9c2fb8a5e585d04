// The open store of a guard, with everything it needs.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <utility>

#include <once/guard.hpp>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "store/catalog/catalog.hpp"
#include "store/lane.hpp"

namespace once::guard {

class Backing {
 public:
  static std::expected<std::unique_ptr<Backing>, OpenError> open(const Options& options, const Clock& clock,
                                                                 const Log& log);
  // Wraps a store that is already open.
  static std::unique_ptr<Backing> of(std::unique_ptr<Store> store);
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  Store& store() const { return opened_.store(); }
  // Call it before the first op: starts the store's notifications about ended operations.
  void start();
  Lanes& lanes() const { return *lanes_; }

 private:
  explicit Backing(OpenedStore opened) : opened_(std::move(opened)) {}

  OpenedStore opened_;
  std::unique_ptr<ThreadLanes> lanes_;  // declared last, because it uses all of the above
};

}  // namespace once::guard
