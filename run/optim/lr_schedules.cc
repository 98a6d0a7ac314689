#include "run/optim/lr_schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

using Absent = ScheduleKey::Absent;
using Kind = ScheduleKey::Kind;
using Role = ScheduleKey::Role;

constexpr double kMaxRate = 1e38;  // as optimizer.params.lr
constexpr double kMany = 1e9;

// Keys that several rows have.
constexpr ScheduleKey Steps(absl::string_view name, double value,
                            Role role = Role::kNone) {
  return {.name = name, .kind = Kind::kSteps, .value = value, .role = role};
}
constexpr ScheduleKey kWarmup = Steps("warmup_num_steps", 1000, Role::kWarmup);
constexpr ScheduleKey kNoWarmup = Steps("warmup_num_steps", 0, Role::kWarmup);
constexpr ScheduleKey kRatio = {
    .name = "warmup_ratio", .absent = Absent::kNothing, .role = Role::kRatio};
constexpr ScheduleKey kTotal = {.name = "total_num_steps",
                                .kind = Kind::kSteps,
                                .absent = Absent::kRunSteps,
                                .min = 1,
                                .role = Role::kTotal};
constexpr ScheduleKey kCycles = {
    .name = "num_cycles", .value = 0.5, .max = kMany};

// ---- DeepSpeed's and Castor's own.

constexpr absl::string_view kRises[] = {"log", "linear"};
constexpr double kLog = 0, kLinear = 1;
constexpr ScheduleKey Rise(double value) {
  return {.name = "warmup_type",
          .kind = Kind::kChoice,
          .value = value,
          .choices = kRises};
}
constexpr ScheduleKey kMinRate = {.name = "warmup_min_lr", .max = kMaxRate};
constexpr ScheduleKey kPeakRate = {.name = "warmup_max_lr",
                                   .absent = Absent::kRate,
                                   .max = kMaxRate,
                                   .role = Role::kPeak};

// DeepSpeed takes a warm-up of one step for one of two, and so do we.
double WarmupLength(const Schedule& s) {
  const double w = s["warmup_num_steps"];
  return w == 1 ? 2 : w;
}

// g(i) for i < W.
double Rising(const Schedule& s, double i) {
  const double w = std::max(2.0, WarmupLength(s));
  return s["warmup_type"] == kLinear ? i / w : std::log(i + 1) / std::log(w);
}

double WarmupRate(const Schedule& s, double /*lr*/, double i) {
  const double min = s["warmup_min_lr"], max = s["warmup_max_lr"];
  return i < WarmupLength(s) ? min + (max - min) * Rising(s, i) : max;
}

double WarmupDecayRate(const Schedule& s, double lr, double i) {
  const double w = WarmupLength(s), n = s["total_num_steps"];
  const double min = s["warmup_min_lr"], max = s["warmup_max_lr"];
  if (i < w) return WarmupRate(s, lr, i);
  return min + (max - min) * std::max(0.0, n - i) / std::max(1.0, n - w);
}

double WarmupCosineRate(const Schedule& s, double lr, double i) {
  const double w = WarmupLength(s), n = s["total_num_steps"];
  if (i < w) {
    const double r = s["warmup_min_ratio"];
    return lr * (r + (1 - r) * Rising(s, i));
  }
  const double c = s["cos_min_ratio"];
  const double x = std::min(1.0, (i - w + 1) / std::max(1.0, n - w));
  return lr * (c + (1 - c) * (1 + std::cos(std::numbers::pi * x)) / 2);
}

double WarmupInverseSqrtRate(const Schedule& s, double lr, double i) {
  const double w = WarmupLength(s);
  if (i < w) return WarmupRate(s, lr, i);
  return s["warmup_max_lr"] * std::sqrt(std::max(w, 1.0) / std::max(i, 1.0));
}

constexpr ScheduleKey kWarmupKeys[] = {kWarmup, kRatio, Rise(kLog), kMinRate,
                                       kPeakRate};
constexpr ScheduleKey kWarmupDecayKeys[] = {kWarmup,  kRatio,    Rise(kLog),
                                            kMinRate, kPeakRate, kTotal};
constexpr ScheduleKey kWarmupCosineKeys[] = {
    kWarmup,
    kRatio,
    Rise(kLog),
    {.name = "warmup_min_ratio"},
    {.name = "cos_min_ratio", .value = 0.0001},
    kTotal};
constexpr ScheduleKey kWarmupInverseSqrtKeys[] = {
    kWarmup, kRatio, Rise(kLinear), kMinRate, kPeakRate};

// ---- Hugging Face's.

double ConstantRate(const Schedule& /*s*/, double lr, double /*i*/) {
  return lr;
}

bool Warms(const Schedule& s, double i) { return i < s["warmup_num_steps"]; }

double WarmRate(const Schedule& s, double lr, double i) {
  return lr * i / std::max(1.0, s["warmup_num_steps"]);
}

// x in [0, 1].
double AfterWarmup(const Schedule& s, double i) {
  const double w = s["warmup_num_steps"];
  return (i - w) / std::max(1.0, s["total_num_steps"] - w);
}

double Waves(const Schedule& s, double x) {
  return (1 + std::cos(2 * std::numbers::pi * s["num_cycles"] * x)) / 2;
}

double ConstantWithWarmupRate(const Schedule& s, double lr, double i) {
  return Warms(s, i) ? WarmRate(s, lr, i) : lr;
}

double LinearRate(const Schedule& s, double lr, double i) {
  if (Warms(s, i)) return WarmRate(s, lr, i);
  const double n = s["total_num_steps"];
  return lr * std::max(0.0, n - i) / std::max(1.0, n - s["warmup_num_steps"]);
}

double CosineRate(const Schedule& s, double lr, double i) {
  if (Warms(s, i)) return WarmRate(s, lr, i);
  return lr * Waves(s, AfterWarmup(s, i));
}

double CosineWithMinRate(const Schedule& s, double lr, double i) {
  if (Warms(s, i)) return WarmRate(s, lr, i);
  const double min = s.Has("min_lr") ? s["min_lr"] : s["min_lr_rate"] * lr;
  return min + (lr - min) * Waves(s, AfterWarmup(s, i));
}

std::string CheckCosineWithMin(const Schedule& s, double /*lr*/) {
  if (s.Has("min_lr") != s.Has("min_lr_rate")) return "";
  return s.Has("min_lr") ? "min_lr_rate: and min_lr are two names of one "
                           "setting, give one"
                         : "min_lr: it or min_lr_rate is required";
}

double InverseSqrtRate(const Schedule& s, double lr, double i) {
  if (Warms(s, i)) return WarmRate(s, lr, i);
  constexpr double kWithoutWarmup = 10000;
  const double w = s["warmup_num_steps"];
  const double scale = s.Has("timescale") ? s["timescale"]
                       : w > 0            ? w
                                          : kWithoutWarmup;
  return lr / std::sqrt((i + scale - w) / scale);
}

double PolynomialRate(const Schedule& s, double lr, double i) {
  if (Warms(s, i)) return WarmRate(s, lr, i);
  const double end = s["lr_end"];
  return end + (lr - end) * std::pow(1 - AfterWarmup(s, i), s["power"]);
}

// As in transformers, where such a rate does not fall.
std::string CheckPolynomial(const Schedule& s, double lr) {
  const double end = s["lr_end"];
  return end < lr
             ? ""
             : absl::StrCat("lr_end: ", end,
                            " is not less than optimizer.params.lr (", lr, ")");
}

constexpr absl::string_view kCurves[] = {"linear", "cosine", "1-sqrt"};

// Returns how far the curve of warmup_stable_decay's warm-up has risen at x in
// [0, 1].
double RisenBy(double curve, double x) {
  if (curve == 0) return x;
  if (curve == 1) return (1 - std::cos(std::numbers::pi * x)) / 2;
  return 1 - std::sqrt(1 - x);
}

double LeftBy(const Schedule& s, double x) {
  const double curve = s["decay_type"];
  if (curve == 0) return 1 - x;
  if (curve == 1) return Waves(s, x);
  return 1 - std::sqrt(x);
}

// The steps before the decay.
double DecayBegins(const Schedule& s) {
  return s.Has("num_stable_steps")
             ? s["warmup_num_steps"] + s["num_stable_steps"]
             : s["total_num_steps"] - s["num_decay_steps"];
}

double WarmupStableDecayRate(const Schedule& s, double lr, double i) {
  const double w = s["warmup_num_steps"], down = s["num_decay_steps"];
  const double least = s["min_lr_ratio"];
  const double decay = DecayBegins(s);
  double factor = 0;
  if (i < w) {
    factor = RisenBy(s["warmup_type"], i / w);
  } else if (i < decay) {
    return lr;
  } else if (i < decay + down) {
    factor = LeftBy(s, (i - decay) / down);
  }
  return lr * (least + (1 - least) * factor);
}

std::string CheckWarmupStableDecay(const Schedule& s, double /*lr*/) {
  if (s.Has("num_stable_steps") || !s.unresolved().empty()) return "";
  const double w = s["warmup_num_steps"];
  if (DecayBegins(s) >= w) return "";
  return absl::StrCat("num_decay_steps: ", s["num_decay_steps"],
                      " steps of decay after ", w,
                      " of warm-up are more than the ", s["total_num_steps"],
                      " that there are");
}

constexpr ScheduleKey kConstantWithWarmupKeys[] = {kNoWarmup, kRatio};
constexpr ScheduleKey kLinearKeys[] = {kNoWarmup, kRatio, kTotal};
constexpr ScheduleKey kCosineKeys[] = {kNoWarmup, kRatio, kCycles, kTotal};
constexpr ScheduleKey kCosineWithMinKeys[] = {
    kNoWarmup,
    kRatio,
    kCycles,
    {.name = "min_lr", .absent = Absent::kNothing, .max = kMaxRate},
    {.name = "min_lr_rate", .absent = Absent::kNothing},
    kTotal};
constexpr ScheduleKey kInverseSqrtKeys[] = {kNoWarmup,
                                            kRatio,
                                            {.name = "timescale",
                                             .kind = Kind::kSteps,
                                             .absent = Absent::kNothing,
                                             .min = 1}};
constexpr ScheduleKey kPolynomialKeys[] = {
    kNoWarmup,
    kRatio,
    {.name = "lr_end", .value = 1e-7, .max = kMaxRate},
    {.name = "power", .value = 1, .max = kMany},
    kTotal};
constexpr ScheduleKey kWarmupStableDecayKeys[] = {
    kNoWarmup,
    kRatio,
    {.name = "num_decay_steps",
     .kind = Kind::kSteps,
     .absent = Absent::kRequired},
    {.name = "num_stable_steps",
     .kind = Kind::kSteps,
     .absent = Absent::kNothing},
    {.name = "warmup_type", .kind = Kind::kChoice, .choices = kCurves},
    {.name = "decay_type",
     .kind = Kind::kChoice,
     .value = 1,
     .choices = kCurves},
    {.name = "min_lr_ratio"},
    kCycles,
    kTotal};

// ---- BMTrain's.

double NoamRate(const Schedule& s, double /*lr*/, double i) {
  const double start = s["start_lr"], w = s["warmup_iter"];
  return i <= w ? start * i / (w * std::sqrt(w)) : start / std::sqrt(i);
}

constexpr ScheduleKey kNoamKeys[] = {
    {.name = "start_lr", .absent = Absent::kRate, .max = kMaxRate},
    {.name = "warmup_iter",
     .kind = Kind::kSteps,
     .absent = Absent::kRequired,
     .min = 1,
     .role = Role::kWarmup},
    {.name = "end_iter",
     .kind = Kind::kSteps,
     .absent = Absent::kNothing,
     .min = -1}};

// ---- DeepSpeedExamples'.

double WarmupExpDecayExpRate(const Schedule& s, double lr, double i) {
  const double restart = s["restart_step"];
  if (restart > 0 && i >= restart) {
    i -= restart;
    lr = s["restart_lr"];
  }
  const double proportion = s["warmup_proportion"];
  const double x = i / s["total_num_steps"];
  double factor = 1;
  if (proportion > 0 && x < proportion) {
    factor = std::pow(x / proportion, s["degree"]);
  } else if (proportion > 0) {
    const double warm = proportion * s["total_num_steps"];
    factor = std::pow(s["decay_rate"], (i - warm) / s["decay_step"]);
  }
  return lr * factor + s["lr_offset"];
}

// Its total is no end: the warm-up is a share of it, and the rate falls on.
constexpr ScheduleKey kWarmupExpDecayExpKeys[] = {
    {.name = "warmup_proportion", .value = 0.002},
    {.name = "decay_rate", .absent = Absent::kRequired},
    {.name = "decay_step",
     .kind = Kind::kSteps,
     .absent = Absent::kRequired,
     .min = 1},
    {.name = "degree", .value = 2, .max = kMany},
    {.name = "lr_offset", .max = kMaxRate},
    {.name = "restart_step", .kind = Kind::kSteps},
    {.name = "restart_lr", .absent = Absent::kRate, .max = kMaxRate},
    {.name = "total_num_steps",
     .kind = Kind::kSteps,
     .absent = Absent::kRunSteps,
     .min = 1}};

}  // namespace

absl::Span<const ScheduleRow> LrSchedules() {
  static constexpr ScheduleRow kRows[] = {
      {.name = "none", .rate = ConstantRate},
      {.name = "WarmupLR", .keys = kWarmupKeys, .rate = WarmupRate},
      {.name = "WarmupDecayLR",
       .keys = kWarmupDecayKeys,
       .rate = WarmupDecayRate},
      {.name = "WarmupCosineLR",
       .keys = kWarmupCosineKeys,
       .rate = WarmupCosineRate},
      {.name = "WarmupInverseSqrtLR",
       .keys = kWarmupInverseSqrtKeys,
       .rate = WarmupInverseSqrtRate},
      {.name = "constant", .hugging_face = true, .rate = ConstantRate},
      {.name = "constant_with_warmup",
       .hugging_face = true,
       .keys = kConstantWithWarmupKeys,
       .rate = ConstantWithWarmupRate},
      {.name = "linear",
       .hugging_face = true,
       .keys = kLinearKeys,
       .rate = LinearRate},
      {.name = "cosine",
       .hugging_face = true,
       .keys = kCosineKeys,
       .rate = CosineRate},
      {.name = "cosine_with_min_lr",
       .hugging_face = true,
       .keys = kCosineWithMinKeys,
       .rate = CosineWithMinRate,
       .check = CheckCosineWithMin},
      {.name = "inverse_sqrt",
       .hugging_face = true,
       .keys = kInverseSqrtKeys,
       .rate = InverseSqrtRate},
      {.name = "polynomial",
       .hugging_face = true,
       .keys = kPolynomialKeys,
       .rate = PolynomialRate,
       .check = CheckPolynomial},
      {.name = "warmup_stable_decay",
       .hugging_face = true,
       .keys = kWarmupStableDecayKeys,
       .rate = WarmupStableDecayRate,
       .check = CheckWarmupStableDecay},
      {.name = "Noam", .keys = kNoamKeys, .rate = NoamRate},
      {.name = "warmup_exp_decay_exp",
       .keys = kWarmupExpDecayExpKeys,
       .rate = WarmupExpDecayExpRate},
  };
  return kRows;
}

const ScheduleRow* FindLrSchedule(absl::string_view name) {
  for (const ScheduleRow& row : LrSchedules()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<absl::string_view> LrScheduleNames(bool hugging_face_only) {
  std::vector<absl::string_view> names;
  for (const ScheduleRow& row : LrSchedules()) {
    if (row.hugging_face || !hugging_face_only) names.push_back(row.name);
  }
  return names;
}

}  // namespace castor
