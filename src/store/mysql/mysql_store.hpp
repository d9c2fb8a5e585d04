// Records in MySQL or MariaDB.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "store/server/server_store.hpp"
#include "store/server/settings.hpp"

namespace once {

class MysqlStore final : public ServerStore {
 public:
  // An error is one that does not mend itself: a wrong URL, refused credentials, a schema that is missing or of another
  // version. A server that cannot be reached is logged, and every batch fails until it can.
  static Result<std::unique_ptr<MysqlStore>> open(const std::string& url, const ServerSettings& settings,
                                                     const Log& log);
  ~MysqlStore() override;

  void execute(std::span<Op* const> batch) override;
  Traits traits() const override;
  void tell_ends(std::function<void(const OperationId&)> told) override;
  Result<Swept> sweep(std::size_t limit) override;

 private:
  MysqlStore();
};

}  // namespace once
