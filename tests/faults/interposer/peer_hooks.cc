// Calls that talk to other processes, start them and await them.
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/interposer/hook.h"

using namespace castor::faults;  // the hooks are no namespace's

namespace {

size_t Half(size_t bytes) { return bytes > 1 ? bytes / 2 : bytes; }

int32_t MeetNew(const char* function, int64_t number) {
  return Meet(function, Object::kSocket, nullptr, number);
}

}  // namespace

CASTOR_HOOK(int, socket, (int domain, int type, int protocol)) {
  return MeetNew("socket", domain) > 0 ? -1
                                       : real_socket(domain, type, protocol);
}

CASTOR_HOOK(int, socketpair, (int domain, int type, int protocol, int* fds)) {
  return MeetNew("socketpair", domain) > 0
             ? -1
             : real_socketpair(domain, type, protocol, fds);
}

CASTOR_HOOK(int, bind, (int fd, const sockaddr* address, socklen_t size)) {
  return Meet("bind", fd, size) > 0 ? -1 : real_bind(fd, address, size);
}

CASTOR_HOOK(int, listen, (int fd, int backlog)) {
  return Meet("listen", fd, backlog) > 0 ? -1 : real_listen(fd, backlog);
}

CASTOR_HOOK(int, accept4,
            (int fd, sockaddr* address, socklen_t* size, int flags)) {
  return Meet("accept4", fd, flags) > 0
             ? -1
             : real_accept4(fd, address, size, flags);
}

CASTOR_HOOK(int, accept, (int fd, sockaddr* address, socklen_t* size)) {
  return Meet("accept", fd, 0) > 0 ? -1 : real_accept(fd, address, size);
}

CASTOR_HOOK(int, connect, (int fd, const sockaddr* address, socklen_t size)) {
  return Meet("connect", fd, size) > 0 ? -1 : real_connect(fd, address, size);
}

CASTOR_HOOK(ssize_t, send,
            (int fd, const void* data, size_t bytes, int flags)) {
  const int32_t fault = Meet("send", fd, static_cast<int64_t>(bytes));
  if (fault > 0) return -1;
  return real_send(fd, data, fault == kShort ? Half(bytes) : bytes, flags);
}

CASTOR_HOOK(ssize_t, recv, (int fd, void* data, size_t bytes, int flags)) {
  const int32_t fault = Meet("recv", fd, static_cast<int64_t>(bytes));
  if (fault > 0) return -1;
  if (fault == kEnd) return 0;
  return real_recv(fd, data, fault == kShort ? Half(bytes) : bytes, flags);
}

// The first one of several buffers is cut, so that a message ends within.
CASTOR_HOOK(ssize_t, sendmsg, (int fd, const msghdr* message, int flags)) {
  const int32_t fault =
      Meet("sendmsg", fd, static_cast<int64_t>(message->msg_iovlen));
  if (fault > 0) return -1;
  if (fault != kShort || message->msg_iovlen == 0) {
    return real_sendmsg(fd, message, flags);
  }
  iovec first = message->msg_iov[0];
  first.iov_len = Half(first.iov_len);
  msghdr cut = *message;
  cut.msg_iov = &first;
  cut.msg_iovlen = 1;
  return real_sendmsg(fd, &cut, flags);
}

CASTOR_HOOK(ssize_t, recvmsg, (int fd, msghdr* message, int flags)) {
  const int32_t fault =
      Meet("recvmsg", fd, static_cast<int64_t>(message->msg_iovlen));
  if (fault > 0) return -1;
  if (fault == kEnd) return 0;
  if (fault != kShort || message->msg_iovlen == 0) {
    return real_recvmsg(fd, message, flags);
  }
  iovec first = message->msg_iov[0];
  first.iov_len = Half(first.iov_len);
  msghdr cut = *message;
  cut.msg_iov = &first;
  cut.msg_iovlen = 1;
  const ssize_t got = real_recvmsg(fd, &cut, flags);
  message->msg_controllen = cut.msg_controllen;
  message->msg_flags = cut.msg_flags;
  return got;
}

CASTOR_HOOK(int, poll, (pollfd * entries, nfds_t count, int timeout_ms)) {
  const int32_t fault =
      Meet("poll", Object::kNone, nullptr, static_cast<int64_t>(count));
  return fault > 0 ? -1 : real_poll(entries, count, timeout_ms);
}

CASTOR_HOOK(int, ppoll,
            (pollfd * entries, nfds_t count, const timespec* timeout,
             const sigset_t* mask)) {
  const int32_t fault =
      Meet("ppoll", Object::kNone, nullptr, static_cast<int64_t>(count));
  return fault > 0 ? -1 : real_ppoll(entries, count, timeout, mask);
}

CASTOR_HOOK(int, epoll_create1, (int flags)) {
  return Meet("epoll_create1", Object::kNone, nullptr, flags) > 0
             ? -1
             : real_epoll_create1(flags);
}

CASTOR_HOOK(int, epoll_ctl,
            (int fd, int operation, int about, epoll_event* event)) {
  return Meet("epoll_ctl", fd, operation) > 0
             ? -1
             : real_epoll_ctl(fd, operation, about, event);
}

CASTOR_HOOK(int, epoll_wait,
            (int fd, epoll_event* events, int most, int timeout_ms)) {
  return Meet("epoll_wait", fd, most) > 0
             ? -1
             : real_epoll_wait(fd, events, most, timeout_ms);
}

CASTOR_HOOK(int, eventfd, (unsigned initial, int flags)) {
  return Meet("eventfd", Object::kNone, nullptr, flags) > 0
             ? -1
             : real_eventfd(initial, flags);
}

// Its faults are its own codes, which are below zero but for none.
CASTOR_HOOK(int, getaddrinfo,
            (const char* host, const char* service, const addrinfo* hints,
             addrinfo** list)) {
  const int32_t fault = Meet("getaddrinfo", Object::kNone, host, 0);
  return fault > 0 ? -fault : real_getaddrinfo(host, service, hints, list);
}

CASTOR_HOOK(int, getifaddrs, (ifaddrs * *list)) {
  return Meet("getifaddrs", Object::kNone, nullptr, 0) > 0
             ? -1
             : real_getifaddrs(list);
}

CASTOR_HOOK(int, setsockopt,
            (int fd, int level, int name, const void* value, socklen_t size)) {
  return Meet("setsockopt", fd, name) > 0
             ? -1
             : real_setsockopt(fd, level, name, value, size);
}

CASTOR_HOOK(int, getsockopt,
            (int fd, int level, int name, void* value, socklen_t* size)) {
  return Meet("getsockopt", fd, name) > 0
             ? -1
             : real_getsockopt(fd, level, name, value, size);
}

CASTOR_HOOK(int, getsockname, (int fd, sockaddr* address, socklen_t* size)) {
  return Meet("getsockname", fd, 0) > 0 ? -1
                                        : real_getsockname(fd, address, size);
}

CASTOR_HOOK(int, getpeername, (int fd, sockaddr* address, socklen_t* size)) {
  return Meet("getpeername", fd, 0) > 0 ? -1
                                        : real_getpeername(fd, address, size);
}

CASTOR_HOOK(int, shutdown, (int fd, int how)) {
  return Meet("shutdown", fd, how) > 0 ? -1 : real_shutdown(fd, how);
}

CASTOR_HOOK(pid_t, fork, ()) {
  return Meet("fork", Object::kNone, nullptr, 0) > 0 ? -1 : real_fork();
}

CASTOR_HOOK(int, execvpe,
            (const char* file, char* const* words, char* const* variables)) {
  return Meet("execvpe", Object::kNone, file, 0) > 0
             ? -1
             : real_execvpe(file, words, variables);
}

CASTOR_HOOK(pid_t, waitpid, (pid_t process, int* status, int options)) {
  return Meet("waitpid", Object::kNone, nullptr, options) > 0
             ? -1
             : real_waitpid(process, status, options);
}

CASTOR_HOOK(int, sigtimedwait,
            (const sigset_t* set, siginfo_t* info, const timespec* timeout)) {
  return Meet("sigtimedwait", Object::kNone, nullptr, 0) > 0
             ? -1
             : real_sigtimedwait(set, info, timeout);
}

CASTOR_HOOK(ssize_t, getrandom, (void* out, size_t bytes, unsigned flags)) {
  const int32_t fault =
      Meet("getrandom", Object::kNone, nullptr, static_cast<int64_t>(bytes));
  if (fault > 0) return -1;
  return real_getrandom(out, fault == kShort ? Half(bytes) : bytes, flags);
}
