#include "sim/message_reader.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace once::sim {

namespace {

constexpr std::size_t longest_line = 200'000;

bool alike(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  });
}

constexpr std::string_view marks = "!#$%&'*+-.^_`|~";

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || marks.find(c) != std::string_view::npos;
  });
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 16 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string Message::field(std::string_view name) const {
  for (const auto& [each, value] : fields) {
    if (alike(each, name)) return value;
  }
  return "";
}

bool Message::has(std::string_view name) const {
  return std::ranges::any_of(fields, [&](const auto& each) { return alike(each.first, name); });
}

void MessageReader::wrong(const std::string& what) {
  if (problem_.empty()) problem_ = what;
}

void MessageReader::begin_tunnel() {
  state_ = State::tunnel;
  in_body_ = false;
}

void MessageReader::feed(std::string_view bytes) {
  while (!bytes.empty() && problem_.empty()) {
    switch (state_) {
      case State::tunnel:
        if (on_tunnel) on_tunnel(bytes);
        return;
      case State::until_close: message_.body.append(bytes); return;
      case State::length:
      case State::chunk: {
        const std::size_t part = std::min(left_, bytes.size());
        message_.body.append(bytes.substr(0, part));
        bytes.remove_prefix(part);
        left_ -= part;
        if (left_ > 0) return;
        if (state_ == State::length) {
          complete();
        } else {
          state_ = State::chunk_end;
        }
        break;
      }
      case State::start:
      case State::fields:
      case State::chunk_size:
      case State::chunk_end:
      case State::trailers: {
        const std::size_t at = bytes.find('\n');
        const std::size_t part = at == std::string_view::npos ? bytes.size() : at + 1;
        line_.append(bytes.substr(0, part));
        bytes.remove_prefix(part);
        if (line_.size() > longest_line) return wrong("a line without an end");
        if (!line_.ends_with('\n')) return;
        if (!line_.ends_with("\r\n")) return wrong("a line that ends without CR: " + line_);
        if (!in_body_) message_.head_text.append(line_);
        line_.resize(line_.size() - 2);
        take_line();
        line_.clear();
        break;
      }
    }
  }
}

void MessageReader::take_line() {
  switch (state_) {
    case State::start: return start_line();
    case State::fields:
      if (line_.empty()) return head_is_here();
      if (!add_field()) wrong("a malformed field: " + line_);
      return;
    case State::chunk_size: return chunk_size();
    case State::chunk_end:
      if (!line_.empty()) return wrong("a chunk longer than its size");
      state_ = State::chunk_size;
      return;
    case State::trailers:
      if (line_.empty()) return complete();
      if (!add_field()) wrong("a malformed trailer: " + line_);
      return;
    case State::length:
    case State::chunk:
    case State::until_close:
    case State::tunnel: return;
  }
}

void MessageReader::start_line() {
  message_ = {};
  message_.head_text = line_ + "\r\n";
  state_ = State::fields;
  if (of_ == Of::requests) {
    request_line();
  } else {
    status_line();
  }
}

void MessageReader::request_line() {
  const std::size_t first = line_.find(' ');
  const std::size_t last = line_.rfind(' ');
  if (first == std::string::npos || last <= first + 1) return wrong("a malformed request line: " + line_);
  message_.method = line_.substr(0, first);
  message_.target = line_.substr(first + 1, last - first - 1);
  if (!is_token(message_.method) || message_.target.find(' ') != std::string::npos || !line_.ends_with(" HTTP/1.1")) {
    wrong("a malformed request line: " + line_);
  }
}

void MessageReader::status_line() {
  if (expected_.empty()) return wrong("a response without a request: " + line_);
  const bool fits = line_.size() >= 13 && line_.starts_with("HTTP/1.1 ") && line_[12] == ' ';
  if (!fits || !is_number(line_.substr(9, 3)) || line_[9] < '1' || line_[9] > '5') {
    return wrong("a malformed status line: " + line_);
  }
  message_.status = (line_[9] - '0') * 100 + (line_[10] - '0') * 10 + (line_[11] - '0');
}

bool MessageReader::add_field() {
  const std::size_t colon = line_.find(':');
  if (colon == std::string::npos || !is_token(std::string_view(line_).substr(0, colon))) return false;
  std::string_view value = std::string_view(line_).substr(colon + 1);
  while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
  while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
  const bool printable = std::ranges::all_of(
      value, [](char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); });
  if (!printable) return false;
  message_.fields.emplace_back(line_.substr(0, colon), value);
  return true;
}

void MessageReader::head_is_here() {
  frame_body();
  if (!problem_.empty()) return;
  in_body_ = message_.framing != Message::Framing::none;
  if (on_head) on_head(message_);
  if (state_ == State::tunnel) return;
  if (message_.status == 101) return begin_tunnel();
  if (message_.status >= 100 && message_.status < 200) {
    state_ = State::start;  // the response follows
    return;
  }
  switch (message_.framing) {
    case Message::Framing::none: return complete();
    case Message::Framing::length:
      left_ = message_.length;
      state_ = State::length;
      if (left_ == 0) complete();
      return;
    case Message::Framing::chunked: state_ = State::chunk_size; return;
    case Message::Framing::until_close: state_ = State::until_close; return;
  }
}

void MessageReader::frame_body() {
  std::vector<std::string> lengths;
  std::vector<std::string> codings;
  for (const auto& [name, value] : message_.fields) {
    if (alike(name, "Content-Length")) lengths.push_back(value);
    if (alike(name, "Transfer-Encoding")) codings.push_back(value);
  }
  if (lengths.size() > 1 || codings.size() > 1) return wrong("a message that is framed twice");
  if (!lengths.empty() && !codings.empty()) return wrong("a message with a length and a transfer coding");
  if (!lengths.empty() && !is_number(lengths[0])) return wrong("a malformed length: " + lengths[0]);
  if (!codings.empty() && !alike(codings[0], "chunked")) return wrong("a transfer coding: " + codings[0]);
  const bool response = of_ == Of::responses;
  const bool bodiless = response && (message_.status < 200 || message_.status == 204 || message_.status == 304);
  const bool must_not = response && (message_.status < 200 || message_.status == 204);
  if (must_not && (!lengths.empty() || !codings.empty())) {
    return wrong(fmt::format("a {} with a length or a transfer coding", message_.status));
  }
  if (bodiless || (response && expected_.front() == "HEAD")) return;
  if (!lengths.empty()) {
    message_.length = std::stoull(lengths[0]);
    message_.framing = Message::Framing::length;
  } else if (!codings.empty()) {
    message_.framing = Message::Framing::chunked;
  } else if (response) {
    message_.framing = Message::Framing::until_close;
  }
}

void MessageReader::chunk_size() {
  const bool hex = !line_.empty() && line_.size() <= 8 &&
                   std::ranges::all_of(line_, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
  if (!hex) return wrong("a malformed chunk size: " + line_);
  left_ = std::stoul(line_, nullptr, 16);
  state_ = left_ == 0 ? State::trailers : State::chunk;
}

void MessageReader::complete() {
  state_ = State::start;
  in_body_ = false;
  ++messages_;
  if (of_ == Of::responses) expected_.pop_front();
  const Message whole = std::exchange(message_, {});
  if (on_message) on_message(whole);
}

void MessageReader::end() {
  if (state_ == State::until_close && problem_.empty()) complete();
}

}  // namespace once::sim
