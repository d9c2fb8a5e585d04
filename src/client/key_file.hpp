// The key of one operation on disk, so that a restarted process continues with it. docs/guides/client.md describes the
// file. It is written under another name, synced, and linked to its final name without replacing a file: two processes
// that start together get one key, and a crash leaves either no key file or a complete one.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "once/client.hpp"

namespace once::client {

struct KeyRecord {
  enum class State : std::uint8_t { pending, done };

  std::string key;
  std::string request;  // request_digest()
  Time created;
  State state = State::pending;

  bool operator==(const KeyRecord&) const = default;
};

// A digest of method, URL and body. Headers are left out, because tokens and dates may differ in another process.
std::string request_digest(const Request& request);

std::string format_key_record(const KeyRecord& record);
std::expected<KeyRecord, std::string> parse_key_record(std::string_view text);

class KeyFile {
 public:
  // Called after each step with its name; tests kill the process there.
  using AfterStep = std::function<void(std::string_view step)>;

  explicit KeyFile(std::string path, AfterStep after_step = {})
      : path_(std::move(path)), after_step_(std::move(after_step)) {}

  // Returns the record on disk, after writing `fresh` if there was none. It is durable on return.
  std::expected<KeyRecord, std::string> open(const KeyRecord& fresh);

  // Reads the record, which must exist.
  std::expected<KeyRecord, std::string> read();

  // A final answer arrived. If this fails the answer is still valid: the next run sends the same key and gets it again.
  std::expected<void, std::string> mark_done(KeyRecord record);
  std::expected<void, std::string> remove();

 private:
  std::expected<std::string, std::string> write_beside(const KeyRecord& record);
  std::expected<void, std::string> sync_folder();
  void step(std::string_view name) const {
    if (after_step_) after_step_(name);
  }

  std::string path_;
  AfterStep after_step_;
};

}  // namespace once::client
