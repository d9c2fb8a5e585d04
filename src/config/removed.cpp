#include "config/removed.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "config/codec.hpp"

namespace once::config {

namespace {

constexpr std::string_view by_dialect = "the dialect decides how problems and replays are worded";

constexpr std::array removed = {
    RemovedSetting{"claims.max_progress", "it is claims.max_body"},
    RemovedSetting{"claims.max_wait", "a long poll lasts a minute at most"},
    RemovedSetting{"claims.metrics_scopes", "20 scopes of each tenant have metrics of their own"},
    RemovedSetting{"conditional.max_body", "responses of up to 1 MiB get an ETag"},
    RemovedSetting{"conditional.max_wait", "Once waits 2 seconds for the end of a response that gets an ETag"},
    RemovedSetting{"cors.max_age", "a browser may cache the response to a preflight for 10 minutes"},
    RemovedSetting{"eject.max_time", "the longest ejection is 60 times health.interval"},
    RemovedSetting{"eject.most_percent", "at most half of the servers are ejected at one time"},
    RemovedSetting{"eject.time", "the first ejection lasts twice health.interval"},
    RemovedSetting{"fail_timeout", "a server that cannot be reached is avoided for twice health.interval"},
    RemovedSetting{"health.failures", "a server is down after 3 failures in a row"},
    RemovedSetting{"health.successes", "a server is up again after 2 good health checks in a row"},
    RemovedSetting{"health.timeout", "a health check may take 2 seconds"},
    RemovedSetting{"journal.segment_age", "it is a 24th of the shortest ttl of a route, from 1 second to 1 hour"},
    RemovedSetting{"journal.segment_size", "it is a 160th of journal.max_disk, from 1 MiB to 64 MiB"},
    RemovedSetting{"journal.sync_interval", "journal.sync: interval forces records to disk once a second"},
    RemovedSetting{"jwt.leeway", "clocks may differ by 30 seconds"},
    RemovedSetting{"key.max_length", "the dialect decides it: 256 characters with streams, 255 with the others"},
    RemovedSetting{"life.ended_by", "a DELETE ends the life of a resource"},
    RemovedSetting{"limits.address.new_keys_burst", "it is twice limits.address.new_keys"},
    RemovedSetting{"limits.caller.new_keys_burst", "it is twice limits.caller.new_keys"},
    RemovedSetting{"limits.caller.tracked", "limits are counted for 100,000 callers and as many addresses"},
    RemovedSetting{"limits.max_header_count", "a request has at most 100 header lines"},
    RemovedSetting{"limits.max_uri_bytes", "it is a quarter of limits.max_header_bytes"},
    RemovedSetting{"log.access_sample", "every request is logged; the program that collects the log can sample it"},
    RemovedSetting{"pool.keyed_idle_max", "it is a quarter of pool.idle_max"},
    RemovedSetting{"pool.max_idle", "as many idle connections are kept as were recently in use, at most 1024"},
    RemovedSetting{"queue_timeout", "a request waits in the queue for timeouts.connect"},
    RemovedSetting{"redis.wait_timeout", "it is a fifth of server.timeout"},
    RemovedSetting{"resolve_every", "names are resolved every 30 seconds, and on a reload"},
    RemovedSetting{"retry.budget", "10 percent of the requests may be sent twice"},
    RemovedSetting{"server.sweep_batch", "a transaction removes 1000 records at most"},
    RemovedSetting{"server.sweep_every", "it is a 24th of the shortest ttl of a route, from 1 second to 1 minute"},
    RemovedSetting{"timeouts.handover", "each step may take half of timeouts.drain, and 30 seconds at least"},
    RemovedSetting{"upstream_tls.min_version", "TLS 1.2 and later are used with upstreams"},
    RemovedSetting{"wording.mismatch_status", by_dialect},
    RemovedSetting{"wording.mismatch_code", by_dialect},
    RemovedSetting{"wording.mismatch_type", by_dialect},
    RemovedSetting{"wording.mismatch_title", by_dialect},
    RemovedSetting{"wording.in_flight_status", by_dialect},
    RemovedSetting{"wording.in_flight_code", by_dialect},
    RemovedSetting{"wording.in_flight_detail", by_dialect},
    RemovedSetting{"wording.replay_header", by_dialect},
    RemovedSetting{"wording.error_object", by_dialect},
};

const RemovedSetting* find_removed(std::string_view name) {
  const auto* const found = std::ranges::find(removed, name, &RemovedSetting::name);
  return found == removed.end() ? nullptr : found;
}

}  // namespace

std::span<const RemovedSetting> removed_settings() {
  return removed;
}

bool was_group(const std::string& name, const YamlNode& value) {
  return value.kind == YamlNode::Kind::map && std::ranges::any_of(value.children, [&](const YamlNode& child) {
           return find_removed(fmt::format("{}.{}", name, child.text)) != nullptr;
         });
}

std::string unknown_setting(std::string_view name, const std::vector<std::string_view>& names) {
  const RemovedSetting* const known = find_removed(name);
  if (known != nullptr) return fmt::format("\"{}\" is no longer a setting: {}", name, known->instead);
  return fmt::format("unknown setting \"{}\"{}", name, suggestion(name, names));
}

}  // namespace once::config
