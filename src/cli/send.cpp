// once send: curl for writes. One operation, one key, retried until there is an answer.
#include "cli/send.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/descriptor.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/keys.hpp"
#include "cli/output.hpp"
#include "once/client.hpp"

namespace once::cli {

namespace {

using client::StopReason;
using client::Work;

constexpr std::size_t most_data = std::size_t{64} << 20;

// -d: the data itself, @FILE, or @- for standard input. Read once, so every try sends the same bytes.
std::expected<std::string, std::string> read_data(const std::string& data) {
  if (!data.starts_with('@')) return data;
  const std::string path = data == "@-" ? "/dev/stdin" : data.substr(1);
  const Descriptor file(data == "@-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return std::unexpected(fmt::format("cannot open {}: {}", path, system_error_text()));
  std::string all;
  std::string block(std::size_t{64} << 10, '\0');
  while (true) {
    const ssize_t size = ::read(file.get(), block.data(), block.size());
    if (size == 0) return all;
    if (size < 0) return std::unexpected(fmt::format("cannot read {}: {}", path, system_error_text()));
    all.append(block, 0, static_cast<std::size_t>(size));
    if (all.size() > most_data) {
      return std::unexpected(
          fmt::format("{} is larger than {}: send it with curl and an Idempotency-Key", path, format_size(most_data)));
    }
  }
}

std::expected<client::Request, std::string> request_of(const SendOptions& options, std::string body) {
  client::Request request{.method = options.method, .url = options.url, .key = options.key};
  bool typed = false;
  for (const std::string& line : options.headers) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return std::unexpected(fmt::format("-H \"{}\" is not \"Name: value\"", line));
    const std::string_view name = trim(std::string_view(line).substr(0, colon));
    if (iequals(name, options.key_header)) return std::unexpected("use --key for the key");
    typed = typed || iequals(name, "Content-Type");
    request.headers.push_back(
        {.name = std::string(name), .value = std::string(trim(std::string_view(line).substr(colon + 1)))});
  }
  request.body = std::move(body);
  if (!typed && !request.body.empty()) request.headers.push_back({.name = "Content-Type", .value = "application/json"});
  return request;
}

std::expected<client::Options, std::string> client_options(const SendOptions& options) {
  const auto deadline = parse_duration(options.deadline);
  const auto timeout = parse_duration(options.timeout);
  if (!deadline) return std::unexpected(fmt::format("--deadline {} is not a duration such as 2m", options.deadline));
  if (!timeout) return std::unexpected(fmt::format("--timeout {} is not a duration such as 30s", options.timeout));
  if (!options.ca_file.empty() && ::access(options.ca_file.c_str(), R_OK) != 0) {
    return std::unexpected(
        fmt::format("--cacert: {} cannot be read: {}", options.ca_file, std::generic_category().message(errno)));
  }
  client::Options made;
  made.key_header = options.key_header;
  made.key_file = options.key_file;
  made.max_retries = options.retries;
  made.deadline = *deadline;
  made.try_timeout = *timeout;
  made.server_errors = options.retry_500 ? client::RetryServerErrors::yes : client::RetryServerErrors::no;
  made.ca_file = options.ca_file;
  made.user_agent = "once/" ONCE_VERSION;
  return made;
}

std::string_view origin_text(client::KeyOrigin origin) {
  switch (origin) {
    case client::KeyOrigin::made: return "new";
    case client::KeyOrigin::given: return "given";
    case client::KeyOrigin::resumed: return "resumed";
  }
  return {};
}

void report_answer(const SendOptions& options, const client::Result& result) {
  if (options.quiet) return;
  const bool replayed = result.answer->replayed == client::Replayed::yes;
  print_error(fmt::format("{} after {} {}{}", result.answer->status, result.tries, result.tries == 1 ? "try" : "tries",
                          replayed ? ", replayed" : ""));
}

int send_whole(const Sending& sending, const SendOutput& output) {
  const SendOptions& options = sending.options;
  const Interruption interruption;
  const client::Result result = sending.client.send(sending.request, send_progress(options), interruption.token());
  if (result.stop_reason == StopReason::answered && result.work == Work::answered) {
    report_answer(options, result);
  } else {
    explain_no_answer(options, result);
  }
  if (result.answer) warn_if_unprotected(options, *result.answer);
  if (result.stop_reason == StopReason::cancelled) return send_exit::by_signal + interruption.signal();
  if (result.answer && !is_too_large(result) &&
      (!output.begin(*result.answer, options.include) ||
       output.write(result.answer->body, {}) < result.answer->body.size())) {
    print_error(fmt::format("the response could not be written: {}", system_error_text()));
    return send_exit::failed;
  }
  return send_exit_code(result);
}

int send(const SendOptions& options) {
  if (options.stop && options.key.empty() && options.key_file.empty()) {
    print_error("--stop needs the --key or the --key-file of the request");
    return send_exit::wrong_usage;
  }
  auto data = read_data(options.stop ? std::string() : options.data);
  if (!data) {
    print_error(data.error());
    return send_exit::failed;
  }
  auto request = request_of(options, *std::move(data));
  auto settings = client_options(options);
  if (!request || !settings) {
    print_error(!request ? request.error() : settings.error());
    return send_exit::wrong_usage;
  }
  const Sending sending{.options = options, .request = *std::move(request), .client = Client(*std::move(settings))};
  if (options.stop) return send_stop(sending);
  const auto output = SendOutput::open(options.output);
  if (!output) {
    print_error(output.error());
    return send_exit::failed;
  }
  return options.stream ? send_stream(sending, *output) : send_whole(sending, *output);
}

void explain_too_large(const client::Result& result, const std::string& again) {
  const std::string_view idempotency_status = result.answer->header("Idempotency-Status");
  std::string text = fmt::format("{}, {}{}: {}", result.answer->status,
                                 idempotency_status.empty() ? "no Idempotency-Status" : "Idempotency-Status: ",
                                 plain(std::string(idempotency_status)), result.detail);
  if (result.answer->status / 100 == 2) {
    const bool safe =
        !idempotency_status.empty() && idempotency_status != "bypassed";  // a repeated request would be executed again
    text += safe ? fmt::format("; to read it, run the same command with --stream {}", again)
                 : "; such a response needs --stream";
  }
  print_error(text);
}

// An unset variable of a script must not become a new key: the next run would be executed again.
std::string check_not_empty(const std::string& value) {
  return value.empty() ? "it is empty; leave the option out for a new key" : "";
}

void add_options(CLI::App& command, SendOptions& options) {
  command.add_option("method", options.method, "POST, PATCH …")->required()->type_name("METHOD");
  command.add_option("url", options.url, "http:// or https://")->required()->type_name("URL");
  command
      .add_option("-d,--data", options.data, "The body: the text itself, @FILE, or @- for standard input; up to 64 MiB")
      ->type_name("DATA");
  command.add_option("-H,--header", options.headers, "A header, \"Name: value\"; may be repeated")
      ->type_name("HEADER")
      ->allow_extra_args(false);
  auto* key = command.add_option("--key", options.key, "The key; the default is a new one")
                  ->type_name("KEY")
                  ->check(check_not_empty);
  command
      .add_option("--key-file", options.key_file,
                  "Keep the key in this file, one file per operation; the next run continues with the same key")
      ->type_name("FILE")
      ->check(check_not_empty)
      ->excludes(key);
  command.add_option("--key-header", options.key_header, "The key's header; the default is Idempotency-Key")
      ->type_name("NAME");
  command.add_option("--retries", options.retries, "Tries after the first; the default is 8")->type_name("N");
  command.add_option("--deadline", options.deadline, "The limit for all tries together; the default is 2m")
      ->type_name("TIME");
  command.add_option("--timeout", options.timeout, "The limit for one try; the default is 30s")->type_name("TIME");
  command.add_flag("--retry-500", options.retry_500, "Retry after a 500, too");
  command.add_option("--cacert", options.ca_file, "Certificates to trust instead of the system's")->type_name("FILE");
  command.add_flag("-i,--include", options.include, "Print the status and the headers before the body");
  command.add_option("-o,--output", options.output, "Write the response to this file instead of standard output")
      ->type_name("FILE");
  command.add_flag("-q,--quiet", options.quiet, "Print only errors on standard error");
  auto* stream = command.add_flag("--stream", options.stream,
                                  "Write the body as it comes, and continue it if the connection breaks; --timeout is "
                                  "then the longest silence");
  command
      .add_flag("--stop-on-interrupt", options.stop_on_interrupt,
                "With --stream: Ctrl-C asks Once to stop the request, as --stop does, instead of only leaving it")
      ->needs(stream);
  command.add_flag("--stop", options.stop,
                   "Stop the request with this method, URL and --key or --key-file, whose response streams through "
                   "Once; give the headers that name its caller");
}

}  // namespace

client::Watcher send_progress(const SendOptions& options) {
  if (options.quiet) return {};
  return {.on_key = [](std::string_view key,
                       client::KeyOrigin origin) { print_error(fmt::format("key {} ({})", key, origin_text(origin))); },
          .on_try =
              [](const client::TryReport& report) {
                std::string text = fmt::format("try {}: ", report.number);
                if (report.status != 0) text += fmt::format("{} ", report.status);
                text += name(report.happened);
                if (!report.detail.empty()) text += fmt::format(" ({})", report.detail);
                if (report.next_after) text += fmt::format("; next try in {}", format_duration(*report.next_after));
                print_error(text);
              }};
}

int send_code_of_status(int status) {
  if (status >= 500) return send_exit::server_failed;
  if (status >= 400) return send_exit::refused;
  return status >= 300 ? send_exit::redirected : send_exit::well;
}

// Whether the status is known but the body was too large to read.
bool is_too_large(const client::Result& result) {
  return result.happened == client::Happened::answer_too_large && result.answer.has_value();
}

int send_exit_code(const client::Result& result) {
  if (is_too_large(result)) {
    const int code = send_code_of_status(result.answer->status);
    return code == send_exit::well ? send_exit::failed : code;
  }
  switch (result.stop_reason) {
    case StopReason::bad_request: return send_exit::wrong_usage;
    case StopReason::key_file: return send_exit::failed;
    case StopReason::answered:
      if (result.work == Work::answered) return send_code_of_status(result.answer->status);
      break;
    case StopReason::not_retried:
    case StopReason::retries_spent:
    case StopReason::deadline:
    case StopReason::cancelled: break;
  }
  return result.work == Work::not_sent ? send_exit::not_sent : send_exit::not_known;
}

void explain_no_answer(const SendOptions& options, const client::Result& result) {
  const std::string again =
      options.key_file.empty() ? "--key " + result.key : fmt::format("--key-file {}", options.key_file);
  if (is_too_large(result)) return explain_too_large(result, again);
  if (!result.detail.empty()) print_error(result.detail);
  if (result.stop_reason == StopReason::bad_request || result.stop_reason == StopReason::key_file) return;
  if (result.happened == client::Happened::unknown_held || result.happened == client::Happened::broken_off ||
      result.happened == client::Happened::said_not_to_retry) {
    print_error(
        fmt::format("the outcome is unknown, and retries get the same response until the operator of the API has "
                    "resolved the key (`once keys list --state unsettled`); then run the same command with {}",
                    again));
    return;
  }
  print_error(result.work == Work::not_sent
                  ? fmt::format("nothing was sent; to try again, run the same command with {}", again)
                  : fmt::format("it is unknown whether the request was executed; to continue, run the same command "
                                "with {}",
                                again));
}

// Without a gateway that honours the key, a retry may be executed a second time. Refusals and errors may come from a
// proxy, and prove nothing. Other servers that honour keys need not report it: --quiet is for those.
void warn_if_unprotected(const SendOptions& options, const client::Answer& answer) {
  const std::string_view idempotency_status = answer.header("Idempotency-Status");
  if (idempotency_status == "bypassed") {
    print_error(
        "warning: Idempotency-Status: bypassed: Once did not protect this request, and a retry may be executed "
        "again; use a method that the route covers, and check that the store is up");
  } else if (idempotency_status.empty() && answer.replayed == client::Replayed::unsaid && answer.status < 400 &&
             !options.quiet) {
    print_error(
        "warning: the response has no Idempotency-Status: if this server ignores the key, a retry may be executed "
        "again; send the request through Once");
  }
}

Run add_send(CLI::App& app) {
  CLI::App* command = app.add_subcommand("send", "Send one request with a key and retry it until there is a response");
  const auto options = std::make_shared<SendOptions>();
  add_options(*command, *options);
  command->footer(
      "Every try has the same key and the same bytes, so behind Once, or any API that supports the key, it is "
      "executed once.\n"
      "The default Content-Type of a body is application/json. Redirects are not followed.\n"
      "If the response does not show that the key was used (Idempotency-Status), there is a warning on standard "
      "error.\n"
      "Exit codes: 0 the response is 2xx\n"
      "            1 a file could not be used, or the response is over 16 MiB (without --stream)\n"
      "            2 wrong usage; nothing was sent\n"
      "            3 the response is 3xx\n"
      "            4 refused: the response is 4xx\n"
      "            5 the server failed: the response is 5xx and not retryable\n"
      "            6 could not connect; nothing was sent\n"
      "            7 gave up, and the outcome is unknown: continue with the same key\n"
      "            8 executed again, with --stream: discard the output and continue with the same key\n"
      "            130 interrupted (128 plus the signal's number); the key is printed");
  return [options] { return send(*options); };
}

}  // namespace once::cli
