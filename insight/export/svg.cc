#include "insight/export/svg.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/units.h"
#include "insight/export/palette.h"
#include "insight/names.h"
#include "insight/utf8.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

// All in the picture's units, of which a screen shows one as a pixel.
constexpr double kWidth = 1000;
constexpr double kLeft = 118;  // of the time axis
constexpr double kRight = 986;
constexpr double kTitle = 46;
constexpr double kLegend = 20;
constexpr double kStrip = 18;  // above the curve, for names
constexpr double kMemory = 180;
constexpr double kLane = 24;
constexpr double kAxis = 24;
constexpr double kFont = 11;
// Things that are nearer together are drawn as one.
constexpr double kLeast = 0.6;

// The colour of waits that cost nothing, which comes before all others: narrow
// spans are drawn over them.
constexpr char kThin[] = " soft";

absl::string_view ColorOf(absl::string_view name) {
  if (name == kThin) name = "soft";
  for (const PageColor& color : PageColors()) {
    if (color.name == name) return color.value;
  }
  return name == "other" ? "#888888" : ColorOf("other");
}

std::string CategoryColor(size_t category) {
  return absl::StrCat("category-", category % 8);
}

double TextWidth(absl::string_view text) {
  return static_cast<double>(text.size()) * kFont * 0.56;
}

// Returns the text as XML may hold it, whatever the trace says.
std::string Escaped(absl::string_view text) {
  std::string result;
  for (const char c : ValidUtf8(text)) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    absl::StrAppend(&result,
                    control ? kReplacementCharacter : absl::string_view(&c, 1));
  }
  return absl::StrReplaceAll(result, {{"&", "&amp;"},
                                      {"<", "&lt;"},
                                      {">", "&gt;"},
                                      {"\"", "&quot;"},
                                      {"\xEF\xBF\xBE", kReplacementCharacter},
                                      {"\xEF\xBF\xBF", kReplacementCharacter}});
}

// 1, 2 or 5 times a power of ten, of which about `count` make `span`.
double RoundStep(double span, double count) {
  const double rough = std::max(span / count, 1.0);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

class Picture {
 public:
  explicit Picture(const TraceView& view) : view_(view) {
    const auto& summary = view.summary;
    step_ = summary.has_value() ? summary->median_step : -1;
    if (step_ >= 0) {
      start_ns_ = view.steps[step_].start_ns;
      end_ns_ = view.steps[step_].end_ns;
      return;
    }
    bool any = false;
    for (const TraceView::Span& span : view.spans) {
      start_ns_ = any ? std::min(start_ns_, span.start_ns) : span.start_ns;
      end_ns_ = std::max(end_ns_, span.end_ns);
      any = true;
    }
  }

  absl::StatusOr<std::string> Draw() {
    if (end_ns_ <= start_ns_) {
      return absl::FailedPreconditionError(
          absl::StrCat(view_.source, " holds no steps that could be drawn: ",
                       view_.message.empty() ? view_.status : view_.message));
    }
    const double lanes = static_cast<double>(view_.streams.size()) * kLane;
    const double height = kTitle + kLegend + kMemory + kLegend + lanes + kAxis;
    absl::StrAppendFormat(
        &svg_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" "
        "height=\"%g\" viewBox=\"0 0 %g %g\" "
        "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"%g\">\n",
        kWidth, height, kWidth, height, kFont);
    Box(0, 0, kWidth, height, "panel");
    DrawTitle();
    DrawMemory(kTitle + kLegend);
    DrawLanes(kTitle + kLegend + kMemory + kLegend);
    DrawTimes(kTitle + kLegend, height - kAxis);
    svg_.append("</svg>\n");
    return std::move(svg_);
  }

 private:
  double X(int64_t time_ns) const {
    const double share = static_cast<double>(time_ns - start_ns_) /
                         static_cast<double>(end_ns_ - start_ns_);
    return kLeft + std::clamp(share, 0.0, 1.0) * (kRight - kLeft);
  }

  void Box(double x, double y, double width, double height,
           absl::string_view color) {
    absl::StrAppendFormat(&svg_,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                          "height=\"%.2f\" fill=\"%s\"/>\n",
                          x, y, width, height, ColorOf(color));
  }
  void Text(double x, double y, absl::string_view text,
            absl::string_view color = "text",
            absl::string_view anchor = "start", bool bold = false) {
    absl::StrAppendFormat(
        &svg_,
        "<text x=\"%.2f\" y=\"%.2f\" fill=\"%s\" text-anchor=\"%s\"%s>%s"
        "</text>\n",
        x, y, ColorOf(color), anchor, bold ? " font-weight=\"bold\"" : "",
        Escaped(text));
  }
  void Path(absl::string_view path, absl::string_view color) {
    absl::StrAppend(&svg_, "<path d=\"", path, "\" fill=\"", ColorOf(color),
                    "\"/>\n");
  }
  void Line(absl::string_view path, absl::string_view color, double width,
            absl::string_view more = "") {
    absl::StrAppendFormat(&svg_,
                          "<path d=\"%s\" fill=\"none\" stroke=\"%s\" "
                          "stroke-width=\"%g\"%s/>\n",
                          path, ColorOf(color), width, more);
  }

  void DrawTitle() {
    std::vector<std::string> facts = {view_.source};
    if (view_.run.has_value()) {
      facts.push_back(view_.run->title);
      facts.push_back(absl::StrCat(view_.run->device, " device"));
      facts.push_back(absl::StrCat("policy ", view_.run->policy));
      if (view_.run->world_size > 1) {
        facts.push_back(absl::StrCat("rank ", view_.run->rank, " of ",
                                     view_.run->world_size));
      }
    }
    Text(8, 17, Shortened(absl::StrJoin(facts, ", "), 150), "text", "start",
         /*bold=*/true);
    std::string what =
        absl::StrCat("all of it: ", FormatNs(end_ns_ - start_ns_));
    if (step_ >= 0) {
      const TraceView::Summary& summary = *view_.summary;
      what = absl::StrFormat(
          "step %d, of median length: %s, %.1f %% of it compute; device peak "
          "%s",
          view_.steps[step_].step, FormatNs(summary.step_ns),
          100.0 * static_cast<double>(summary.compute_ns) /
              static_cast<double>(std::max<int64_t>(1, summary.step_ns)),
          FormatBytes(summary.device_peak_bytes));
      if (summary.tokens_per_second > 0) {
        absl::StrAppendFormat(&what, "; %.0f tokens/s",
                              summary.tokens_per_second);
      }
    }
    Text(8, 34, what, "soft");
  }

  struct Entry {
    std::string name;
    std::string color;
  };
  void DrawLegend(double y, absl::string_view title,
                  const std::vector<Entry>& entries) {
    Box(0, y, kWidth, 1, "line");
    Text(8, y + 14, title, "text", "start", /*bold=*/true);
    double x = kLeft;
    for (const Entry& entry : entries) {
      Box(x, y + 6, 9, 9, entry.color);
      Text(x + 13, y + 14, entry.name, "soft");
      x += TextWidth(entry.name) + 28;
    }
  }

  // A place on the axis and the highest of the points that fall on it, which
  // holds until the next one.
  template <typename Point>
  struct Column {
    double x;
    const Point* point;
  };
  static int64_t Total(const TraceView::MemoryPoint& point) {
    int64_t sum = 0;
    for (const int64_t bytes : point.bytes) sum = AddUpTo(sum, bytes);
    return sum;
  }
  static int64_t Total(const TraceView::PredictedPoint& point) {
    return point.bytes;
  }
  template <typename Point>
  std::vector<Column<Point>> Columns(const std::vector<Point>& points) const {
    std::vector<Column<Point>> columns;
    for (const Point& point : points) {
      if (point.time_ns >= end_ns_) break;
      const double x = X(point.time_ns);
      if (columns.empty() || x - columns.back().x >= kLeast) {
        columns.push_back({x, &point});
      } else if (point.time_ns <= start_ns_ ||
                 Total(point) > Total(*columns.back().point)) {
        columns.back().point = &point;
      }
    }
    return columns;
  }

  // The budgets of the picture, each from where it begins on; at least one.
  std::vector<std::pair<double, int64_t>> Budgets() const {
    std::vector<std::pair<double, int64_t>> budgets = {
        {kLeft, view_.BudgetAt(start_ns_)}};
    for (const BudgetRecord& change : view_.budgets) {
      if (change.time_ns <= start_ns_ || change.time_ns >= end_ns_) continue;
      budgets.emplace_back(X(change.time_ns), change.to_bytes);
    }
    return budgets;
  }

  void DrawMemory(double top) {
    const auto used = Columns(view_.memory);
    const auto planned = Columns(view_.predicted_memory);
    int64_t most = 0;
    const TraceView::MemoryPoint* peak = nullptr;
    for (const auto& [x, point] : used) {
      if (peak == nullptr || Total(*point) > most) {
        peak = point;
        most = Total(*point);
      }
    }
    const int64_t used_most = most;
    for (const auto& [x, point] : planned) most = std::max(most, point->bytes);
    const std::vector<std::pair<double, int64_t>> budgets = Budgets();
    const double highest = 2.5 * static_cast<double>(most);
    const auto in_sight = [highest](int64_t budget) {
      return budget > 0 && static_cast<double>(budget) <= highest;
    };
    for (const auto& [x, budget] : budgets) {
      if (in_sight(budget)) most = std::max(most, budget);
    }
    const double bottom = top + kMemory;
    const double scale =
        (kMemory - kStrip) /
        (1.02 * static_cast<double>(std::max<int64_t>(1, most)));
    const auto y_of = [&](int64_t bytes) {
      return bottom - static_cast<double>(bytes) * scale;
    };

    std::vector<Entry> entries;
    for (size_t c = 0; c < view_.categories.size(); ++c) {
      const bool held = std::any_of(
          used.begin(), used.end(),
          [&](const auto& column) { return column.point->bytes[c] > 0; });
      if (held) entries.push_back({view_.categories[c], CategoryColor(c)});
    }
    if (!planned.empty()) entries.push_back({"plan", "predicted"});
    DrawLegend(top - kLegend, "device memory", entries);

    const double step =
        std::exp2(std::ceil(std::log2(static_cast<double>(most) / 5 + 1)));
    for (double bytes = step; bytes <= static_cast<double>(most);
         bytes += step) {
      const double y = y_of(static_cast<int64_t>(bytes));
      Box(kLeft, y, kRight - kLeft, 1, "faint");
      Text(kLeft - 6, y + 4, FormatBytes(static_cast<int64_t>(bytes)), "soft",
           "end");
    }
    for (size_t c = view_.categories.size(); c-- > 0;) {
      std::string path;
      for (const auto& [x, point] : used) {
        int64_t sum = 0;
        for (size_t i = 0; i <= c; ++i) sum = AddUpTo(sum, point->bytes[i]);
        if (path.empty()) absl::StrAppendFormat(&path, "M%.1f %.1f", x, bottom);
        absl::StrAppendFormat(&path, "H%.1fV%.1f", x, y_of(sum));
      }
      if (path.empty()) break;
      absl::StrAppendFormat(&path, "H%.1fV%.1fZ", kRight, bottom);
      Path(path, CategoryColor(c));
    }
    std::string plan;
    for (const auto& [x, point] : planned) {
      const double y = y_of(point->bytes);
      plan.empty() ? absl::StrAppendFormat(&plan, "M%.1f %.1f", x, y)
                   : absl::StrAppendFormat(&plan, "H%.1fV%.1f", x, y);
    }
    if (!plan.empty()) {
      absl::StrAppendFormat(&plan, "H%.1f", kRight);
      Line(plan, "panel", 2.5);
      Line(plan, "predicted", 1);
    }
    double room = kRight;
    std::string line;
    for (size_t i = 0; i < budgets.size(); ++i) {
      const auto& [x, budget] = budgets[i];
      if (!in_sight(budget)) continue;
      absl::StrAppendFormat(
          &line, "M%g %.1fH%g", x, y_of(budget),
          i + 1 < budgets.size() ? budgets[i + 1].first : kRight);
    }
    if (!line.empty()) {
      Line(line, "budget", 1.5, " stroke-dasharray=\"6 4\"");
    }
    if (const int64_t last = budgets.back().second; last < kUnlimitedBytes) {
      std::string name = absl::StrCat("budget ", FormatBytes(last));
      if (const int64_t first = budgets.front().second; first != last) {
        name = absl::StrCat("budget ", FormatBytes(first), ", at last ",
                            FormatBytes(last));
      }
      Text(kRight, top + 12, name, "budget", "end");
      room -= TextWidth(name) + 12;
    }
    if (peak != nullptr) DrawPeak(*peak, top, y_of(used_most), room);
  }

  // Its name stands in the strip above the curve, left of `room`.
  void DrawPeak(const TraceView::MemoryPoint& peak, double top, double y,
                double room) {
    const int64_t plan = peak.step < 0 ? -1 : view_.steps[peak.step].plan;
    const int64_t program = plan < 0 ? -1 : view_.plans[plan].program;
    std::string name = absl::StrCat("peak ", FormatBytes(Total(peak)));
    if (program >= 0 && peak.moment >= 0 &&
        peak.moment <
            static_cast<int64_t>(view_.programs[program].ops.size())) {
      absl::StrAppend(
          &name, "  ",
          Shortened(view_.programs[program].ops[peak.moment].name, 64));
    }
    const double x = X(peak.time_ns);
    const double wide = TextWidth(name);
    Text(std::max(kLeft + 2, std::min(x - wide / 2, room - wide)), top + 12,
         name);
    absl::StrAppendFormat(&svg_,
                          "<path d=\"M%.1f %.1fl-5 -7h10z\" fill=\"%s\"/>\n", x,
                          y - 1, ColorOf("text"));
  }

  std::string ColorOfSpan(const TraceView::Span& span) const {
    if (span.kind < 0) return "wait";
    const auto kind = static_cast<WorkKind>(span.kind);
    if (kind != WorkKind::kOperator) return std::string(RowOf(kind).color);
    const int64_t plan = span.step < 0 ? -1 : view_.steps[span.step].plan;
    const int64_t program = plan < 0 ? -1 : view_.plans[plan].program;
    if (program < 0 || span.moment < 0 ||
        span.moment >=
            static_cast<int64_t>(view_.programs[program].ops.size())) {
      return "forward";
    }
    return std::string(
        PhaseName(view_.programs[program].ops[span.moment].phase));
  }

  void DrawLanes(double top) {
    const size_t lanes = view_.streams.size();
    struct Bars {
      std::string path;
      double drawn = 0;  // up to there
    };
    std::vector<std::map<std::string, Bars>> lane_bars(lanes);
    std::set<std::string> seen;
    for (const TraceView::Span& span : view_.spans) {
      if (span.end_ns <= start_ns_ || span.start_ns >= end_ns_) continue;
      std::string color = ColorOfSpan(span);
      // Other streams than compute wait for their turn, which is no loss.
      const bool thin = span.kind < 0 && span.stream > 0 && span.late_rank < 0;
      if (thin) color = kThin;
      Bars& bars = lane_bars[span.stream][color];
      const double x = X(span.start_ns);
      const double right = std::max(X(span.end_ns), x + kLeast);
      if (right < bars.drawn + kLeast) continue;
      bars.drawn = right;
      seen.insert(color);
      const double y = top + static_cast<double>(span.stream) * kLane;
      absl::StrAppendFormat(&bars.path, "M%.2f %.1fh%.2fv%gh-%.2fz", x,
                            thin ? y + kLane / 2 - 1 : y + 2, right - x,
                            thin ? 1.5 : kLane - 4, right - x);
    }
    std::vector<std::string> names = {"wait", "forward", "backward",
                                      "optimizer"};
    for (const WorkRow& row : kWorkRows) {
      if (row.kind != WorkKind::kOther) names.emplace_back(row.color);
    }
    names.emplace_back(RowOf(WorkKind::kOther).color);
    std::vector<Entry> entries;
    for (const std::string& name : names) {
      if (seen.erase(name) == 0) continue;
      entries.push_back({absl::StrReplaceAll(name, {{"_", " "}}), name});
    }
    DrawLegend(top - kLegend, "streams", entries);
    for (size_t lane = 0; lane < lanes; ++lane) {
      const double y = top + static_cast<double>(lane) * kLane;
      Text(kLeft - 6, y + kLane / 2 + 4,
           Shortened(view_.streams[lane].label, 20), "text", "end");
      Box(kLeft, y + 2, kRight - kLeft, kLane - 4, "faint");
      for (const auto& [color, bars] : lane_bars[lane]) {
        Path(bars.path, color);
      }
    }
  }

  void DrawTimes(double top, double bottom) {
    const auto span = static_cast<double>(end_ns_ - start_ns_);
    const double step = RoundStep(span, 9);
    for (double ns = 0; ns <= span; ns += step) {
      const double x = X(start_ns_ + static_cast<int64_t>(ns));
      Box(x, bottom, 1, 5, "soft");
      if (x > kRight - 40) continue;
      Text(x + 4, bottom + 15,
           ns == 0 ? "0" : FormatNs(static_cast<int64_t>(ns)), "soft");
    }
    Box(kLeft - 1, top, 1, bottom - top, "line");
  }

  const TraceView& view_;
  int64_t step_ = -1;  // index of the view's steps; -1: all is drawn
  int64_t start_ns_ = 0;
  int64_t end_ns_ = 0;
  std::string svg_;
};

}  // namespace

absl::StatusOr<std::string> SvgPicture(const TraceView& view) {
  return Picture(view).Draw();
}

}  // namespace castor
