#include "device/comm/rank_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "base/status_text.h"
#include "device/comm/exchange_communicator.h"
#include "device/comm/lost_rank.h"

namespace castor {
namespace {

constexpr uint32_t kMagic = 0x47524f31;  // the protocol's version
constexpr int64_t kMaxTextBytes = int64_t{1} << 24;

// The header before a text, between equal machines.
struct Header {
  uint32_t magic;
  uint32_t key_bytes;
  int64_t text_bytes;
  char key[112];
};
static_assert(sizeof(Header) == 128);

}  // namespace

RankGroup::RankGroup(std::unique_ptr<Transport> transport,
                     const CommunicatorOptions& options)
    : transport_(std::move(transport)), options_(options) {
  if (transport_ == nullptr) return;
  rank_ = transport_->rank();
  world_size_ = transport_->world_size();
}

RankGroup::~RankGroup() {
  if (transport_ == nullptr) return;
  const bool orderly =
      failure_.ok() && Exchange("the group's end", "").status().ok();
  if (!orderly) transport_->Abandon();
  transport_->Close(orderly);
}

absl::StatusOr<std::vector<std::string>> RankGroup::Exchange(
    absl::string_view key, absl::string_view mine) {
  CASTOR_RETURN_IF_ERROR(failure_);
  if (world_size_ == 1) return std::vector<std::string>{std::string(mine)};
  if (transport_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("\"", key,
                     "\" is asked of a group that has its communicator: ask "
                     "that"));
  }
  if (static_cast<int64_t>(mine.size()) > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", key, "\": a text of ", mine.size(),
                     " bytes; at most ", kMaxTextBytes, " are exchanged"));
  }
  auto texts = TryExchange(key, mine);
  if (!texts.ok()) {
    transport_->Announce(texts.status());  // no effect if it came from there
    const absl::Status first = transport_->Failure();
    failure_ = first.ok() ? texts.status() : first;
    return failure_;
  }
  return texts;
}

absl::StatusOr<std::vector<std::string>> RankGroup::TryExchange(
    absl::string_view key, absl::string_view mine) {
  key = key.substr(0, sizeof(Header::key));
  Header header = {};
  header.magic = kMagic;
  header.key_bytes = static_cast<uint32_t>(key.size());
  header.text_bytes = static_cast<int64_t>(mine.size());
  std::memcpy(header.key, key.data(), key.size());
  std::vector<Header> headers(world_size_);
  const auto for_others = [&](auto&& start) -> absl::Status {
    for (int i = 1; i < world_size_; ++i) {
      CASTOR_RETURN_IF_ERROR(start((rank_ + i) % world_size_));
    }
    return absl::OkStatus();
  };
  CASTOR_RETURN_IF_ERROR(for_others([&](int p) -> absl::Status {
    CASTOR_RETURN_IF_ERROR(
        transport_->Receive(p, Lane::kHeader, &headers[p], sizeof(Header), p));
    return transport_->Send(p, Lane::kHeader, &header, sizeof(Header), p);
  }));
  std::vector<int> missing(world_size_, 2);
  missing[rank_] = 0;
  CASTOR_RETURN_IF_ERROR(Finish(std::move(missing), key));

  std::vector<std::string> texts(world_size_);
  texts[rank_] = std::string(mine);
  missing.assign(world_size_, 0);
  CASTOR_RETURN_IF_ERROR(for_others([&](int p) -> absl::Status {
    const Header& theirs = headers[p];
    if (theirs.magic != kMagic || theirs.key_bytes > sizeof(Header::key) ||
        theirs.text_bytes < 0 || theirs.text_bytes > kMaxTextBytes) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", p,
                       " sends no header of this program's: all "
                       "ranks must run the same one"));
    }
    const absl::string_view called(theirs.key, theirs.key_bytes);
    if (called != key) {
      return absl::FailedPreconditionError(
          absl::StrCat("the ranks disagree: rank ", rank_, " is at \"", key,
                       "\", rank ", p, " at \"", called, "\""));
    }
    texts[p].resize(theirs.text_bytes);
    if (theirs.text_bytes > 0) {
      ++missing[p];
      CASTOR_RETURN_IF_ERROR(transport_->Receive(
          p, Lane::kPayload, texts[p].data(), theirs.text_bytes, p));
    }
    if (mine.empty()) return absl::OkStatus();
    ++missing[p];
    return transport_->Send(p, Lane::kPayload, mine.data(),
                            static_cast<int64_t>(mine.size()), p);
  }));
  CASTOR_RETURN_IF_ERROR(Finish(std::move(missing), key));
  return texts;
}

absl::Status RankGroup::Finish(std::vector<int> missing,
                               absl::string_view key) {
  using Clock = std::chrono::steady_clock;
  const auto until =
      Clock::now() + std::chrono::nanoseconds(options_.time_limit_ns);
  const auto waits_for = [](int count) { return count > 0; };
  while (std::any_of(missing.begin(), missing.end(), waits_for)) {
    const int64_t left_ns =
        std::chrono::nanoseconds(until - Clock::now()).count();
    if (left_ns <= 0) {
      std::vector<int> absent;
      for (int p = 0; p < world_size_; ++p) {
        if (waits_for(missing[p])) absent.push_back(p);
      }
      const std::string text = absl::StrCat(
          "rank ", absl::StrJoin(absent, ", "), " did not come to \"", key,
          "\" within ", options_.time_limit_ns / 1'000'000'000, " s of rank ",
          rank_);
      // Rank 0 speaks for all; if it is missing, the first rank that is there
      // does.
      int first = 0;
      while (waits_for(missing[first])) ++first;
      if (first > 0 && first == rank_) TellOfLostRank(text);
      return absl::UnavailableError(text);
    }
    std::vector<int64_t> done;  // the tokens, which are ranks
    CASTOR_RETURN_IF_ERROR(transport_->Poll(left_ns, /*hot=*/false, &done));
    for (const int64_t peer : done) --missing[peer];
  }
  return absl::OkStatus();
}

absl::Status RankGroup::Agree(absl::string_view key, const absl::Status& mine) {
  if (world_size_ == 1) return mine;
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                          Exchange(key, mine.ok() ? "" : StatusText(mine)));
  const auto bad = std::find_if(all.begin(), all.end(),
                                [](const auto& text) { return !text.empty(); });
  if (bad == all.end()) return absl::OkStatus();
  const absl::Status first = ReadStatusText(*bad);
  const bool same = std::count(all.begin(), all.end(), *bad) == world_size_;
  return same ? first
              : Annotate(absl::StrCat("rank ", bad - all.begin()), first);
}

absl::StatusOr<int64_t> LeastOfRanks(RankGroup& group, absl::string_view key,
                                     const absl::StatusOr<int64_t>& mine) {
  CASTOR_RETURN_IF_ERROR(group.Agree(key, mine.status()));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                          group.Exchange(key, absl::StrCat(*mine)));
  int64_t least = *mine;
  for (const std::string& text : all) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number)) {
      return absl::InternalError(
          absl::StrCat("a rank's ", key, " cannot be read"));
    }
    least = std::min(least, number);
  }
  return least;
}

void RankGroup::Fail(const absl::Status& reason) {
  if (transport_ != nullptr) {
    transport_->Announce(Annotate(absl::StrCat("rank ", rank_), reason));
  }
}

absl::Status RankGroup::failure() const {
  return failure_.ok() && transport_ != nullptr ? transport_->Failure()
                                                : failure_;
}

absl::StatusOr<std::unique_ptr<Communicator>> RankGroup::MakeCommunicator(
    Device* device, std::unique_ptr<DeviceParts> gpu_parts) {
  if (transport_ == nullptr) {
    return absl::FailedPreconditionError(
        world_size_ == 1 ? "a group of one needs no communicator"
                         : "the group's communicator was made before");
  }
  CASTOR_RETURN_IF_ERROR(failure_);
  return ExchangeCommunicator::Create(device, std::move(transport_), options_,
                                      std::move(gpu_parts));
}

}  // namespace castor
