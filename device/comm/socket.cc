#include "device/comm/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor {
namespace {

constexpr int64_t kMsNs = 1'000'000;

const sockaddr* Plain(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}
sockaddr* Plain(SocketAddress* address) {
  return reinterpret_cast<sockaddr*>(&address->storage);
}

bool Set(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

absl::StatusOr<Socket> NewSocket(int family) {
  Socket socket(
      ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return SocketError("no socket");
  return socket;
}

}  // namespace

int64_t SteadyNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::Status SocketError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

void Socket::Reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

socklen_t SocketAddress::size() const {
  return storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6)
                                       : sizeof(sockaddr_in);
}

int SocketAddress::port() const {
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&storage);
  return ntohs(storage.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

void SocketAddress::set_port(int port) {
  const uint16_t value = htons(static_cast<uint16_t>(port));
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = value;
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = value;
  }
}

bool SocketAddress::is_loopback() const {
  if (storage.ss_family == AF_INET6) {
    const in6_addr& address =
        reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&address) ||
           (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
  }
  const in_addr& address =
      reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr;
  return (ntohl(address.s_addr) >> 24) == 127;
}

std::string SocketAddress::HostText() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET6) {
    inet_ntop(AF_INET6,
              &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, text,
              sizeof(text));
  } else {
    inet_ntop(AF_INET,
              &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text,
              sizeof(text));
  }
  return text;
}

std::string SocketAddress::ToString() const {
  return storage.ss_family == AF_INET6
             ? absl::StrCat("[", HostText(), "]:", port())
             : absl::StrCat(HostText(), ":", port());
}

SocketAddress Loopback() {
  SocketAddress address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  v4->sin_family = AF_INET;
  v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

SocketAddress LocalAddress(int fd) {
  SocketAddress address;
  socklen_t size = sizeof(address.storage);
  if (getsockname(fd, Plain(&address), &size) != 0) return {};
  return address;
}

SocketAddress PeerAddress(int fd) {
  SocketAddress address;
  socklen_t size = sizeof(address.storage);
  if (getpeername(fd, Plain(&address), &size) != 0) return {};
  return address;
}

bool IsRemote(int fd) {
  const SocketAddress peer = PeerAddress(fd);
  return !peer.is_loopback() && peer.HostText() != LocalAddress(fd).HostText();
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host,
                                                   int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return absl::NotFoundError(
        absl::StrCat("the name ", host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list,
                                                             freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.set_port(port);
    addresses.push_back(address);
  }
  if (addresses.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the name ", host, " has no IP address"));
  }
  return addresses;
}

absl::StatusOr<Socket> ListenAt(const SocketAddress& address, int backlog) {
  CASTOR_ASSIGN_OR_RETURN(Socket socket, NewSocket(address.storage.ss_family));
  // Connections that a former run left behind (TIME_WAIT) are no hindrance.
  Set(socket.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) {
    Set(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (bind(socket.fd(), Plain(address), address.size()) != 0 ||
      listen(socket.fd(), backlog) != 0) {
    const int error = errno;
    const std::string text = absl::StrCat("listening at ", address.ToString(),
                                          ": ", std::strerror(error));
    if (error == EADDRINUSE) return absl::AlreadyExistsError(text);
    if (error == EACCES) return absl::PermissionDeniedError(text);
    return absl::UnavailableError(text);
  }
  return socket;
}

absl::StatusOr<Socket> ListenOnAll(int port, int backlog) {
  SocketAddress address;  // all zero: any
  address.storage.ss_family = AF_INET6;
  address.set_port(port);
  absl::StatusOr<Socket> both = ListenAt(address, backlog);
  if (both.ok() || !absl::IsUnavailable(both.status())) return both;
  address.storage.ss_family = AF_INET;  // IPv6 is switched off
  return ListenAt(address, backlog);
}

absl::StatusOr<Socket> ListenAtOrOnAll(const SocketAddress& address,
                                       int backlog) {
  absl::StatusOr<Socket> at = ListenAt(address, backlog);
  if (at.ok() || !absl::IsUnavailable(at.status())) return at;
  return ListenOnAll(address.port(), backlog);
}

Socket AcceptNow(int listener) {
  Socket socket(
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) ConfigureSocket(socket.fd());
  return socket;
}

absl::StatusOr<Socket> ConnectTo(const SocketAddress& address,
                                 int64_t until_ns) {
  CASTOR_ASSIGN_OR_RETURN(Socket socket, NewSocket(address.storage.ss_family));
  ConfigureSocket(socket.fd());
  int error = 0;
  if (connect(socket.fd(), Plain(address), address.size()) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof(error);
      if (!WaitForSocket(socket.fd(), POLLOUT, until_ns)) {
        error = ETIMEDOUT;
      } else if (getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) !=
                 0) {
        error = errno;
      }
    }
  }
  // Where nobody listens at a port of the kind that the system itself gives
  // out, a connection can meet itself.
  if (error == 0 && LocalAddress(socket.fd()).port() == address.port() &&
      LocalAddress(socket.fd()).ToString() == address.ToString()) {
    error = ECONNREFUSED;
  }
  if (error != 0) {
    errno = error;
    return SocketError(absl::StrCat("connecting to ", address.ToString()));
  }
  return socket;
}

void ConfigureSocket(int fd) {
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 3);
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  Set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool WaitForSocket(int fd, short events, int64_t until_ns) {
  pollfd entry = {.fd = fd, .events = events, .revents = 0};
  while (true) {
    const int64_t left_ns = until_ns - SteadyNowNs();
    if (left_ns <= 0) return false;
    const int ready = poll(&entry, 1, static_cast<int>(left_ns / kMsNs) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

absl::Status ReadAll(int fd, void* data, size_t bytes, int64_t until_ns) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
    if (got == 0) return absl::UnavailableError("reading: it has hung up");
    if (got > 0) {
      at += got;
      bytes -= got;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return SocketError("reading");
    if (!WaitForSocket(fd, POLLIN, until_ns)) {
      return absl::UnavailableError("reading: no answer in time");
    }
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, const void* data, size_t bytes,
                      int64_t until_ns) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put >= 0) {
      at += put;
      bytes -= put;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return SocketError("writing");
    if (!WaitForSocket(fd, POLLOUT, until_ns)) {
      return absl::UnavailableError("writing: nothing is taken in time");
    }
  }
  return absl::OkStatus();
}

}  // namespace castor
