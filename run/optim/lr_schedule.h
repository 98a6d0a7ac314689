// A learning-rate schedule: the rule that gives each step its rate.
//
// To add one, write a row into the table of lr_schedules.cc: its name, its keys
// with their defaults and bounds, and its formula. Nothing else names a
// schedule.
//
// A formula is a function of i = step - 1 (the first step is step 1, and has
// i = 0), as PyTorch's and Hugging Face's schedulers count. With N =
// total_num_steps, the rate stays after step N where it is at i = N, whatever
// the original does there (DeepSpeed's and Hugging Face's cosine rise again).
#ifndef CASTOR_RUN_OPTIM_LR_SCHEDULE_H_
#define CASTOR_RUN_OPTIM_LR_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"

namespace castor {

// More steps than any run has.
inline constexpr int64_t kMaxSteps = int64_t{1} << 48;

class Schedule;

// One key of "scheduler.params".
struct ScheduleKey {
  enum class Kind : uint8_t { kNumber, kSteps, kChoice };
  enum class Absent : uint8_t {
    kValue,     // `value`
    kRate,      // optimizer.params.lr
    kRunSteps,  // the run's steps, or the warm-up's if these are more
    kNothing,   // the formula does without
    kRequired,
  };
  // The part that it plays beside the formula.
  enum class Role : uint8_t {
    kNone,
    kWarmup,  // steps of the warm-up
    kRatio,   // the same as a share of kTotal, or without one of the run
    kTotal,   // the step at which the schedule ends
    kPeak,    // the rate after the warm-up; without one it is the optimizer's
  };
  absl::string_view name;
  Kind kind = Kind::kNumber;
  Absent absent = Absent::kValue;
  double value = 0;
  double min = 0, max = 1;  // inclusive, not of a choice
  absl::Span<const absl::string_view> choices = {};
  Role role = Role::kNone;
};

// A schedule that configurations may name: a row of the table.
struct ScheduleRow {
  absl::string_view name;  // "scheduler.type"
  // True if it is Hugging Face's, so that "lr_scheduler_type" may name it.
  bool hugging_face = false;
  absl::Span<const ScheduleKey> keys = {};
  // The rate at i in [0, N]. `lr` is optimizer.params.lr.
  double (*rate)(const Schedule& schedule, double lr, double i) = nullptr;
  // Says what is wrong with the values together, with the key first; "" if
  // nothing. Values that follow from the run's steps may still be missing. `lr`
  // is optimizer.params.lr.
  std::string (*check)(const Schedule& schedule, double lr) = nullptr;
};

// A row with the values of its keys. Values that follow from the run's steps
// are unknown until these are.
class Schedule {
 public:
  // A constant rate: the table's first row.
  Schedule();

  // Reads "scheduler.params" for a row of the table. What is wrong goes into
  // the reader's report; unknown keys are the caller's matter.
  static Schedule Read(const ScheduleRow& row, JsonReader& params);

  // Fills in what follows from the optimizer's rate and the run's steps; 0:
  // these are not known yet. Values that were given stay. InvalidArgument,
  // which begins with the key's name: values contradict each other.
  absl::Status Resolve(double lr, int64_t run_steps);
  // The first key whose value the run's steps would tell; "" if there is none.
  absl::string_view unresolved() const;

  const ScheduleRow& row() const { return *row_; }
  // Returns true if the row has the key and its value is there.
  bool Has(absl::string_view key) const;
  // The value of a key that is there; of a choice its index.
  double operator[](absl::string_view key) const;

  // 0: there is none.
  int64_t warmup_steps() const { return StepsOf(ScheduleKey::Role::kWarmup); }
  int64_t total_steps() const { return StepsOf(ScheduleKey::Role::kTotal); }
  // The path in "scheduler.params" of the key with that role; "": none.
  absl::string_view KeyOf(ScheduleKey::Role role) const;
  // The rate after the warm-up.
  double PeakRate(double lr) const;

  // The values in effect, by key, as Read takes them.
  OrderedJson Params() const;

  friend bool operator==(const Schedule&, const Schedule&) = default;

 private:
  explicit Schedule(const ScheduleRow& row);
  int64_t StepsOf(ScheduleKey::Role role) const;
  std::optional<double>* Find(ScheduleKey::Role role);

  const ScheduleRow* row_;
  std::vector<std::optional<double>> values_;  // by key
};

// The rate at `step`, from 1. `lr` is optimizer.params.lr. Depends on its
// arguments alone, so a resumed run needs no state of it. The schedule has no
// unresolved key.
double LearningRate(const Schedule& schedule, double lr, int64_t step);

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_LR_SCHEDULE_H_
