// Tenant and route of records. Each pair is stored once: what is of one request (core/route_label.hpp) is kept by its
// record, as RequestText. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/layers.hpp"

namespace once::memory {

// Null: there is none.
using RequestText = std::unique_ptr<const char[]>;
RequestText request_text(std::string_view request);
// Of its text, with what the allocator adds.
std::size_t cost_of(std::string_view request);

class Labels {
 public:
  // 0: both are empty. Reference-counted: give each one back once.
  std::uint32_t take(std::string_view tenant, std::string_view route);
  void give_back(std::uint32_t label);

  struct Pair {
    std::string_view tenant;
    std::string_view route;
  };
  Pair of(std::uint32_t label) const;

  std::size_t bytes() const { return bytes_; }
  // What take() would add to bytes().
  std::size_t cost(std::string_view tenant, std::string_view route);

 private:
  struct Entry {
    std::string text;  // tenant, then route
    std::size_t tenant_size = 0;
    std::size_t owners = 0;
  };

  // With the length of the tenant, so that ("ab", "c") and ("a", "bc") differ.
  struct Key {
    std::string_view text;
    std::size_t tenant_size;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return std::hash<std::string_view>()(key.text) ^ key.tenant_size; }
  };
  static std::size_t size_of(std::size_t text) { return sizeof(Entry) + sizeof(Key) + 64 + text; }
  Key key_of(std::string_view tenant, std::string_view route);

  std::deque<Entry> entries_;  // label - 1
  std::vector<std::uint32_t> free_;
  std::unordered_map<Key, std::uint32_t, Hash> index_;  // views of entries
  std::string wanted_;
  std::size_t bytes_ = 0;
};

}  // namespace once::memory
