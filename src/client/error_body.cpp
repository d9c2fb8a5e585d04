#include "client/error_body.hpp"

#include "core/json_scanner.hpp"

namespace once::client {

namespace {

constexpr int deepest = 16;
constexpr std::size_t longest = std::size_t{64} << 10;

class Reader {
 public:
  explicit Reader(std::string_view json) : json_(json) {}

  bool read(ErrorBody& into) {
    json_.skip_space();
    if (json_.peek() != '{' || !object(0, Place::top)) return false;
    json_.skip_space();
    if (!json_.at_end()) return false;
    into.code = top_code_.empty() ? nested_code_ : top_code_;
    into.says = says_;
    return true;
  }

 private:
  enum class Place : std::uint8_t { top, error, elsewhere };

  bool value(int depth, Place parent, std::string_view name) {
    json_.skip_space();
    switch (json_.peek()) {
      case '{': return object(depth, parent == Place::top && name == "error" ? Place::error : Place::elsewhere);
      case '[': return array(depth);
      case '"': return string(parent, name);
      case 't': return word("true", parent, name, Reply::Says::retryable);
      case 'f': return word("false", parent, name, Reply::Says::not_retryable);
      case 'n': return json_.read_word(ignored_, "null");
      default: return json_.read_number(ignored_);
    }
  }

  bool string(Place parent, std::string_view name) {
    std::string_view content;
    if (!json_.read_string(content)) return false;
    if (name == "code" && parent == Place::top) top_code_ = content;
    if (name == "code" && parent == Place::error) nested_code_ = content;
    return true;
  }

  bool word(std::string_view text, Place parent, std::string_view name, Reply::Says says) {
    if (!json_.read_word(ignored_, text)) return false;
    if (name == "retryable" && parent == Place::top) says_ = says;
    return true;
  }

  bool object(int depth, Place place) {
    if (depth == deepest || !json_.take('{')) return false;
    json_.skip_space();
    if (json_.take('}')) return true;
    do {
      json_.skip_space();
      std::string_view content;
      if (json_.peek() != '"' || !json_.read_string(content)) return false;
      const std::string name(content);
      json_.skip_space();
      if (!json_.take(':') || !value(depth + 1, place, name)) return false;
      json_.skip_space();
    } while (json_.take(','));
    return json_.take('}');
  }

  bool array(int depth) {
    if (depth == deepest || !json_.take('[')) return false;
    json_.skip_space();
    if (json_.take(']')) return true;
    do {
      if (!value(depth + 1, Place::elsewhere, {})) return false;
      json_.skip_space();
    } while (json_.take(','));
    return json_.take(']');
  }

  JsonScanner json_;
  std::string ignored_;
  std::string top_code_;
  std::string nested_code_;
  Reply::Says says_ = Reply::Says::nothing;
};

}  // namespace

ErrorBody read_error_body(std::string_view body) {
  ErrorBody found;
  if (body.size() > longest || !Reader(body).read(found)) return {};
  return found;
}

}  // namespace once::client
