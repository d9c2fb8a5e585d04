#include "http/activation.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/descriptor.hpp"
#include "base/text.hpp"

namespace once::http {

namespace {

constexpr std::uint64_t most_inherited = 1024;

std::unexpected<Error> refused(std::string detail) {
  return std::unexpected(Error{.source = ErrorSource::config, .retryable = Retryable::no, .detail = std::move(detail)});
}

bool listens(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

}  // namespace

Result<std::vector<InheritedSocket>> inherited_sockets(std::string_view count, std::string_view names) {
  const auto number = parse_number(count);
  if (!number || *number > most_inherited) return refused(fmt::format("LISTEN_FDS is \"{}\", not a number", count));
  std::vector<InheritedSocket> sockets;
  for (std::uint64_t i = 0; i < *number; ++i) {
    const int fd = first_inherited + static_cast<int>(i);
    const std::size_t colon = std::min(names.find(':'), names.size());
    if (!listens(fd)) return refused(fmt::format("LISTEN_FDS: descriptor {} is not a listening socket", fd));
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    sockets.push_back({.name = std::string(names.substr(0, colon)), .fd = fd});
    names.remove_prefix(std::min(colon + 1, names.size()));
  }
  return sockets;
}

ServiceManager::ServiceManager(std::string_view socket) : socket_(socket) {
  if (!socket_.empty()) sender_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

void ServiceManager::notify(std::string_view state) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!sender_.open() || socket_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // an abstract socket
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  ::sendto(sender_.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
}

Result<std::pair<Descriptor, Descriptor>> channel_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return refused("cannot make a pair of sockets");
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

}  // namespace once::http
