// The sweep as a picture: step time above, traffic below, on one axis of
// budgets. No script, no font, no colour of the ground: it takes the page's.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/units.h"
#include "cli/replay/replay_report.h"
#include "memory/plan/policy/policies.h"

namespace castor::cli {
namespace {

constexpr double kWidth = 760, kLeft = 78, kRight = 24;
constexpr double kPanelHeight = 210, kTop = 56, kBetween = 44;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kHeight = kTop + 2 * kPanelHeight + kBetween + 64;

// A policy has the colour at its row's place. All can be read on white and on
// black.
constexpr const char* kColours[] = {"#2f9e62", "#d9822b", "#3d7fd9", "#a05fc9"};

std::string Escaped(absl::string_view text) {
  std::string clean;
  for (const char c : text) {
    // A control character has no place in a picture, escaped or not.
    clean += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return absl::StrReplaceAll(
      clean, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// A step of 1, 2 or 5 times a power of ten, for about `count` lines up to
// `top`.
double NiceStep(double top, int count) {
  const double raw = std::max(top, 1e-12) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

class Picture {
 public:
  Picture(const std::string& title, const std::vector<SweepPoint>& sweep)
      : sweep_(sweep) {
    low_ = Log(sweep.front().device_bytes);
    high_ = Log(sweep.back().device_bytes);
    absl::StrAppendFormat(
        &svg_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" "
        "width=\"%g\" height=\"%g\" font-family=\"system-ui, sans-serif\" "
        "font-size=\"12\" role=\"img\">\n"
        "<title>%s</title>\n"
        "<style>text{fill:#444}.axis{stroke:#888}.grid{stroke:#8884}"
        "@media(prefers-color-scheme:dark){text{fill:#bbb}}</style>\n",
        kWidth, kHeight, kWidth, kHeight, Escaped(title));
    Text(kLeft, 20, Escaped(title), "start", "font-size=\"14\"");
  }

  void Panel(double top, const std::string& name,
             const std::function<double(const PlanCost&)>& value,
             const std::function<double(const SweepPoint&)>& least) {
    double highest = 0;
    for (const SweepPoint& point : sweep_) {
      highest = std::max(highest, value(point.result.cost));
    }
    if (highest <= 0) highest = 1;
    const double step = NiceStep(highest, 5);
    const double scale = std::ceil(highest / step) * step;
    const double bottom = top + kPanelHeight;
    const auto y = [&](double v) { return bottom - v / scale * kPanelHeight; };
    for (int i = 0; i * step <= scale * 1.0001; ++i) {
      Line(kLeft, y(i * step), kLeft + kPlotWidth, y(i * step), "grid");
      Text(kLeft - 8, y(i * step) + 4, absl::StrFormat("%g", i * step), "end");
    }
    Line(kLeft, top, kLeft, bottom, "axis");
    Line(kLeft, bottom, kLeft + kPlotWidth, bottom, "axis");
    Text(kLeft, top - 8, name, "start");
    for (const PlacementPolicy* policy : InPaintingOrder()) {
      std::string points, least_points;
      for (const SweepPoint& point : sweep_) {
        if (point.policy != policy) continue;
        const double x = X(point.device_bytes);
        const double v = value(point.result.cost);
        absl::StrAppendFormat(&points, "%.1f,%.1f ", x, y(v));
        if (least) {
          absl::StrAppendFormat(&least_points, "%.1f,%.1f ", x,
                                y(least(point)));
        }
        absl::StrAppendFormat(
            &svg_,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" fill=\"%s\">"
            "<title>%s, %s: %s</title></circle>\n",
            x, y(v), point.result.own ? 5.5 : 3.0, Colour(policy), policy->name,
            FormatBytes(point.device_bytes), absl::StrFormat("%.4g", v));
      }
      Curve(points, policy, "");
      Curve(least_points, policy, " stroke-dasharray=\"3 3\" opacity=\"0.7\"");
    }
  }

  void BudgetAxis(double bottom) {
    constexpr int kTicks = 5;
    for (int i = 0; i <= kTicks; ++i) {
      const double at = low_ + (high_ - low_) * i / kTicks;
      const double x = kLeft + kPlotWidth * i / kTicks;
      Line(x, bottom, x, bottom + 5, "axis");
      Text(x, bottom + 19, FormatBytes(std::llround(std::exp(at))),
           i == 0        ? "start"
           : i == kTicks ? "end"
                         : "middle");
      if (high_ <= low_) break;
    }
    Text(kLeft + kPlotWidth / 2, bottom + 40,
         "device memory (logarithmic); a large dot: the recorded run's plan",
         "middle");
  }

  void Legend(double y) {
    double x = kLeft + kPlotWidth - 240;
    const absl::Span<const PlacementPolicy> policies = Policies();
    for (auto policy = policies.rbegin(); policy != policies.rend(); ++policy) {
      if (NumPoints(&*policy) == 0) continue;
      absl::StrAppendFormat(
          &svg_, "<circle cx=\"%g\" cy=\"%g\" r=\"4\" fill=\"%s\"/>\n", x,
          y - 4, Colour(&*policy));
      Text(x + 9, y, std::string(policy->name), "start");
      x += 60;
    }
  }

  std::string Finish() && { return absl::StrCat(svg_, "</svg>\n"); }

 private:
  static double Log(int64_t bytes) {
    return std::log(static_cast<double>(std::max<int64_t>(1, bytes)));
  }
  static const char* Colour(const PlacementPolicy* policy) {
    return kColours[(policy - Policies().data()) % std::size(kColours)];
  }
  int64_t NumPoints(const PlacementPolicy* policy) const {
    return std::count_if(
        sweep_.begin(), sweep_.end(),
        [&](const SweepPoint& point) { return point.policy == policy; });
  }
  // A policy with few points is painted over one with many, which would hide
  // them where both are as fast.
  std::vector<const PlacementPolicy*> InPaintingOrder() const {
    std::vector<const PlacementPolicy*> order;
    for (const PlacementPolicy& policy : Policies()) order.push_back(&policy);
    std::stable_sort(order.begin(), order.end(),
                     [&](const PlacementPolicy* a, const PlacementPolicy* b) {
                       return NumPoints(a) > NumPoints(b);
                     });
    return order;
  }
  double X(int64_t bytes) const {
    const double share =
        high_ > low_ ? (Log(bytes) - low_) / (high_ - low_) : 0;
    return kLeft + share * kPlotWidth;
  }
  void Line(double x1, double y1, double x2, double y2, const char* kind) {
    absl::StrAppendFormat(&svg_,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                          "y2=\"%.1f\" class=\"%s\"/>\n",
                          x1, y1, x2, y2, kind);
  }
  void Text(double x, double y, const std::string& text, const char* anchor,
            const char* more = "") {
    absl::StrAppendFormat(
        &svg_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>%s</text>\n",
        x, y, anchor, more, text);
  }
  void Curve(const std::string& points, const PlacementPolicy* policy,
             const char* more) {
    if (points.empty()) return;
    absl::StrAppendFormat(&svg_,
                          "<polyline points=\"%s\" fill=\"none\" "
                          "stroke=\"%s\" stroke-width=\"1.8\"%s/>\n",
                          points, Colour(policy), more);
  }

  const std::vector<SweepPoint>& sweep_;
  double low_ = 0, high_ = 0;
  std::string svg_;
};

}  // namespace

std::string SweepSvg(const RecordedRun& run, const std::string& title,
                     const std::vector<SweepPoint>& sweep) {
  Picture picture(title, sweep);
  picture.Legend(40);
  picture.Panel(
      kTop, "step time, ms",
      [](const PlanCost& cost) {
        return static_cast<double>(cost.step_ns) * 1e-6;
      },
      nullptr);
  const double second = kTop + kPanelHeight + kBetween;
  picture.Panel(
      second, "copied to the device per step, MiB (dashed: the least possible)",
      [](const PlanCost& cost) {
        return static_cast<double>(cost.h2d_bytes) / (1 << 20);
      },
      [](const SweepPoint& point) {
        return static_cast<double>(point.result.least_h2d_bytes) / (1 << 20);
      });
  picture.BudgetAxis(second + kPanelHeight);
  return std::move(picture).Finish();
}

}  // namespace castor::cli
