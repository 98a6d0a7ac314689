// TCP sockets between the ranks of a run, over IPv4 and IPv6.
//
// Every wait has a deadline, a time of SteadyNowNs(). A failed call gives
// Unavailable with the system's words; the caller adds its purpose.
//
// Threads: any; one socket by one thread at a time.
#ifndef CASTOR_DEVICE_COMM_SOCKET_H_
#define CASTOR_DEVICE_COMM_SOCKET_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

int64_t SteadyNowNs();

// Returns "WHAT: strerror(errno)".
absl::Status SocketError(absl::string_view what);

// Owns a descriptor, and closes it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~Socket() { Reset(); }

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

// The address of a socket, of either family.
struct SocketAddress {
  sockaddr_storage storage = {};

  bool known() const { return storage.ss_family != AF_UNSPEC; }
  socklen_t size() const;
  int port() const;
  void set_port(int port);
  // Returns true for 127.0.0.0/8 and ::1, which only this machine can reach.
  bool is_loopback() const;
  std::string HostText() const;  // "10.0.0.1", "fe80::1"
  std::string ToString() const;  // "10.0.0.1:29500", "[fe80::1]:29500"
};

SocketAddress Loopback();  // IPv4, without a port
SocketAddress LocalAddress(int fd);
SocketAddress PeerAddress(int fd);
// Returns true if the other end is on another machine, as far as addresses
// tell.
bool IsRemote(int fd);

// Returns all addresses of a name. NotFound: it has none, as far as is known
// now.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host,
                                                   int port);

// Listen at one address, or at all of this machine's, of both families if it
// has them. Port 0: any free one. Non-blocking. AlreadyExists: the port is
// taken. PermissionDenied: the port is reserved.
absl::StatusOr<Socket> ListenAt(const SocketAddress& address, int backlog);
absl::StatusOr<Socket> ListenOnAll(int port, int backlog);
// Listens at one address if it is this machine's, else at all addresses.
absl::StatusOr<Socket> ListenAtOrOnAll(const SocketAddress& address,
                                       int backlog);

// Takes the next connection, if there is one. The socket is non-blocking and
// configured.
Socket AcceptNow(int listener);

// Connects. The socket is non-blocking and configured.
absl::StatusOr<Socket> ConnectTo(const SocketAddress& address,
                                 int64_t until_ns);

// Sets options: data are sent without delay; a peer that no longer answers is
// found within ten seconds, unless sent data wait for their acknowledgement:
// then only the system's own limit ends the connection, or the caller's
// (watch.h).
void ConfigureSocket(int fd);

// Waits for `events`. Returns false if `until_ns` has come.
bool WaitForSocket(int fd, short events, int64_t until_ns);

// Read or write all of `data`, or return an error; the end of the connection is
// an error.
absl::Status ReadAll(int fd, void* data, size_t bytes, int64_t until_ns);
absl::Status WriteAll(int fd, const void* data, size_t bytes, int64_t until_ns);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_SOCKET_H_
