#include "cli/demo_backend.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "core/json_scanner.hpp"
#include "core/json_text.hpp"
#include "http/endpoint.hpp"

namespace once::cli {

namespace {

using http::ServiceRequest;
using http::ServiceResponse;

constexpr Duration slow_work = std::chrono::seconds(2);
constexpr std::size_t longest_amount = 15;
constexpr std::string_view payments_path = "/payments";

enum class Mode : std::uint8_t {
  works,
  slow,
  fail,    // answers 500 at the first attempt
  flaky,   // pays, then drops the connection
  refuse,  // answers 429 and pays nothing
  unknown,
};

Mode mode_of(std::string_view target) {
  const std::size_t question = target.find('?');
  if (question == std::string_view::npos) return Mode::works;
  for (const std::string_view parameter : split(target.substr(question + 1), '&')) {
    if (!parameter.starts_with("mode=")) continue;
    const std::string_view name = parameter.substr(parameter.find('=') + 1);
    if (name == "slow") return Mode::slow;
    if (name == "fail") return Mode::fail;
    if (name == "flaky") return Mode::flaky;
    if (name == "refuse") return Mode::refuse;
    return Mode::unknown;
  }
  return Mode::works;
}

struct Order {
  std::string amount;
  std::string currency;
};

// Parses {"amount": 4200, "currency": "EUR"}, in cents, without other members.
std::optional<Order> read_order(std::string_view json) {
  JsonScanner scanner(json);
  Order order;
  scanner.skip_space();
  if (!scanner.take('{')) return std::nullopt;
  do {
    scanner.skip_space();
    std::string_view text;
    if (scanner.peek() != '"' || !scanner.read_string(text)) return std::nullopt;
    const std::string name(text);
    scanner.skip_space();
    if (!scanner.take(':')) return std::nullopt;
    scanner.skip_space();
    if (name == "amount" && order.amount.empty()) {
      for (char digit = scanner.peek(); digit >= '0' && digit <= '9'; digit = scanner.peek()) {
        order.amount.push_back(digit);
        scanner.take(digit);
      }
    } else if (name == "currency" && order.currency.empty() && scanner.peek() == '"' && scanner.read_string(text)) {
      order.currency = text;
    } else {
      return std::nullopt;
    }
    scanner.skip_space();
  } while (scanner.take(','));
  if (!scanner.take('}')) return std::nullopt;
  scanner.skip_space();
  const bool whole = scanner.at_end() && !order.currency.empty() && !order.amount.empty() &&
                     !order.amount.starts_with('0') && order.amount.size() <= longest_amount;
  return whole ? std::optional(std::move(order)) : std::nullopt;
}

ServiceResponse json(int status, std::string body) {
  return {.status = status, .content_type = "application/json", .body = std::move(body) + "\n", .fields = ""};
}

ServiceResponse error(int status, std::string_view text) {
  std::string body = R"({"error":)";
  append_json_string(body, text);
  return json(status, body + "}");
}

std::string payment_json(std::uint64_t number, const Order& order) {
  std::string out = fmt::format(R"({{"id":"pay_{}","amount":{},"currency":)", number, order.amount);
  append_json_string(out, order.currency);
  return out + R"(,"status":"paid"})";
}

}  // namespace

Task<ServiceResponse> DemoBackend::handle(const ServiceRequest& request) {
  const std::string_view path = request.head.path;
  const bool reads = request.head.method == Method::get || request.head.method == Method::head;
  if (path == payments_path && request.head.method == Method::post) {
    ServiceResponse paid = co_await pay(request);
    co_return paid;
  }
  if (path == payments_path && reads) co_return list();
  if (path.starts_with("/payments/") && reads) co_return show(path.substr(payments_path.size() + 1));
  co_return error(404, "This API has POST /payments, GET /payments and GET /payments/ID.");
}

Task<ServiceResponse> DemoBackend::pay(const ServiceRequest& request) {
  const Mode mode = mode_of(request.head.target);
  if (mode == Mode::unknown) co_return error(400, "mode is slow, fail, flaky or refuse.");
  if (mode == Mode::refuse) {
    ServiceResponse refused = error(429, "Too many payments; this one was not made.");
    refused.fields = "Retry-After: 1\r\n";
    co_return refused;
  }
  // Once numbers the attempts of an operation; without Once every attempt is the first.
  if (mode == Mode::fail && request.head.find("Idempotency-Attempt").value_or("1") == "1") {
    co_return error(500, "Something broke before the payment was made.");
  }
  const auto order = read_order(request.body);
  if (!order) co_return error(400, R"(The body is like {"amount": 4200, "currency": "EUR"}, in cents.)");
  if (mode == Mode::slow) co_await sleep_for(thread_.loop(), slow_work);

  const std::uint64_t number = made_.load(std::memory_order_relaxed) + 1;
  made_.store(number, std::memory_order_relaxed);
  payments_.push_back(payment_json(number, *order));
  if (payments_.size() > payments_kept) payments_.pop_front();

  ServiceResponse paid = json(201, payments_.back());
  paid.fields = fmt::format("Location: /payments/pay_{}\r\n", number);
  paid.drop = mode == Mode::flaky;
  co_return paid;
}

ServiceResponse DemoBackend::list() const {
  std::string out = fmt::format(R"({{"count":{},"payments":[)", payments_made());
  for (const std::string& payment : payments_) {
    if (&payment != &payments_.front()) out += ",";
    out += payment;
  }
  return json(200, out + "]}");
}

ServiceResponse DemoBackend::show(std::string_view id) const {
  const std::string begin = fmt::format(R"({{"id":"{}",)", id);
  for (const std::string& payment : payments_) {
    if (payment.starts_with(begin)) return json(200, payment);
  }
  return error(404, "There is no such payment.");
}

}  // namespace once::cli
