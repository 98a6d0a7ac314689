// Handles ranks that do not come, for ExchangeCommunicator: decides which rank
// tells the others, by notices, and which tells the user.
// exchange_communicator.h has the protocol.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "device/comm/exchange_communicator.h"

namespace castor {
namespace {

// The longest time that a notice may take on its way, and the time in which the
// rank that is to speak must show that it is there.
constexpr int64_t kNoticeNs = 1'000'000'000;
constexpr int64_t kLastWordsNs = 5'000'000'000;

constexpr absl::string_view kRemedy =
    ": hung, or its network is; if it was only busy, raise the time limit of "
    "collectives (network.timeout_seconds)";

std::string Seconds(int64_t ns) {
  return absl::StrCat(static_cast<double>(ns / 1'000'000) / 1e3, " s");
}

}  // namespace

absl::Status ExchangeCommunicator::Timeout() {
  const std::string limit = Seconds(options_.time_limit_ns);
  std::string late, stuck;
  int speaker = -1;  // the first that is there
  for (int p = 0; p < world_size(); ++p) {
    const Peer& peer = peers_[p];
    if (p != rank() && !peer.joined) {
      absl::StrAppend(&late, late.empty() ? "" : ", ", "rank ", p);
    } else if (p != rank() && (peer.sending > 0 || peer.receiving)) {
      absl::StrAppend(&stuck, stuck.empty() ? "" : ", ",
                      peer.receiving ? "from" : "to", " rank ", p);
    } else if (speaker < 0) {
      speaker = p;
    }
  }
  std::string text;
  if (!late.empty()) {
    absl::StrAppend(&text, late, " did not join rank ", rank(), " within ",
                    limit);
  } else {
    absl::StrAppend(&text, "rank ", rank(), " got no part through ", stuck,
                    " for ", limit);
  }
  // Rank 0 speaks for all, and passes the news on, unless it is the one.
  if (speaker > 0) AgreeWhoSpeaks(late.empty() ? "rank 0" : late, speaker);
  absl::StrAppend(&text, kRemedy);
  return absl::UnavailableError(text);
}

void ExchangeCommunicator::SendNotices(absl::string_view hung, int speaker) {
  const ExchangeHeader notice = NoticeOf(hung, speaker);
  // Ranks that hang get a notice, too: it is never over, and is given up.
  int waiting = 0;
  for (int p = 0; p < world_size(); ++p) {
    if (p == rank()) continue;
    Peer& peer = peers_[p];
    waiting += peer.joined && peer.sending == 0;
    peer.notice = notice;
    if (!transport_
             ->Send(p, Lane::kHeader, &peer.notice, sizeof(notice),
                    Token(p, What::kNoticeOut))
             .ok()) {
      return;
    }
  }
  const int64_t until_ns = device().NowNs() + kNoticeNs;
  do {
    const int64_t left_ns = waiting > 0 ? until_ns - device().NowNs() : 0;
    done_.clear();
    if (left_ns < 0 || !transport_->Poll(left_ns, false, &done_).ok()) return;
    for (const int64_t token : done_) {
      waiting -= token % kWhats == static_cast<int>(What::kNoticeOut);
      Over(token);
    }
  } while (waiting > 0);
}

int ExchangeCommunicator::WhoNoticed() const {
  for (int p = 0; p < world_size(); ++p) {
    if (peers_[p].header_came && IsNotice(peers_[p].incoming)) {
      return p;
    }
  }
  return -1;
}

void ExchangeCommunicator::AgreeWhoSpeaks(absl::string_view hung, int speaker) {
  speaks_ = speaker == rank();
  SendNotices(hung, speaker);
  const int64_t until_ns = device().NowNs() + kLastWordsNs;
  while (!speaks_ &&
         !(peers_[speaker].header_came && IsNotice(peers_[speaker].incoming))) {
    const int64_t left_ns = until_ns - device().NowNs();
    done_.clear();
    // It is not there either.
    speaks_ = left_ns <= 0 || !transport_->Poll(left_ns, false, &done_).ok();
    for (const int64_t token : done_) Over(token);
  }
}

absl::Status ExchangeCommunicator::HearNotice(int from) {
  const ExchangeHeader notice = peers_[from].incoming;
  const std::string hung = HungOf(notice);
  speaks_ = notice.root == rank();
  SendNotices(hung, notice.root);
  return absl::UnavailableError(
      absl::StrCat(hung, " did not join rank ", from, " within ",
                   Seconds(options_.time_limit_ns), kRemedy));
}

}  // namespace castor
