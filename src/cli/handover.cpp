#include "cli/handover.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <poll.h>

#include "base/text.hpp"

namespace once::cli {

namespace {

constexpr std::string_view channel_variable = "ONCE_PREDECESSOR";
constexpr std::string_view kept_variable = "ONCE_SOCKETS_KEPT";
// The longest watchdog timeout: a day, in microseconds. A longer one is cut to this.
constexpr std::uint64_t longest_watchdog = 86'400'000'000;

std::unexpected<Error> system_error(std::string_view what, int error) {
  std::array<char, 128> text{};
  return std::unexpected(Error{.source = ErrorSource::system,
                               .retryable = Retryable::no,
                               .detail = fmt::format("{}: {}", what, ::strerror_r(error, text.data(), text.size()))});
}

std::string variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

bool is_replaced(std::string_view entry) {
  // WATCHDOG_PID is removed, because it names this process. The successor may send pings, too.
  return entry.starts_with("LISTEN_") || entry.starts_with("WATCHDOG_PID") || entry.starts_with(channel_variable) ||
         entry.starts_with(kept_variable);
}

// Everything that the new program needs, allocated before the fork: in a process with threads, the child must not
// allocate.
struct Prepared {
  std::vector<std::string> texts;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::vector<int> descriptors;  // in the order of their new numbers, from 3 on
  std::array<char, 32> pid_text{};
};

void prepare(Prepared& out, const std::vector<std::string>& command, const std::vector<http::InheritedSocket>& sockets,
             SocketsKept kept, int channel) {
  std::string names;
  for (const http::InheritedSocket& socket : sockets) {
    out.descriptors.push_back(socket.fd);
    names += names.empty() ? socket.name : ":" + socket.name;
  }
  out.descriptors.push_back(channel);
  out.texts = command;
  const std::size_t arguments = command.size();
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    if (!is_replaced(*entry)) out.texts.emplace_back(*entry);
  }
  out.texts.push_back(fmt::format("LISTEN_FDS={}", sockets.size()));
  out.texts.push_back(fmt::format("LISTEN_FDNAMES={}", names));
  out.texts.push_back(fmt::format("{}={}", channel_variable, http::first_inherited + sockets.size()));
  if (kept == SocketsKept::yes) out.texts.push_back(fmt::format("{}=1", kept_variable));
  for (std::size_t i = 0; i < out.texts.size(); ++i) {
    (i < arguments ? out.arguments : out.environment).push_back(out.texts[i].data());
  }
  out.arguments.push_back(nullptr);
  out.environment.push_back(out.pid_text.data());
  out.environment.push_back(nullptr);
}

// Runs in the child. First moves descriptors away from the numbers that they are to have.
[[noreturn]] void become(Prepared& prepared) {
  constexpr std::string_view name = "LISTEN_PID=";
  std::memcpy(prepared.pid_text.data(), name.data(), name.size());
  std::to_chars(prepared.pid_text.data() + name.size(), prepared.pid_text.data() + prepared.pid_text.size() - 1,
                ::getpid());
  const int first_free = http::first_inherited + static_cast<int>(prepared.descriptors.size());
  for (int& descriptor : prepared.descriptors) descriptor = ::fcntl(descriptor, F_DUPFD, first_free);
  int number = http::first_inherited;
  for (const int descriptor : prepared.descriptors) {
    ::dup2(descriptor, number++);
    ::close(descriptor);
  }
  ::execve(prepared.arguments.front(), prepared.arguments.data(), prepared.environment.data());
  ::_exit(127);
}

void send(int channel, Message message) {
  const char byte = static_cast<char>(message);
  while (::write(channel, &byte, 1) < 0 && errno == EINTR) {
  }
}

Message read_from(int channel) {
  char byte = 0;
  ssize_t got = -1;
  while ((got = ::read(channel, &byte, 1)) < 0 && errno == EINTR) {
  }
  return got == 1 ? static_cast<Message>(byte) : Message::none;
}

}  // namespace

Result<Successor> Successor::start(const std::vector<std::string>& command,
                                   const std::vector<http::InheritedSocket>& sockets, SocketsKept kept) {
  auto channel = http::channel_pair();
  if (!channel) return std::unexpected(channel.error());
  Prepared prepared;
  prepare(prepared, command, sockets, kept, channel->second.get());
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid == 0) become(prepared);
  return Successor(std::move(channel->first), pid);
}

bool Successor::speaks() const {
  pollfd source{.fd = descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&source, 1, 0) == 1;
}

Message Successor::receive() const {
  return read_from(channel_.get());
}

void Successor::send_yours() const {
  send(channel_.get(), Message::yours);
}

bool Successor::runs() const {
  siginfo_t ended{};
  const auto pid = static_cast<id_t>(pid_);
  return ::waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
}

void Successor::end() const {
  ::kill(pid_, SIGKILL);  // a hanging process would not react to other signals
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

void Predecessor::send_checked() const {
  if (!channel_.open()) return;
  send(channel_.get(), Message::checked);
  // Returns on the message `yours`, and also if the old process has ended.
  read_from(channel_.get());
}

void Predecessor::send_ready() {
  if (!channel_.open()) return;
  send(channel_.get(), Message::ready);
  channel_ = Descriptor();
}

Result<Origin> origin_of_process() {
  Origin origin;
  origin.notify_socket = variable("NOTIFY_SOCKET");
  const std::string watched = variable("WATCHDOG_PID");
  const auto watchdog = parse_number(variable("WATCHDOG_USEC"));
  if (watchdog && (watched.empty() || watched == std::to_string(::getpid()))) {
    origin.watchdog = std::chrono::microseconds(std::min<std::uint64_t>(*watchdog, longest_watchdog));
  }
  const std::string count = variable("LISTEN_FDS");
  // Ignore variables that were set for another process, whose environment this one has inherited.
  if (count.empty() || variable("LISTEN_PID") != std::to_string(::getpid())) return origin;
  auto sockets = http::inherited_sockets(count, variable("LISTEN_FDNAMES"));
  if (!sockets) return std::unexpected(sockets.error());
  origin.sockets = *std::move(sockets);
  const std::string channel = variable(channel_variable);
  if (const auto number = parse_number(channel)) {
    const int descriptor = static_cast<int>(*number);
    if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) return system_error(channel_variable, errno);
    origin.predecessor = Predecessor(descriptor);
  }
  const bool from_manager = !origin.sockets.empty() && channel.empty();
  if (from_manager || variable(kept_variable) == "1") origin.kept = SocketsKept::yes;
  return origin;
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> command;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    command.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed && !command.empty()) command.front() = program.string();
  return command;
}

}  // namespace once::cli
