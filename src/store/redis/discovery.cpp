#include "store/redis/discovery.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"

namespace once::redis {

namespace {

// A server that does not answer must not use up the time of the others.
constexpr Duration patience = std::chrono::seconds(1);

Deadline deadline_for_one(const Context& context, Deadline whole) {
  return whole.within(std::min(context.settings.connect_timeout, patience));
}

std::unexpected<Error> none(Retryable retryable, std::string detail) {
  return std::unexpected(Error{.source = ErrorSource::store, .retryable = retryable, .detail = std::move(detail)});
}

// Collects the errors of several servers. The total is retryable if any of them is.
class ServerErrors {
 public:
  void add(const Error& error) {
    if (!text_.empty()) text_ += "; ";
    text_ += error.detail;
    if (error.retryable == Retryable::yes) retryable_ = Retryable::yes;
  }
  std::unexpected<Error> error() const { return none(retryable_, text_); }

 private:
  std::string text_;
  Retryable retryable_ = Retryable::no;
};

Result<std::string> role_of(Link& link, Deadline deadline) {
  const auto reply = ask(link, {"ROLE"}, deadline);
  if (!reply) return std::unexpected(reply.error());
  if (!is_array(**reply) || (*reply)->elements == 0) return std::string("nothing known");
  return std::string(text_of(*(*reply)->element[0]));
}

Result<void> check_master(const Context& context, const StoreHost& host, Deadline whole) {
  const Deadline deadline = deadline_for_one(context, whole);
  auto link = greet(context, host, context.options.login, deadline);
  if (!link) return std::unexpected(std::move(link.error()));
  const auto role = role_of(**link, deadline);
  if (!role) return std::unexpected(role.error());
  if (*role == "master") return {};
  return none(Retryable::yes, fmt::format("Redis at {}: it is a {}, not a master", name_of(host), *role));
}

Result<StoreHost> master_by(const Context& context, const StoreHost& sentinel, Deadline whole) {
  const Deadline deadline = deadline_for_one(context, whole);
  auto link = greet(context, sentinel, context.options.sentinel_login, deadline);
  if (!link) return std::unexpected(std::move(link.error()));
  const std::string& name = context.options.sentinel_name;
  const auto reply = ask(**link, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name}, deadline);
  if (!reply) return std::unexpected(reply.error());
  if (!is_array(**reply) || (*reply)->elements != 2) {
    return none(Retryable::yes, fmt::format("sentinel {} knows no master \"{}\"", name_of(sentinel), name));
  }
  const auto port = parse_number(text_of(*(*reply)->element[1]));
  if (!port || *port == 0 || *port > 65'535) {
    return none(Retryable::yes, fmt::format("sentinel {} names a master without a port", name_of(sentinel)));
  }
  return StoreHost{.name = std::string(text_of(*(*reply)->element[0])), .port = static_cast<std::uint16_t>(*port)};
}

Result<Layout> layout_by(const Context& context, const StoreHost& node, Deadline whole) {
  const Deadline deadline = deadline_for_one(context, whole);
  auto link = greet(context, node, context.options.login, deadline);
  if (!link) return std::unexpected(std::move(link.error()));
  const auto reply = ask(**link, {"CLUSTER", "SLOTS"}, deadline);
  if (!reply) {
    Error error = reply.error();
    if (error.detail.contains("cluster support disabled")) error.retryable = Retryable::no;
    return std::unexpected(std::move(error));
  }
  auto layout = read_layout(**reply, node);
  if (!layout) return none(Retryable::yes, fmt::format("Redis at {}: it knows no slots", name_of(node)));
  return *std::move(layout);
}

}  // namespace

Result<Layout> find_master(const Context& context, Deadline deadline) {
  ServerErrors troubles;
  for (const StoreHost& host : context.options.hosts) {
    const auto checked = check_master(context, host, deadline);
    if (checked) return Layout{.nodes = {host}, .owners = {}};
    troubles.add(checked.error());
  }
  return troubles.error();
}

Result<Layout> ask_sentinels(const Context& context, Deadline deadline) {
  ServerErrors troubles;
  for (const StoreHost& sentinel : context.options.hosts) {
    const auto master = master_by(context, sentinel, deadline);
    const auto checked = master ? check_master(context, *master, deadline) : std::unexpected(master.error());
    if (checked) return Layout{.nodes = {*master}, .owners = {}};
    troubles.add(checked.error());
  }
  return troubles.error();
}

Result<Layout> ask_cluster(const Context& context, std::span<const StoreHost> nodes, Deadline deadline) {
  ServerErrors troubles;
  for (const StoreHost& node : nodes) {
    auto layout = layout_by(context, node, deadline);
    if (layout) return layout;
    troubles.add(layout.error());
  }
  return troubles.error();
}

}  // namespace once::redis
