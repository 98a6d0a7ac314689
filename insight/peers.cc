#include "insight/peers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "insight/names.h"

namespace castor {
namespace {

// So many of a stream's works are looked at for one answer.
constexpr int kMostWorks = 256;
// An operator that took so much of the time is the answer.
constexpr int64_t kOperatorShare = 4;

}  // namespace

Peers::Peers(const std::vector<TraceContents>& ranks) {
  for (const TraceContents& contents : ranks) {
    if (!contents.run.has_value()) continue;
    Rank& rank = ranks_[contents.run->rank];
    rank.index = std::make_unique<TraceIndex>(contents);
    rank.works.clear();
    for (const WorkRecord& work : contents.works) {
      if (work.stream == rank.index->network()) continue;
      rank.works[work.stream].push_back(&work);
    }
    for (auto& [stream, works] : rank.works) {
      std::stable_sort(works.begin(), works.end(),
                       [](const WorkRecord* a, const WorkRecord* b) {
                         return a->end_ns < b->end_ns;
                       });
    }
  }
}

std::string Peers::Doing(int64_t rank, int64_t from_ns,
                         int64_t until_ns) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return "";
  const TraceIndex& index = *found->second.index;
  const WorkRecord* longest = nullptr;
  int64_t longest_ns = 0;
  for (const auto& [stream, works] : found->second.works) {
    auto at = std::partition_point(
        works.begin(), works.end(),
        [&](const WorkRecord* work) { return work->end_ns <= from_ns; });
    const bool operators = stream == index.compute();
    for (int i = 0; i < kMostWorks && at != works.end(); ++i, ++at) {
      if ((*at)->start_ns >= until_ns) break;
      int64_t ns = std::min((*at)->end_ns, until_ns) -
                   std::max((*at)->start_ns, from_ns);
      if (operators && ns >= (until_ns - from_ns) / kOperatorShare) {
        ns += until_ns - from_ns;
      }
      if (ns > longest_ns) {
        longest = *at;
        longest_ns = ns;
      }
    }
  }
  if (longest == nullptr) return "";
  const int64_t program = index.ProgramOfStep(longest->step);
  if (longest->kind == WorkKind::kOperator) {
    return OperatorText(index, program, longest->moment.value);
  }
  return WorkLabel(index, longest->kind, longest->stream, program,
                   longest->moment.value, longest->chunk.value);
}

}  // namespace castor
