#include "device/comm/tcp/greeter.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace castor {
namespace {

constexpr int64_t kMsNs = 1'000'000;
constexpr int64_t kPatienceNs = 5'000 * kMsNs;
// With more strangers than this at a time, the oldest must go.
constexpr size_t kMaxPending = 256;

}  // namespace

bool Greeter::Read(Pending& pending) const {
  char buffer[512];
  const size_t wanted = greeting_bytes_ - pending.greeting.size();
  const ssize_t got = recv(pending.socket.fd(), buffer,
                           std::min(wanted, sizeof(buffer)), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  pending.greeting.append(buffer, got);
  return got > 0;
}

std::optional<Greeter::News> Greeter::Next(absl::Span<const int> also,
                                           int64_t until_ns) {
  while (true) {
    for (auto it = pending_.begin(); it != pending_.end(); ++it) {
      if (it->greeting.size() < greeting_bytes_) continue;
      News news;
      news.socket = std::move(it->socket);
      news.greeting = std::move(it->greeting);
      pending_.erase(it);
      return news;
    }
    const int64_t now_ns = SteadyNowNs();
    if (now_ns >= until_ns) return std::nullopt;
    int64_t wake_ns = until_ns;
    std::vector<pollfd> entries;
    const auto add = [&](int fd) {
      entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    };
    add(listener_);
    for (const int fd : also) add(fd);
    for (const Pending& pending : pending_) {
      add(pending.socket.fd());
      wake_ns = std::min(wake_ns, pending.until_ns);
    }
    const int64_t left_ms = std::max<int64_t>(0, wake_ns - now_ns) / kMsNs + 1;
    if (poll(entries.data(), entries.size(), static_cast<int>(left_ms)) < 0) {
      continue;  // a signal
    }
    for (size_t i = 0; i < also.size(); ++i) {
      if (entries[1 + i].revents != 0) {
        News news;
        news.readable = static_cast<int>(i);
        return news;
      }
    }
    const int64_t then_ns = SteadyNowNs();
    std::deque<Pending> kept;
    for (size_t i = 0; i < pending_.size(); ++i) {
      Pending& pending = pending_[i];
      const bool spoke = entries[1 + also.size() + i].revents != 0;
      if (spoke ? Read(pending) : then_ns < pending.until_ns) {
        kept.push_back(std::move(pending));
      }
    }
    pending_ = std::move(kept);
    if (entries[0].revents != 0) {
      if (Socket socket = AcceptNow(listener_)) {
        if (pending_.size() == kMaxPending) pending_.pop_front();
        pending_.push_back({.socket = std::move(socket),
                            .greeting = {},
                            .until_ns = then_ns + kPatienceNs});
      }
    }
  }
}

}  // namespace castor
