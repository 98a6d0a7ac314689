#include "device/comm/greeter.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/comm/secret.h"

namespace castor {
namespace {

constexpr int64_t kMsNs = 1'000'000;
// With more strangers than this at a time, some must go; but each has kLeastNs,
// in which a rank that is not hindered shows its proof.
constexpr int64_t kMaxPending = 256;
constexpr int64_t kLeastNs = 100 * kMsNs;
// The most that are accepted at once: those that are there are heard before
// more come.
constexpr int kMaxAccepts = 32;

// The words are a few hundred bytes, which fit into the buffer of a new socket.
bool SendNow(int fd, const std::string& words) {
  return send(fd, words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(words.size());
}

}  // namespace

absl::Status Greeter::Greet(Socket socket, const Claim& claim,
                            std::string note) {
  CASTOR_ASSIGN_OR_RETURN(std::string nonce, RandomKey());
  Pending pending = {.socket = std::move(socket),
                     .handshake = Handshake::Connecting(
                         terms_, std::move(nonce), claim, std::move(note)),
                     .connected = true,
                     .host = {},
                     .since_ns = 0,
                     .until_ns = INT64_MAX,
                     .heard = {}};
  if (SendNow(pending.socket.fd(), pending.handshake.TakeWords())) {
    pending_.push_back(std::move(pending));
  } else {
    TurnAway(pending);
  }
  return absl::OkStatus();
}

bool Greeter::Proceed(Pending& pending) const {
  while (!pending.handshake.done()) {
    char buffer[512];
    const size_t wanted = pending.handshake.wanted() - pending.heard.size();
    const ssize_t got = recv(pending.socket.fd(), buffer,
                             std::min(wanted, sizeof(buffer)), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    pending.heard.append(buffer, got);
    if (pending.heard.size() < pending.handshake.wanted()) continue;
    const std::string heard = std::exchange(pending.heard, {});
    if (!pending.handshake.Hear(heard) ||
        !SendNow(pending.socket.fd(), pending.handshake.TakeWords())) {
      return false;
    }
  }
  return true;
}

void Greeter::TurnAway(const Pending& pending) {
  if (pending.connected) {
    News news;
    news.what = News::What::kFailed;
    news.claim = pending.handshake.claim();
    news_.push_back(std::move(news));
    return;
  }
  ++strangers_;
  last_stranger_ = pending.host;
}

bool Greeter::IsFull() const {
  return std::count_if(pending_.begin(), pending_.end(),
                       [](const Pending& pending) {
                         return !pending.connected;
                       }) >= kMaxPending;
}

std::optional<size_t> Greeter::Victim(int64_t now_ns) const {
  std::map<std::string, int> held;
  for (const Pending& pending : pending_) {
    if (!pending.connected) ++held[pending.host];
  }
  if (held.empty()) return std::nullopt;
  const auto most = std::max_element(
      held.begin(), held.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  for (size_t i = 0; i < pending_.size(); ++i) {
    const Pending& pending = pending_[i];
    if (pending.connected || pending.host != most->first) continue;
    if (now_ns - pending.since_ns < kLeastNs) return std::nullopt;
    return i;
  }
  return std::nullopt;
}

void Greeter::Accept(int64_t now_ns) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    if (IsFull()) {
      const std::optional<size_t> victim = Victim(now_ns);
      if (!victim.has_value()) return;
      TurnAway(pending_[*victim]);
      pending_.erase(pending_.begin() + *victim);
    }
    Socket socket = AcceptNow(listener_);
    if (!socket) return;
    absl::StatusOr<std::string> nonce = RandomKey();
    if (!nonce.ok()) return;
    std::string host = PeerAddress(socket.fd()).HostText();
    pending_.push_back({.socket = std::move(socket),
                        .handshake = Handshake::Listening(
                            terms_, *std::move(nonce), own_rank_),
                        .connected = false,
                        .host = std::move(host),
                        .since_ns = now_ns,
                        .until_ns = now_ns + patience_ns_,
                        .heard = {}});
  }
}

std::optional<Greeter::News> Greeter::Next(absl::Span<const int> also,
                                           int64_t until_ns) {
  bool full = false;  // and all are young: nobody is let in yet
  while (true) {
    if (!news_.empty()) {
      News news = std::move(news_.front());
      news_.pop_front();
      return news;
    }
    const int64_t now_ns = SteadyNowNs();
    if (now_ns >= until_ns) return std::nullopt;
    int64_t wake_ns = until_ns;
    std::vector<pollfd> entries;
    const auto add = [&](int fd) {
      entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    };
    full = IsFull() && !Victim(now_ns).has_value();
    if (full) wake_ns = std::min(wake_ns, now_ns + kLeastNs / 4);
    add(full ? -1 : listener_);
    for (const int fd : also) add(fd);
    for (const Pending& pending : pending_) {
      add(pending.socket.fd());
      wake_ns = std::min(wake_ns, pending.until_ns);
    }
    const int64_t left_ms = std::max<int64_t>(0, wake_ns - now_ns) / kMsNs + 1;
    if (poll(entries.data(), entries.size(),
             static_cast<int>(std::min<int64_t>(left_ms, INT32_MAX))) < 0) {
      continue;  // a signal
    }
    for (size_t i = 0; i < also.size(); ++i) {
      if (entries[1 + i].revents != 0) {
        News news;
        news.also = static_cast<int>(i);
        return news;
      }
    }
    const int64_t then_ns = SteadyNowNs();
    std::deque<Pending> kept;
    for (size_t i = 0; i < pending_.size(); ++i) {
      Pending& pending = pending_[i];
      const bool spoke = entries[1 + also.size() + i].revents != 0;
      const bool useful = spoke ? Proceed(pending) : true;
      if (useful && pending.handshake.done()) {
        News news;
        news.what =
            pending.connected ? News::What::kAnswered : News::What::kCame;
        news.socket = std::move(pending.socket);
        news.claim = pending.handshake.claim();
        news.note = pending.handshake.note();
        news.session_key = pending.handshake.SessionKey();
        news_.push_back(std::move(news));
      } else if (useful && then_ns < pending.until_ns) {
        kept.push_back(std::move(pending));
      } else {
        TurnAway(pending);
      }
    }
    pending_ = std::move(kept);
    if (entries[0].revents != 0) Accept(then_ns);
  }
}

std::string Greeter::StrangersText() const {
  if (strangers_ == 0) return "";
  return absl::StrCat("; ", strangers_,
                      strangers_ == 1 ? " connection was" : " connections were",
                      " turned away, the last from ", last_stranger_,
                      ": no proof of this run's secret and id");
}

}  // namespace castor
