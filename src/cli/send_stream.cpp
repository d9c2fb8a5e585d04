// once send --stream and --stop.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/keys.hpp"
#include "cli/output.hpp"
#include "cli/send.hpp"
#include "client/error_body.hpp"

namespace once::cli {

namespace {

using client::Stopped;
using client::StreamEnd;
using client::StreamResult;

// The progress of the output.
struct Written {
  std::uint64_t given = 0;    // bytes received
  std::uint64_t written = 0;  // bytes of them written
  std::string error;
};

client::Reader writer(const Sending& sending, const SendOutput& output, const std::stop_token& stop, Written& written) {
  return {.on_head =
              [&](const client::Answer& head) {
                warn_if_unprotected(sending.options, head);
                if (!output.begin(head, sending.options.include)) written.error = system_error_text();
              },
          .on_bytes =
              [&](std::string_view bytes) {
                const std::size_t size = written.error.empty() ? output.write(bytes, stop) : 0;
                written.given += bytes.size();
                written.written += size;
                if (size == bytes.size()) return client::Reading::go_on;
                if (written.error.empty() && !stop.stop_requested()) written.error = system_error_text();
                return client::Reading::leave;
              }};
}

std::string key_option(const SendOptions& options, const client::Result& result) {
  return options.key_file.empty() ? "--key " + result.key : fmt::format("--key-file {}", options.key_file);
}

// The options to continue after the written bytes. With --output the file is written again from its start, so no offset
// is given.
std::string continuing(const SendOptions& options, const StreamResult& got, const Written& written) {
  std::string text = key_option(options, got.result);
  const std::uint64_t offset = got.received - written.given + written.written;
  if (offset == 0 || !options.output.empty()) return text;
  text += fmt::format(" -H 'Idempotency-Offset: {}'", offset);
  if (got.attempt != 0) text += fmt::format(" -H 'Idempotency-Attempt: {}'", got.attempt);
  return text;
}

// Whether this is a command that continuing() printed.
bool asks_for_rest(const client::Request& request) {
  return std::ranges::any_of(request.headers,
                             [](const client::Header& header) { return iequals(header.name, "Idempotency-Offset"); });
}

bool is_stopped(const client::StopResult& got) {
  return got.result.answer && got.result.answer->status / 100 == 2 &&
         !got.result.answer->header("Idempotency-Stopped").empty();
}

// Whether a header of the request may identify its caller. Which one does depends on the gateway's configuration.
bool may_name_caller(const client::Request& request) {
  static constexpr std::array<std::string_view, 6> others = {"Accept",        "Content-",    "Idempotency-",
                                                             "Last-Event-ID", "traceparent", "User-Agent"};
  if (request.url.contains('@')) return true;  // a user name, which is sent as Authorization
  return std::ranges::any_of(request.headers, [](const client::Header& header) {
    return std::ranges::none_of(others, [&](std::string_view other) {
      return iequals(std::string_view(header.name).substr(0, other.size()), other);
    });
  });
}

// A stop needs a caller, so it is not suggested for a request that cannot have one.
void explain_left(const Sending& sending, const StreamResult& got, const Written& written) {
  std::string text = fmt::format("left; the request continues at the server. To continue, run the same command with {}",
                                 continuing(sending.options, got, written));
  if (may_name_caller(sending.request)) {
    text += fmt::format("; to end it, with --stop {}", key_option(sending.options, got.result));
  }
  print_error(text);
}

// Why a stop was refused: the status, and the problem's code and text.
std::string why_not_stopped(const client::Result& result) {
  if (!result.answer || result.answer->status < 400) {
    return result.detail.empty() ? std::string(name(result.happened)) : result.detail;
  }
  const client::ErrorBody error = client::read_error_body(result.answer->body);
  std::string text =
      fmt::format("{} {}", result.answer->status, error.code.empty() ? name(result.happened) : error.code);
  if (!error.detail.empty()) text += ": " + error.detail;
  if (!result.detail.empty()) text += fmt::format(" ({})", result.detail);
  return plain(std::move(text));
}

// Ctrl-C with --stop-on-interrupt. A second one ends this too.
void stop_interrupted(const Sending& sending, const StreamResult& got, const Written& written) {
  const Interruption interruption;
  if (!sending.options.quiet) print_error("interrupted; stopping the request");
  client::Request request = sending.request;
  request.key = got.result.key;
  const client::StopResult stopped = sending.client.stop(request, {}, interruption.token());
  if (!is_stopped(stopped)) {
    print_error("could not be stopped: " + why_not_stopped(stopped.result));
    explain_left(sending, got, written);
  } else if (!sending.options.quiet) {
    print_error(stopped.stopped == Stopped::yes ? "stopped" : "the response had ended already");
  }
}

void explain_broken(const Sending& sending, const StreamResult& got, const Written& written) {
  const client::Result& result = got.result;
  const std::string again = continuing(sending.options, got, written);
  switch (got.end) {
    case StreamEnd::whole:
      if (sending.options.quiet) return;
      print_error(fmt::format("{} after {} {}, {} bytes{}", result.answer->status, result.tries,
                              result.tries == 1 ? "try" : "tries", written.given,
                              got.stopped == Stopped::yes ? ", stopped by its caller" : ""));
      return;
    case StreamEnd::new_attempt:
      print_error(fmt::format(
          "{}: what was written so far does not continue. Discard it, and run the same command "
          "with --key {}{}",
          result.detail, result.key,
          asks_for_rest(sending.request) ? ", without the headers Idempotency-Offset and Idempotency-Attempt" : ""));
      return;
    case StreamEnd::not_protected:
      print_error(
          "the connection broke, and the response did not say that its key was honoured: a retry might execute the "
          "request again");
      return;
    case StreamEnd::refused:
      print_error(
          fmt::format("the connection broke, and the retry was answered with {} {}; with another response, "
                      "continue with {}",
                      result.answer->status, name(result.happened), again));
      return;
    case StreamEnd::gave_up:
      print_error(fmt::format("{}; to continue, run the same command with {}", result.detail, again));
      return;
    case StreamEnd::left: explain_left(sending, got, written); return;
    case StreamEnd::outcome_unknown:
    case StreamEnd::not_begun: explain_no_answer(sending.options, result); return;
  }
}

int code_of_end(const StreamResult& got) {
  switch (got.end) {
    case StreamEnd::whole:
    case StreamEnd::not_begun: return send_exit_code(got.result);
    case StreamEnd::new_attempt: return send_exit::executed_again;
    case StreamEnd::outcome_unknown:
    case StreamEnd::refused:
    case StreamEnd::not_protected:
    case StreamEnd::gave_up:
    case StreamEnd::left: break;
  }
  return send_exit::not_known;
}

// A response that is not 2xx is not passed to the reader: it is the result's answer.
int write_other(const Sending& sending, const SendOutput& output, const client::Result& result) {
  warn_if_unprotected(sending.options, *result.answer);
  if (is_too_large(result)) return 0;
  const std::string& body = result.answer->body;
  if (output.begin(*result.answer, sending.options.include) && output.write(body, {}) == body.size()) return 0;
  print_error(fmt::format("the response could not be written: {}", system_error_text()));
  return send_exit::failed;
}

// The origin of the key was already printed, and the last try's result is printed at the end.
client::Watcher stop_progress(const SendOptions& options) {
  if (options.quiet) return {};
  return {.on_key = [](std::string_view key, client::KeyOrigin /*origin*/) { print_error(fmt::format("key {}", key)); },
          .on_try =
              [tell = send_progress(options).on_try](const client::TryReport& report) {
                if (report.next_after) tell(report);
              }};
}

}  // namespace

int send_stream(const Sending& sending, const SendOutput& output) {
  Written written;
  StreamResult got;
  int signal = 0;
  {
    const Interruption interruption;
    const std::stop_token stop = interruption.token();
    got = sending.client.stream(sending.request, writer(sending, output, stop, written), send_progress(sending.options),
                                stop);
    signal = interruption.signal();
  }
  const bool interrupted = got.result.stop_reason == client::StopReason::cancelled && written.error.empty();
  if (!written.error.empty()) print_error(fmt::format("the response could not be written: {}", written.error));
  if (interrupted && sending.options.stop_on_interrupt && got.result.work != client::Work::not_sent) {
    stop_interrupted(sending, got, written);
  } else {
    explain_broken(sending, got, written);
  }
  if (!written.error.empty()) return send_exit::failed;
  if (interrupted) return send_exit::by_signal + signal;
  if (got.end == StreamEnd::not_begun && got.result.answer) {
    if (const int code = write_other(sending, output, got.result); code != 0) return code;
  }
  return code_of_end(got);
}

int send_stop(const Sending& sending) {
  const Interruption interruption;
  const client::StopResult got =
      sending.client.stop(sending.request, stop_progress(sending.options), interruption.token());
  const client::Result& result = got.result;
  if (result.stop_reason == client::StopReason::cancelled) {
    print_error("interrupted; it is unknown whether the request was stopped. A stop may be repeated");
    return send_exit::by_signal + interruption.signal();
  }
  if (result.stop_reason == client::StopReason::key_file) {
    print_error(result.detail + "; --stop needs the key file of the request that it stops");
    return send_exit::failed;
  }
  if (is_stopped(got)) {
    if (sending.options.quiet) return 0;
    print_error(got.stopped == Stopped::yes
                    ? "stopped; the same command without --stop gets the recorded part of the response"
                    : "the response had ended already");
    return 0;
  }
  if (result.happened == client::Happened::success) {
    print_error(
        "the response does not say Idempotency-Stopped: this server does not support it, and took the request as a "
        "DELETE");
    return send_exit::not_known;
  }
  if (result.answer) print(result.answer->body);
  print_error("not stopped: " + why_not_stopped(result));
  // A stop may be repeated, so an earlier try leaves nothing open.
  const bool answered = result.stop_reason == client::StopReason::answered;
  return answered && result.answer->header("Idempotency-Status") != "unknown"
             ? send_code_of_status(result.answer->status)
             : send_exit_code(result);
}

}  // namespace once::cli
