#include "client/error_body.hpp"

#include <string>
#include <vector>

#include "core/json_walk.hpp"

namespace once::client {

namespace {

constexpr std::size_t deepest = 16;
constexpr std::size_t longest = std::size_t{64} << 10;

// Reads `code`, `retryable` and `detail` of the document, and `code` and `message` of its member `error`.
class ErrorReader final : public JsonVisitor {
 public:
  ErrorBody take() {
    return {.code = std::move(top_code_.empty() ? nested_code_ : top_code_),
            .says = says_,
            .detail = std::move(detail_.empty() ? message_ : detail_)};
  }

  bool begin(JsonContainer container) override {
    const bool object = container == JsonContainer::object;
    if (places_.empty()) {
      places_.push_back(Place::top);
      return object;
    }
    const bool error = object && places_.back() == Place::top && name_ == "error";
    places_.push_back(error ? Place::error : Place::elsewhere);
    return true;
  }

  bool name(std::string_view content, std::string_view /*written*/) override {
    name_ = content;
    return true;
  }

  bool scalar(const JsonScalar& value) override {
    if (places_.empty()) return false;
    const Place place = places_.back();
    const bool text = value.kind == JsonScalar::Kind::string;
    const bool code = text && name_ == "code";
    if (code && place == Place::top) top_code_ = value.content;
    if (code && place == Place::error) nested_code_ = value.content;
    if (text && place == Place::top && name_ == "detail") detail_ = value.content;
    if (text && place == Place::error && name_ == "message") message_ = value.content;
    if (value.kind == JsonScalar::Kind::boolean && place == Place::top && name_ == "retryable") {
      says_ = value.content == "true" ? Reply::Says::retryable : Reply::Says::not_retryable;
    }
    return true;
  }

  bool end(JsonContainer /*container*/, std::string_view /*written*/) override {
    places_.pop_back();
    return true;
  }

 private:
  enum class Place : std::uint8_t { top, error, elsewhere };

  std::vector<Place> places_;  // of the containers around the next value
  std::string name_;           // of the last member
  std::string top_code_;
  std::string nested_code_;
  std::string detail_;
  std::string message_;
  Reply::Says says_ = Reply::Says::nothing;
};

}  // namespace

ErrorBody read_error_body(std::string_view body) {
  ErrorReader reader;
  if (body.size() > longest || !walk_json(body, {.depth = deepest}, reader)) return {};
  return reader.take();
}

}  // namespace once::client
