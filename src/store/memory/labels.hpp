// Holder, tenant and route of records. Each combination is stored once; the part of a label that differs per request
// (core/route_label.hpp) is kept by its record, as RequestText. Not thread-safe.
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

#include "store/memory/holders.hpp"
#include "store/store.hpp"

namespace once::memory {

// Null: there is no text.
using RequestText = std::unique_ptr<const char[]>;
RequestText request_text(std::string_view request);
// The memory of the text, including the allocator's overhead.
std::size_t cost_of(std::string_view request);

class Labels {
 public:
  explicit Labels(Holders& holders) : holders_(holders), untagged_(holders.untagged()) {}

  // The label of a claim; 0: it has none. Reference-counted: each take() needs one give_back().
  std::uint32_t take(const Op& claim);
  void give_back(std::uint32_t label);

  struct Pair {
    std::string_view tenant;
    std::string_view route;
  };
  Pair of(std::uint32_t label) const;
  TenantTag tag_of(std::uint32_t label) const;
  const std::shared_ptr<Holder>& holder_of(std::uint32_t label) const {
    return label == 0 ? untagged_ : entries_[label - 1].holder;
  }
  // The claim's holder. Null: it has no records yet.
  std::shared_ptr<Holder> find_holder(const Op& claim);

  std::size_t bytes() const { return bytes_; }
  // The most memory that take() would add.
  std::size_t cost(const Op& claim);

 private:
  struct Entry {
    std::string text;  // the holder's tag, tenant, route
    std::size_t tenant_size = 0;
    std::size_t owners = 0;
    std::shared_ptr<Holder> holder{};
  };

  // Includes the length of the tenant, so that ("ab", "c") and ("a", "bc") differ.
  struct Key {
    std::string_view text;
    std::size_t tenant_size;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return std::hash<std::string_view>()(key.text) ^ key.tenant_size; }
  };
  static std::size_t size_of(std::size_t text) { return sizeof(Entry) + sizeof(Key) + 64 + text; }
  static bool is_bare(const Op& claim);
  Key key_of(const Op& claim);

  Holders& holders_;
  const std::shared_ptr<Holder> untagged_;
  std::deque<Entry> entries_;  // label - 1
  std::vector<std::uint32_t> free_;
  std::unordered_map<Key, std::uint32_t, Hash> index_;  // its keys are views of entries
  std::string wanted_;
  std::size_t bytes_ = 0;
};

}  // namespace once::memory
