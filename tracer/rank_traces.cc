#include "tracer/rank_traces.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace castor {
namespace {

// Takes this rank's times to rank 0's.
class Clock {
 public:
  explicit Clock(const std::vector<ClockRecord>& records) {
    if (records.empty()) return;
    known_ = true;
    a_ = records.front();
    b_ = records.back();
    const int64_t drift_ns = b_.offset_ns - a_.offset_ns;
    const int64_t span_ns = b_.time_ns - a_.time_ns;
    if (span_ns > 0 && std::abs(drift_ns) <= span_ns / 2) {
      slope_ = static_cast<double>(drift_ns) / static_cast<double>(span_ns);
    } else {
      // Two guesses of one thing, made within a moment.
      a_ = b_.error_ns < a_.error_ns ? b_ : a_;
      b_ = a_;
    }
  }

  bool known() const { return known_; }

  int64_t Move(int64_t time_ns) const {
    const int64_t within = std::clamp(time_ns, a_.time_ns, b_.time_ns);
    const int64_t drift_ns =
        static_cast<int64_t>(slope_ * static_cast<double>(within - a_.time_ns));
    return std::clamp<int64_t>(time_ns + a_.offset_ns + drift_ns, 0,
                               kMaxTraceNumber);
  }

  void Move(int64_t* time_ns) const { *time_ns = Move(*time_ns); }

 private:
  bool known_ = false;
  ClockRecord a_, b_;
  double slope_ = 0;
};

// 0 where that cannot be known; then it cannot be read, either.
int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

int64_t RankOf(const TraceContents& contents) {
  return contents.run.has_value() ? contents.run->rank : 0;
}

}  // namespace

std::string RankFileName(absl::string_view path, int64_t rank) {
  return rank == 0 ? std::string(path) : absl::StrCat(path, ".rank-", rank);
}

void MoveToCommonClock(TraceContents* contents) {
  const Clock clock(contents->clocks);
  if (!clock.known()) return;
  for (StepRecord& step : contents->steps) clock.Move(&step.time_ns);
  for (IssueRecord& issue : contents->issues) clock.Move(&issue.time_ns);
  for (WorkRecord& work : contents->works) {
    clock.Move(&work.start_ns);
    clock.Move(&work.end_ns);
  }
  for (WaitRecord& wait : contents->waits) {
    clock.Move(&wait.waiter.start_ns);
    clock.Move(&wait.waiter.end_ns);
  }
  for (NetworkRecord& network : contents->networks) {
    clock.Move(&network.ready_ns);
  }
  for (BudgetRecord& budget : contents->budgets) clock.Move(&budget.time_ns);
  for (HostRecord& host : contents->hosts) clock.Move(&host.time_ns);
  for (ResultRecord& result : contents->results) clock.Move(&result.end_ns);
  if (contents->end.has_value()) clock.Move(&contents->end->time_ns);
}

absl::StatusOr<std::vector<TraceContents>> ReadRankTraces(
    const std::string& path) {
  auto ranks = ReadRanksOfFile(path);
  if (!ranks.ok()) return ranks.status();
  int64_t left_bytes = kMaxTraceBytes - SizeOf(path);
  const std::optional<RunRecord> run = ranks->front().run;
  if (run.has_value() && run->rank == 0) {
    for (int64_t rank = 1; rank < std::min(run->world_size, kMaxTraceParts);
         ++rank) {
      const std::string beside = RankFileName(path, rank);
      std::error_code none;
      if (!std::filesystem::is_regular_file(beside, none)) continue;
      left_bytes -= SizeOf(beside);
      if (left_bytes < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "trace file \"", path,
            "\" and the parts of ranks beside it, up to ", beside,
            ", have more than the ", FormatBytes(kMaxTraceBytes),
            " that are read together; move some of them elsewhere"));
      }
      auto more = ReadRanksOfFile(beside);
      if (!more.ok()) return more.status();
      TraceContents& theirs = more->front();
      if (!theirs.run.has_value() || theirs.run->group != run->group ||
          theirs.run->rank != rank) {
        continue;
      }
      // Then a part within the file is one that was not wholly merged.
      std::erase_if(*ranks, [&](const TraceContents& part) {
        return RankOf(part) == rank || !part.run.has_value();
      });
      ranks->push_back(std::move(theirs));
    }
  }
  std::stable_sort(ranks->begin(), ranks->end(),
                   [](const TraceContents& a, const TraceContents& b) {
                     return RankOf(a) < RankOf(b);
                   });
  for (TraceContents& contents : *ranks) MoveToCommonClock(&contents);
  return ranks;
}

}  // namespace castor
