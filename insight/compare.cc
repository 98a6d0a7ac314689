#include "insight/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "insight/names.h"
#include "insight/trace_index.h"

namespace castor {
namespace {

// Smaller changes, as a share of the larger step, are noise.
constexpr double kWorthSaying = 0.01;
constexpr size_t kMostWaitNotes = 3;

std::string Change(int64_t a, int64_t b, std::string (*format)(int64_t)) {
  return absl::StrCat(format(a), " -> ", format(b));
}

std::string Percent(int64_t a, int64_t b) {
  if (a <= 0) return "";
  const double percent = 100 * (static_cast<double>(b) - a) / a;
  return absl::StrCat(" (", percent > 0 ? "+" : "", std::lround(percent),
                      " %)");
}

class Comparer {
 public:
  Comparer(const TraceView& a, const TraceView& b) : a_(a), b_(b) {}

  Comparison Compare() {
    NoteSettings();
    NoteStatus();
    if (a_.summary.has_value() && b_.summary.has_value()) {
      AddRows();
      NoteStep();
      NoteWaits();
      NoteTraffic();
    } else {
      for (const TraceView* view : {&a_, &b_}) {
        if (view->summary.has_value()) continue;
        Note(absl::StrCat(Name(*view),
                          " holds no whole training step: there "
                          "is nothing to compare in time."));
      }
    }
    NotePeak();
    if (comparison_.notes.empty()) Note("Nothing that matters has changed.");
    return std::move(comparison_);
  }

 private:
  std::string Name(const TraceView& view) const {
    const bool first = &view == &a_;
    if (a_.source == b_.source || view.source.empty()) {
      return first ? "The first trace" : "The second trace";
    }
    return view.source;
  }

  void Note(std::string note) { comparison_.notes.push_back(std::move(note)); }

  template <typename Value, typename Format>
  void NoteChange(absl::string_view what, const Value& a, const Value& b,
                  const Format& format) {
    if (a == b) return;
    Note(absl::StrCat(what, ": ", format(a), " -> ", format(b), "."));
  }

  void NoteSettings() {
    if (!a_.run.has_value() || !b_.run.has_value()) return;
    const RunRecord& a = *a_.run;
    const RunRecord& b = *b_.run;
    const auto text = [](const std::string& s) {
      return s.empty() ? std::string("none") : Shortened(s, 200);
    };
    const auto number = [](int64_t n) { return absl::StrCat(n); };
    NoteChange("Model", a.title, b.title, text);
    NoteChange("Device", a.device, b.device, text);
    NoteChange("Policy", a.policy, b.policy, text);
    NoteChange("Device budget", a.device_budget_bytes, b.device_budget_bytes,
               FormatBytes);
    NoteChange("Host budget", a.host_budget_bytes, b.host_budget_bytes,
               FormatBytes);
    NoteChange("Tokens per step", a.tokens_per_step, b.tokens_per_step, number);
    NoteChange("Threads", a.threads, b.threads, number);
    NoteChange("Ranks", a.world_size, b.world_size, number);
    const PlanRecord* const plan_a = SettledPlanOf(a_);
    const PlanRecord* const plan_b = SettledPlanOf(b_);
    if (plan_a == nullptr || plan_b == nullptr) return;
    NoteChange("Prefetch", plan_a->prefetch, plan_b->prefetch,
               [](bool on) { return on ? "on" : "off"; });
    NoteChange("Chunks with optimizer states on the device",
               static_cast<int64_t>(plan_a->device_side.size()),
               static_cast<int64_t>(plan_b->device_side.size()), number);
    if (plan_a->planned_addresses.has_value() &&
        plan_b->planned_addresses.has_value()) {
      NoteChange("Addresses of blocks of memory", *plan_a->planned_addresses,
                 *plan_b->planned_addresses, [](bool planned) {
                   return planned ? "planned" : "not planned";
                 });
    }
    const auto blocks = [](const std::array<int64_t, 3>& count) {
      return absl::StrCat(count[0], " kept, ", count[1],
                          " by way of the host, ", count[2], " made again");
    };
    NoteChange("Blocks' activations", BlocksOf(*a_.summary),
               BlocksOf(*b_.summary), blocks);
    const double least =
        std::min(plan_a->h2d_bytes_per_s, plan_b->h2d_bytes_per_s);
    const double most =
        std::max(plan_a->h2d_bytes_per_s, plan_b->h2d_bytes_per_s);
    // Measured, so never quite the same.
    if (least > 0 && most > 1.2 * least) {
      NoteChange(
          "Bus to the device", static_cast<int64_t>(plan_a->h2d_bytes_per_s),
          static_cast<int64_t>(plan_b->h2d_bytes_per_s),
          [](int64_t bytes) { return absl::StrCat(FormatBytes(bytes), "/s"); });
    }
  }

  static std::array<int64_t, 3> BlocksOf(const TraceView::Summary& summary) {
    return {summary.kept_blocks, summary.host_blocks, summary.remade_blocks};
  }

  static const PlanRecord* SettledPlanOf(const TraceView& view) {
    if (!view.summary.has_value()) return nullptr;
    return &view.plans[view.steps[view.summary->median_step].plan].record;
  }

  void NoteStatus() {
    const auto text = [](const std::string& s) { return Shortened(s, 200); };
    NoteChange("The run", a_.status, b_.status, text);
  }

  void AddRow(absl::string_view name, absl::string_view unit, double a,
              double b) {
    comparison_.rows.push_back({std::string(name), std::string(unit), a, b});
  }

  static bool HasRanks(const TraceView& view) {
    return view.run.has_value() && view.run->world_size > 1;
  }

  void AddRows() {
    const TraceView::Summary& a = *a_.summary;
    const TraceView::Summary& b = *b_.summary;
    const auto add = [&](absl::string_view name, absl::string_view unit,
                         int64_t x, int64_t y) {
      AddRow(name, unit, static_cast<double>(x), static_cast<double>(y));
    };
    add("step time", "ns", a.step_ns, b.step_ns);
    add("compute", "ns", a.compute_ns, b.compute_ns);
    add("exposed copies", "ns", a.copy_ns, b.copy_ns);
    add("optimizer", "ns", a.optimizer_ns, b.optimizer_ns);
    const bool ranks = HasRanks(a_) || HasRanks(b_);
    if (ranks) {
      add("exposed network", "ns", a.network_ns, b.network_ns);
      add("waiting for late ranks", "ns", a.late_ns, b.late_ns);
    }
    add("idle", "ns", a.idle_ns, b.idle_ns);
    add("predicted step time", "ns", a.predicted_step_ns, b.predicted_step_ns);
    AddRow("tokens per second", "tokens_per_s", a.tokens_per_second,
           b.tokens_per_second);
    add("to the device per step", "bytes", a.h2d_bytes, b.h2d_bytes);
    add("least to the device per step", "bytes", a.least_h2d_bytes,
        b.least_h2d_bytes);
    add("to the host per step", "bytes", a.d2h_bytes, b.d2h_bytes);
    if (ranks) {
      add("to other ranks per step", "bytes", a.sent_bytes, b.sent_bytes);
      add("from other ranks per step", "bytes", a.received_bytes,
          b.received_bytes);
    }
    add("device peak", "bytes", a.device_peak_bytes, b.device_peak_bytes);
    add("predicted device peak", "bytes", a.predicted_peak_bytes,
        b.predicted_peak_bytes);
    add("host peak", "bytes", a.host_peak_bytes, b.host_peak_bytes);
    if (a.device_budget_bytes < kUnlimitedBytes &&
        b.device_budget_bytes < kUnlimitedBytes) {
      add("device budget", "bytes", a.device_budget_bytes,
          b.device_budget_bytes);
    }
    const PlanRecord* const plan_a = SettledPlanOf(a_);
    const PlanRecord* const plan_b = SettledPlanOf(b_);
    AddRow("bus to the device", "bytes_per_s", plan_a->h2d_bytes_per_s,
           plan_b->h2d_bytes_per_s);
    add("moves of blocks per step", "count", a.moves, b.moves);
    add("time of these moves", "ns", a.move_ns, b.move_ns);
    add("steps compared", "count", a.steps, b.steps);
  }

  void NoteStep() {
    const TraceView::Summary& a = *a_.summary;
    const TraceView::Summary& b = *b_.summary;
    const int64_t larger = std::max(a.step_ns, b.step_ns);
    const int64_t least =
        static_cast<int64_t>(kWorthSaying * static_cast<double>(larger));
    if (std::abs(b.step_ns - a.step_ns) <= least) {
      Note(absl::StrCat("A step takes as long: ",
                        Change(a.step_ns, b.step_ns, FormatNs), "."));
      return;
    }
    struct Part {
      const char* name;
      int64_t change;
    };
    std::vector<Part> parts = {
        {"compute", b.compute_ns - a.compute_ns},
        {"exposed copies", b.copy_ns - a.copy_ns},
        {"the CPU optimizer", b.optimizer_ns - a.optimizer_ns},
        {"the network", b.network_ns - a.network_ns},
        {"late ranks", b.late_ns - a.late_ns},
        {"idle time", b.idle_ns - a.idle_ns}};
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& x, const Part& y) {
                       return std::abs(x.change) > std::abs(y.change);
                     });
    std::string text = absl::StrCat(
        "A step takes ", b.step_ns < a.step_ns ? "less" : "more", ": ",
        Change(a.step_ns, b.step_ns, FormatNs), Percent(a.step_ns, b.step_ns));
    bool first = true;
    for (const Part& part : parts) {
      if (std::abs(part.change) <= least) continue;
      absl::StrAppend(&text, first ? "; " : ", ", part.name, " ",
                      part.change < 0 ? "-" : "+",
                      FormatNs(std::abs(part.change)));
      first = false;
    }
    Note(absl::StrCat(text, "."));
  }

  // Waits of the compute stream per step, by cause.
  static std::map<std::string, int64_t> WaitsOf(const TraceView& view) {
    std::map<std::string, int64_t> waits;
    int64_t steps = 0;
    for (const TraceView::Step& step : view.steps) steps += step.whole;
    if (steps == 0) return waits;
    for (const TraceView::WaitRow& row : view.waits) {
      if (view.streams[row.stream].name != "compute") continue;
      int64_t& ns = waits[row.cause];
      ns = AddUpTo(ns, row.total_ns / steps);
    }
    return waits;
  }

  void NoteWaits() {
    const std::map<std::string, int64_t> a = WaitsOf(a_);
    const std::map<std::string, int64_t> b = WaitsOf(b_);
    struct Wait {
      std::string cause;
      int64_t a = 0, b = 0;
      int64_t change() const { return std::abs(b - a); }
    };
    std::vector<Wait> waits;
    for (const auto& [cause, ns] : a) waits.push_back({cause, ns, 0});
    for (const auto& [cause, ns] : b) {
      const auto same = std::find_if(
          waits.begin(), waits.end(),
          [&, &cause = cause](const Wait& w) { return w.cause == cause; });
      if (same == waits.end()) {
        waits.push_back({cause, 0, ns});
      } else {
        same->b = ns;
      }
    }
    std::stable_sort(
        waits.begin(), waits.end(),
        [](const Wait& x, const Wait& y) { return x.change() > y.change(); });
    const double larger =
        static_cast<double>(std::max(a_.summary->step_ns, b_.summary->step_ns));
    for (size_t i = 0; i < std::min(waits.size(), kMostWaitNotes); ++i) {
      const Wait& wait = waits[i];
      if (static_cast<double>(wait.change()) <= kWorthSaying * larger) break;
      Note(absl::StrCat(wait.b == 0       ? "A wait is gone. "
                        : wait.a == 0     ? "A wait is new. "
                        : wait.b < wait.a ? "A wait is shorter. "
                                          : "A wait is longer. ",
                        wait.cause, ": ", Change(wait.a, wait.b, FormatNs),
                        " a step over the window."));
    }
  }

  void NoteTraffic() {
    const TraceView::Summary& a = *a_.summary;
    const TraceView::Summary& b = *b_.summary;
    if (a.h2d_bytes != b.h2d_bytes) {
      Note(absl::StrCat("To the device in a step: ",
                        Change(a.h2d_bytes, b.h2d_bytes, FormatBytes),
                        Percent(a.h2d_bytes, b.h2d_bytes), "."));
    }
    if (a.d2h_bytes != b.d2h_bytes) {
      Note(absl::StrCat("To the host in a step: ",
                        Change(a.d2h_bytes, b.d2h_bytes, FormatBytes),
                        Percent(a.d2h_bytes, b.d2h_bytes), "."));
    }
  }

  void NotePeak() {
    if (!a_.peak.has_value() || !b_.peak.has_value()) return;
    const TraceView::Peak& a = *a_.peak;
    const TraceView::Peak& b = *b_.peak;
    if (a.bytes == b.bytes) return;
    std::string text =
        absl::StrCat("Device peak: ", Change(a.bytes, b.bytes, FormatBytes),
                     Percent(a.bytes, b.bytes));
    if (a_.categories == b_.categories) {
      size_t most = 0;
      for (size_t c = 0; c < a_.categories.size(); ++c) {
        if (Moved(c) > Moved(most)) most = c;
      }
      if (Moved(most) > 0) {
        absl::StrAppend(
            &text, ", most of all ", a_.categories[most], " ",
            Change(a.by_category[most], b.by_category[most], FormatBytes));
      }
    }
    if (a.op != b.op) {
      absl::StrAppend(&text, "; it was at \"", Shortened(a.op, 64),
                      "\", now at \"", Shortened(b.op, 64), "\"");
    }
    Note(absl::StrCat(text, "."));
  }
  int64_t Moved(size_t category) const {
    return category < a_.categories.size()
               ? std::abs(b_.peak->by_category[category] -
                          a_.peak->by_category[category])
               : 0;
  }

  const TraceView& a_;
  const TraceView& b_;
  Comparison comparison_;
};

}  // namespace

Comparison CompareViews(const TraceView& a, const TraceView& b) {
  return Comparer(a, b).Compare();
}

}  // namespace castor
