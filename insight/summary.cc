#include "insight/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "insight/notes.h"
#include "insight/tables.h"
#include "memory/plan/policy/policies.h"

namespace castor {
namespace {

// Below this share of a step, nothing is worth advice.
constexpr double kWorthSaying = 0.03;
// A prediction that is off by more is worth a word.
constexpr double kPredictionOff = 0.10;
// Traffic above the least by more is worth a word.
constexpr double kTrafficAbove = 0.10;

std::string Percent(double share) {
  const double percent = 100 * share;
  return absl::StrCat(percent > 0 && percent < 0.5
                          ? "under 1"
                          : absl::StrCat(std::lround(percent)),
                      " %");
}

double Share(int64_t part, int64_t whole) {
  return whole <= 0 ? 0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

class Adviser {
 public:
  Adviser(const TraceIndex& index, const SpanList& list,
          const WaitCauses& causes, const std::vector<TraceView::Step>& steps,
          const TraceView::Summary& summary)
      : index_(index),
        list_(list),
        causes_(causes),
        steps_(steps),
        summary_(summary),
        plan_(steps[summary.median_step].plan) {}

  std::vector<std::string> Advise() {
    if (const PlanRecord* plan = index_.Plan(plan_); plan->warmup) {
      Say("The window holds warm-up steps alone, on the careful plan that "
          "comes before the one made from their measurements: record later "
          "steps to see the run as it goes on.");
    }
    SayWhereTimeGoes();
    SayLargestWait();
    SayMoves();
    SayTraffic();
    SayMemory();
    SayPrediction();
    return std::move(advice_);
  }

 private:
  void Say(std::string text) { advice_.push_back(std::move(text)); }

  void SayWhereTimeGoes() {
    const int64_t step = summary_.step_ns;
    const int64_t network = AddUpTo(summary_.network_ns, summary_.late_ns);
    const double lost = Share(
        AddUpTo(AddUpTo(summary_.copy_ns, summary_.optimizer_ns), network),
        step);
    const bool ranks = index_.network() >= 0;
    const double idle = Share(summary_.idle_ns, step);
    const std::string computes =
        absl::StrCat("Of a step of ", FormatNs(step), " the device computes ",
                     Percent(Share(summary_.compute_ns, step)));
    if (lost >= kWorthSaying) {
      Say(absl::StrCat(
          computes, "; it stands still ",
          Percent(Share(summary_.copy_ns, step)), " for copies",
          ranks ? absl::StrCat(", ", Percent(Share(summary_.network_ns, step)),
                               " for the network, ",
                               Percent(Share(summary_.late_ns, step)),
                               " for ranks that were late,")
                : "",
          " and ", Percent(Share(summary_.optimizer_ns, step)),
          " for the CPU optimizer, and has nothing to do ", Percent(idle),
          "."));
      return;
    }
    Say(absl::StrCat(computes,
                     ranks ? ": copies, the network and the CPU optimizer"
                           : ": copies and the CPU optimizer",
                     " are hidden behind "
                     "operators but for ",
                     Percent(lost), ". ",
                     idle < kWorthSaying
                         ? "Only faster or fewer operators would make it much "
                           "quicker."
                         : absl::StrCat(Percent(idle),
                                        " of it the device has "
                                        "nothing to do: pauses between "
                                        "operators, and between steps.")));
  }

  // The cause that the compute stream waited for longest, over all steps of
  // the summary.
  void SayLargestWait() {
    struct Waits {
      int64_t total_ns = 0;
      int64_t longest_ns = 0;
      int64_t longest_span = -1;
    };
    std::map<std::pair<int, int64_t>, Waits> by_cause;  // and late rank
    int64_t all = 0;
    for (size_t i = 0; i < list_.spans.size(); ++i) {
      const TraceView::Span& span = list_.spans[i];
      if (span.kind >= 0 || span.stream != index_.compute() || span.step < 0 ||
          !InSummary(span.step)) {
        continue;
      }
      const WaitFinding& finding = causes_.findings[i];
      Waits& waits = by_cause[{static_cast<int>(finding.cause), finding.rank}];
      const int64_t ns = span.end_ns - span.start_ns;
      waits.total_ns = AddUpTo(waits.total_ns, ns);
      all = AddUpTo(all, ns);
      if (waits.longest_span < 0 || ns > waits.longest_ns) {
        waits.longest_ns = ns;
        waits.longest_span = static_cast<int64_t>(i);
      }
    }
    const auto found = std::max_element(
        by_cause.begin(), by_cause.end(), [](const auto& a, const auto& b) {
          return a.second.total_ns < b.second.total_ns;
        });
    if (found == by_cause.end()) return;
    const Waits& most = found->second;
    const int64_t per_step = most.total_ns / summary_.steps;
    if (Share(per_step, summary_.step_ns) < kWorthSaying) return;
    const TraceView::Span& span = list_.spans[most.longest_span];
    const int64_t chunk = span.chunk >= 0 || span.cause < 0
                              ? span.chunk
                              : list_.spans[span.cause].chunk;
    const int64_t program = list_.links.program[most.longest_span];
    Say(absl::StrCat(
        most.total_ns == all ? "All" : Percent(Share(most.total_ns, all)),
        " of the waits (", FormatNs(per_step), " a step) have one cause. ",
        CauseText(causes_.findings[most.longest_span]), "; the longest, ",
        FormatNs(most.longest_ns), ", came before ",
        OperatorText(index_, program, span.moment),
        chunk >= 0 ? absl::StrCat(" for ", ChunkText(index_, program, chunk))
                   : "",
        ". ",
        RemedyText(index_, causes_.findings[most.longest_span],
                   index_.Plan(plan_), program, index_.Chunk(program, chunk),
                   /*at_the_cpu=*/false)));
  }

  // Says what moves of blocks cost, and why there are any.
  void SayMoves() {
    if (summary_.moves == 0 ||
        Share(summary_.move_ns, summary_.step_ns) < kWorthSaying) {
      return;
    }
    Say(absl::StrCat(
        "A step moves blocks ", summary_.moves,
        " times within the device's memory, which takes ",
        Percent(Share(summary_.move_ns, summary_.step_ns)), " of it",
        summary_.planned_addresses == std::optional(false)
            ? ": no packing of all blocks was found within the budget. Plans "
              "for a larger memory.device_memory mostly have one."
            : "."));
  }

  void SayTraffic() {
    const int64_t least = summary_.least_h2d_bytes;
    const double above = Share(summary_.h2d_bytes - least, least);
    if (least <= 0 || above < kTrafficAbove) return;
    Say(absl::StrCat("A step brings ", FormatBytes(summary_.h2d_bytes),
                     " to the device, ", Percent(above), " more than the ",
                     FormatBytes(least),
                     " that no plan with the same optimizer placement can do "
                     "without."));
  }

  void SayMemory() {
    const int64_t budget = summary_.device_budget_bytes;
    if (budget >= kUnlimitedBytes || budget <= 0) return;
    const int64_t unused = budget - summary_.device_peak_bytes;
    if (Share(unused, budget) < 0.1) return;
    Say(absl::StrCat(
        FormatBytes(unused), " of the ", FormatBytes(budget),
        " device budget are never used",
        LeavesStatesToTheHost(*index_.Plan(plan_))
            ? absl::StrCat(": memory.placement_policy \"",
                           DefaultPolicy()->name, "\" would keep chunks there.")
            : ": a larger micro batch may fit."));
  }

  void SayPrediction() {
    const double off = Share(summary_.step_ns - summary_.predicted_step_ns,
                             summary_.predicted_step_ns);
    if (summary_.predicted_step_ns <= 0 || std::fabs(off) < kPredictionOff) {
      return;
    }
    Say(absl::StrCat("The plan expected a step of ",
                     FormatNs(summary_.predicted_step_ns), "; it took ",
                     Percent(std::fabs(off)), off > 0 ? " more." : " less."));
  }

  bool InSummary(int64_t step) const {
    return steps_[step].plan == plan_ && steps_[step].whole &&
           steps_[step].step > 0;
  }

  const TraceIndex& index_;
  const SpanList& list_;
  const WaitCauses& causes_;
  const std::vector<TraceView::Step>& steps_;
  const TraceView::Summary& summary_;
  const int64_t plan_;
  std::vector<std::string> advice_;
};

}  // namespace

int64_t SettledPlan(const TraceIndex& index,
                    const std::vector<TraceView::Step>& steps) {
  int64_t settled = -1;
  bool warmup = true;
  for (const TraceView::Step& step : steps) {
    const PlanRecord* const plan = index.Plan(step.plan);
    if (!step.whole || step.step <= 0 || plan == nullptr) continue;
    if (plan->warmup && !warmup) continue;
    settled = step.plan;
    warmup = plan->warmup;
  }
  return settled;
}

namespace {

void SumUpBlocks(const std::vector<TraceView::BlockRow>& blocks,
                 TraceView::Summary* summary) {
  for (const TraceView::BlockRow& row : blocks) {
    if (row.choice == kMadeAgain) {
      ++summary->remade_blocks;
    } else {
      ++(row.choice == kByTheHost ? summary->host_blocks
                                  : summary->kept_blocks);
    }
    summary->kept_bytes = AddUpTo(summary->kept_bytes, row.device_bytes);
    summary->host_bytes = AddUpTo(summary->host_bytes, row.host_bytes);
    summary->spared_bytes = AddUpTo(summary->spared_bytes, row.spared_bytes);
  }
}

}  // namespace

std::optional<TraceView::Summary> Summarize(
    const TraceIndex& index, const SpanList& list, const WaitCauses& causes,
    const std::vector<TraceView::Step>& steps,
    const std::vector<TraceView::MemoryPoint>& host_memory,
    const std::vector<TraceView::BlockRow>& blocks) {
  const int64_t settled = SettledPlan(index, steps);
  if (settled < 0) return std::nullopt;
  std::vector<int64_t> about;
  TraceView::Summary summary;
  for (int64_t s = 0; s < static_cast<int64_t>(steps.size()); ++s) {
    const TraceView::Step& step = steps[s];
    if (step.plan != settled || !step.whole || step.step <= 0) continue;
    about.push_back(s);
    summary.device_peak_bytes =
        std::max(summary.device_peak_bytes, step.device_peak_bytes);
  }
  std::stable_sort(about.begin(), about.end(), [&](int64_t a, int64_t b) {
    return steps[a].end_ns - steps[a].start_ns <
           steps[b].end_ns - steps[b].start_ns;
  });
  summary.steps = static_cast<int64_t>(about.size());
  summary.median_step = about[(about.size() - 1) / 2];
  const TraceView::Step& median = steps[summary.median_step];
  summary.step_ns = median.end_ns - median.start_ns;
  summary.compute_ns = median.compute_ns;
  summary.copy_ns = median.copy_ns;
  summary.optimizer_ns = median.optimizer_ns;
  summary.network_ns = median.network_ns;
  summary.late_ns = median.late_ns;
  summary.idle_ns = median.idle_ns;
  summary.h2d_bytes = median.h2d_bytes;
  summary.d2h_bytes = median.d2h_bytes;
  summary.sent_bytes = median.sent_bytes;
  summary.received_bytes = median.received_bytes;
  const PlanRecord& plan = *index.Plan(settled);
  summary.least_h2d_bytes = plan.predicted.least_h2d_bytes;
  summary.predicted_step_ns = plan.predicted.step_ns;
  summary.predicted_peak_bytes = plan.predicted.device_peak_bytes;
  summary.device_budget_bytes = plan.device_budget_bytes;
  summary.planned_addresses = plan.planned_addresses;
  summary.predicted_moves = plan.predicted.moves;
  summary.predicted_moved_bytes = plan.predicted.moved_bytes;
  summary.moves = median.moves;
  summary.move_ns = median.move_ns;
  SumUpBlocks(blocks, &summary);
  if (const StepTrace* const trace =
          index.Trace(index.ProgramOfPlan(settled))) {
    for (const OpRecord& op : trace->ops) {
      summary.flops += static_cast<double>(op.flops);
    }
  }
  for (const TraceView::MemoryPoint& point : host_memory) {
    int64_t sum = 0;
    for (const int64_t bytes : point.bytes) sum = AddUpTo(sum, bytes);
    summary.host_peak_bytes = std::max(summary.host_peak_bytes, sum);
  }
  if (index.contents().run.has_value() && summary.step_ns > 0) {
    summary.tokens_per_second =
        static_cast<double>(index.contents().run->tokens_per_step) * 1e9 /
        static_cast<double>(summary.step_ns);
  }
  summary.advice = Adviser(index, list, causes, steps, summary).Advise();
  return summary;
}

}  // namespace castor
