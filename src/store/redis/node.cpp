#include "store/redis/node.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace once::redis {

namespace {

constexpr std::uint64_t oldest_major = 6;
constexpr std::uint64_t oldest_minor = 2;  // the first with SET PXAT, and with scripts replicated by their effects

std::unexpected<Error> failed(const Link& link, Retryable retryable, std::string_view why) {
  return std::unexpected(Error{.source = ErrorSource::store,
                               .retryable = retryable,
                               .detail = fmt::format("Redis at {}: {}", link.name(), why)});
}

// Errors that stay until the configuration of one side is changed.
bool is_lasting(std::string_view code) {
  return code == "WRONGPASS" || code == "NOAUTH" || code == "NOPERM" || code == "DENIED";
}

// A server repeats an unknown command with its arguments, which may include the password.
std::string_view without_arguments(std::string_view text) {
  return text.substr(0, text.find(", with args"));
}

Result<void> read_greeting(Link& link, bool login, bool select, Deadline deadline) {
  const auto next = [&](std::string_view what, bool lasting) -> Result<void> {
    const auto reply = link.reply(deadline);
    if (!reply) return std::unexpected(reply.error());
    if (!is_error(**reply)) return {};
    const std::string_view text = text_of(**reply);
    const bool lasts =
        is_lasting(error_code(text)) || (lasting && error_code(text) == "ERR" && !text.contains("max number"));
    return failed(link, lasts ? Retryable::no : Retryable::yes, fmt::format("{}: {}", what, without_arguments(text)));
  };
  if (login) {
    if (auto done = next("login refused", true); !done) return done;
  }
  if (select) {
    if (auto done = next("database refused", true); !done) return done;
  }
  return next("not ready", false);
}

// The value of a field in the output of INFO.
std::string_view info_field(std::string_view info, std::string_view field) {
  for (const std::string_view line : split(info, '\n')) {
    if (line.starts_with(field) && line.substr(field.size()).starts_with(':')) {
      return trim(line.substr(field.size() + 1));
    }
  }
  return {};
}

Result<void> check_info(const Link& link, Mode mode, std::string_view info) {
  const std::string_view version = info_field(info, "redis_version");
  const auto parts = split(version, '.');
  const auto major = parse_number(parts[0]);
  const auto minor = parts.size() > 1 ? parse_number(parts[1]) : std::nullopt;
  if (major && minor && std::pair(*major, *minor) < std::pair(oldest_major, oldest_minor)) {
    return failed(link, Retryable::no, fmt::format("version {} is too old; Once needs 6.2 or newer", version));
  }
  const std::string_view kind = info_field(info, "redis_mode");
  if (kind == "sentinel") return failed(link, Retryable::no, "it is a sentinel; add sentinel=NAME to the URL");
  if (kind == "cluster" && mode != Mode::cluster) {
    return failed(link, Retryable::no, "it is a node of a Redis Cluster; add cluster=1 to the URL");
  }
  return {};
}

// The value in a reply to CONFIG GET; empty if the server refused it.
std::string_view config_value(const redisReply& reply) {
  if (!is_array(reply) || reply.elements != 2 || !is_text(*reply.element[1])) return {};
  return text_of(*reply.element[1]);
}

}  // namespace

Result<Reply> ask(Link& link, std::initializer_list<std::string_view> command, Deadline deadline) {
  append_command(link.commands(), command);
  if (auto sent = link.send(); !sent) return std::unexpected(std::move(sent.error()));
  auto reply = link.reply(deadline);
  if (!reply || !is_error(**reply)) return reply;
  const std::string_view text = text_of(**reply);
  return failed(link, is_lasting(error_code(text)) ? Retryable::no : Retryable::yes, text);
}

Result<std::unique_ptr<Link>> greet(const Context& context, const StoreHost& host, const Credentials& login,
                                    Deadline deadline) {
  auto link = Link::connect(host, context.tls.get(), deadline);
  if (!link) return link;
  std::string& commands = (*link)->commands();
  const bool logs_in = !login.password.empty();
  const bool selects = context.options.database != 0 && &login == &context.options.login;
  if (logs_in && login.user.empty()) append_command(commands, {"AUTH", login.password});
  if (logs_in && !login.user.empty()) append_command(commands, {"AUTH", login.user, login.password});
  if (selects) append_command(commands, {"SELECT", std::to_string(context.options.database)});
  append_command(commands, {"PING"});
  if (auto sent = (*link)->send(); !sent) return std::unexpected(std::move(sent.error()));
  if (auto read = read_greeting(**link, logs_in, selects, deadline); !read) {
    return std::unexpected(std::move(read.error()));
  }
  return link;
}

void Bell::ring() {
  const std::scoped_lock lock(mutex_);
  rung_ = true;
  changed_.notify_all();
}

Bell::Woken Bell::wait_for_ring() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return rung_ || ended_; });
  rung_ = false;
  return ended_ ? Woken::to_end : Woken::to_revive;
}

Bell::Woken Bell::pause(Duration how_long) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, how_long, [this] { return ended_; }) ? Woken::to_end : Woken::to_revive;
}

void Bell::end() {
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

Node::Node(Context& context, StoreHost host, std::uint64_t number)
    : context_(context),
      host_(std::move(host)),
      number_(number),
      links_(context.settings.connections, context.counts,
             [this](std::chrono::nanoseconds until) { return connect(Deadline::at(until)); }),
      search_links_(1, context.counts,
                    [this](std::chrono::nanoseconds until) { return connect(Deadline::at(until)); }) {}

Result<Node::Lease> Node::take(ConnectionPool<Link>& links, Deadline deadline) {
  while (true) {
    if (is_down()) {
      const std::scoped_lock lock(why_mutex_);
      return std::unexpected(why_down_);
    }
    auto lease = links.take(deadline.when());
    if (!lease || (*lease)->quiet()) return lease;
    lease->drop();  // the server closed it while it was idle
  }
}

void Node::go_down(const Error& why) {
  {
    const std::scoped_lock lock(why_mutex_);
    why_down_ = why;
  }
  if (down_.exchange(true)) return;
  links_.drop_idle();
  search_links_.drop_idle();
  context_.down.ring();
}

void Node::revive(Deadline deadline) {
  if (!is_down()) return;
  auto link = connect(deadline);
  if (!link) {
    context_.counts.connect_failures.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  links_.add(std::move(*link));
  down_.store(false);
}

Result<std::unique_ptr<Link>> Node::connect(Deadline deadline) {
  auto link = try_to_connect(deadline.within(context_.settings.connect_timeout));
  if (!link) go_down(link.error());
  return link;
}

Result<std::unique_ptr<Link>> Node::try_to_connect(Deadline deadline) {
  auto link = greet(context_, host_, context_.options.login, deadline);
  if (!link) return link;
  if (context_.options.mode != Mode::cluster &&
      (context_.options.mode == Mode::sentinel || context_.options.hosts.size() > 1)) {
    const auto role = ask(**link, {"ROLE"}, deadline);
    if (!role) return std::unexpected(role.error());
    if (!is_array(**role) || (*role)->elements == 0 || text_of(*(*role)->element[0]) != "master") {
      return failed(**link, Retryable::yes, "it is not the master now");
    }
  }
  if (!inspected_.load()) {
    if (auto inspected = inspect(**link, deadline); !inspected) return std::unexpected(std::move(inspected.error()));
    inspected_.store(true);
  }
  return link;
}

Result<void> Node::inspect(Link& link, Deadline deadline) {
  append_command(link.commands(), {"TIME"});
  append_command(link.commands(), {"INFO", "server"});
  constexpr std::array<std::string_view, 3> settings = {"maxmemory-policy", "appendonly", "appendfsync"};
  for (const std::string_view setting : settings) append_command(link.commands(), {"CONFIG", "GET", setting});
  context_.scripts.append_load(link.commands());
  const std::chrono::nanoseconds sent_at = monotonic_now();
  if (auto sent = link.send(); !sent) return sent;
  const auto time = link.reply(deadline);
  if (!time) return std::unexpected(time.error());
  if (const auto now = time_in(**time)) clock_.learn(*now, sent_at);
  // A server that does not reveal its settings, such as a hosted one, is used as it is.
  const auto info = link.reply(deadline);
  if (!info) return std::unexpected(info.error());
  if (!is_error(**info)) {
    if (auto checked = check_info(link, context_.options.mode, text_of(**info)); !checked) return checked;
  }
  std::array<std::string, settings.size()> values;
  for (std::string& value : values) {
    const auto reply = link.reply(deadline);
    if (!reply) return std::unexpected(reply.error());
    value = config_value(**reply);
  }
  for (std::size_t i = 0; i < script_count; ++i) {
    const auto reply = link.reply(deadline);
    if (!reply) return std::unexpected(reply.error());
    if (is_error(**reply)) {
      const std::string_view text = text_of(**reply);
      const bool lasts = is_lasting(error_code(text));
      return failed(link, lasts ? Retryable::no : Retryable::yes, fmt::format("scripts refused: {}", text));
    }
  }
  warn_of(values[0], values[1], values[2]);
  return {};
}

void Node::warn_of(std::string_view policy, std::string_view appendonly, std::string_view appendfsync) {
  const bool evicts = policy.starts_with("allkeys-") || policy.starts_with("volatile-");
  if (evicts && !context_.warned_of_eviction.exchange(true)) {
    context_.log.warn("Redis may evict records early, so that retries execute again; set noeviction",
                      {{"server", name_of(host_)}, {"maxmemory-policy", policy}});
  }
  const bool forgets = appendonly == "no" || (appendonly == "yes" && !appendfsync.empty() && appendfsync != "always");
  if (!forgets) return;
  if (appendonly == "no") context_.durable.store(false);
  if (!context_.warned_of_loss.exchange(true)) {
    context_.log.warn("Redis acknowledges writes before they are on disk; set appendfsync always",
                      {{"server", name_of(host_)}, {"appendonly", appendonly}, {"appendfsync", appendfsync}});
  }
}

}  // namespace once::redis
