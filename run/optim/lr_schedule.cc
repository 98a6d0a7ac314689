#include "run/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "nlohmann/json.hpp"
#include "run/optim/lr_schedules.h"

namespace castor {
namespace {

using Absent = ScheduleKey::Absent;
using Kind = ScheduleKey::Kind;
using Role = ScheduleKey::Role;

std::optional<double> ReadValue(const ScheduleKey& key, JsonReader& params) {
  const bool has = params.Has(key.name);
  if (!has && key.absent == Absent::kRequired) {
    params.FailMissing(key.name, "is required");
  }
  const double before = key.absent == Absent::kValue ? key.value : key.min;
  double value = before;
  switch (key.kind) {
    case Kind::kNumber:
      params.Double(key.name, &value, {.min = key.min, .max = key.max});
      break;
    case Kind::kSteps: {
      auto steps = static_cast<int64_t>(before);
      params.Int(key.name, &steps,
                 {.min = static_cast<int64_t>(key.min), .max = kMaxSteps});
      value = static_cast<double>(steps);
      break;
    }
    case Kind::kChoice: {
      int index = static_cast<int>(before);
      params.Choice(key.name, key.choices, &index);
      value = index;
      break;
    }
  }
  if (!has && key.absent != Absent::kValue) return std::nullopt;
  return value;
}

}  // namespace

Schedule::Schedule() : Schedule(LrSchedules().front()) {}

Schedule::Schedule(const ScheduleRow& row) : row_(&row) {
  values_.resize(row.keys.size());
}

Schedule Schedule::Read(const ScheduleRow& row, JsonReader& params) {
  Schedule schedule(row);
  bool has_ratio = false;
  for (const ScheduleKey& key : row.keys) {
    has_ratio |= key.role == Role::kRatio && params.Has(key.name);
  }
  for (size_t i = 0; i < row.keys.size(); ++i) {
    const ScheduleKey& key = row.keys[i];
    if (key.role == Role::kWarmup && has_ratio) {
      if (params.Has(key.name)) {
        params.Fail(key.name,
                    "and warmup_ratio both say how long the warm-up "
                    "is: give one of them");
      }
      continue;  // Resolve finds it.
    }
    schedule.values_[i] = ReadValue(key, params);
  }
  return schedule;
}

std::optional<double>* Schedule::Find(Role role) {
  for (size_t i = 0; i < row_->keys.size(); ++i) {
    if (row_->keys[i].role == role) return &values_[i];
  }
  return nullptr;
}

absl::Status Schedule::Resolve(double lr, int64_t run_steps) {
  std::optional<double>* const warmup = Find(Role::kWarmup);
  std::optional<double>* const ratio = Find(Role::kRatio);
  std::optional<double>* const total = Find(Role::kTotal);
  const auto steps = static_cast<double>(run_steps);
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].has_value()) continue;
    if (row_->keys[i].absent == Absent::kRate) values_[i] = lr;
    if (row_->keys[i].absent == Absent::kRunSteps && run_steps > 0) {
      values_[i] =
          warmup != nullptr ? std::max(steps, warmup->value_or(0)) : steps;
    }
  }
  if (ratio != nullptr && ratio->has_value()) {
    const std::optional<double> whole = total != nullptr ? *total
                                        : run_steps > 0
                                            ? std::optional<double>(steps)
                                            : std::nullopt;
    if (whole.has_value()) {
      *warmup = std::ceil(*whole * **ratio);
      *ratio = std::nullopt;
    }
  }
  if (total_steps() > 0 && total_steps() < warmup_steps()) {
    return absl::InvalidArgumentError(
        absl::StrCat(KeyOf(Role::kTotal), ": ", total_steps(),
                     " is less than scheduler.params.", KeyOf(Role::kWarmup),
                     " (", warmup_steps(), ")"));
  }
  if (row_->check == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < values_.size(); ++i) {
    // Its absence is reported already.
    if (!values_[i].has_value() && row_->keys[i].absent == Absent::kRequired) {
      return absl::OkStatus();
    }
  }
  const std::string wrong = row_->check(*this, lr);
  return wrong.empty() ? absl::OkStatus() : absl::InvalidArgumentError(wrong);
}

absl::string_view Schedule::unresolved() const {
  for (size_t i = 0; i < values_.size(); ++i) {
    const ScheduleKey& key = row_->keys[i];
    const bool ratio = key.role == Role::kRatio && values_[i].has_value();
    const bool steps =
        key.absent == Absent::kRunSteps && !values_[i].has_value();
    if (ratio || steps) return key.name;
  }
  return "";
}

bool Schedule::Has(absl::string_view key) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (row_->keys[i].name == key) return values_[i].has_value();
  }
  return false;
}

double Schedule::operator[](absl::string_view key) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (row_->keys[i].name == key && values_[i].has_value()) {
      return *values_[i];
    }
  }
  CASTOR_CHECK(false);
  return 0;
}

int64_t Schedule::StepsOf(Role role) const {
  const absl::string_view key = KeyOf(role);
  return key.empty() || !Has(key) ? 0 : static_cast<int64_t>((*this)[key]);
}

absl::string_view Schedule::KeyOf(Role role) const {
  for (const ScheduleKey& key : row_->keys) {
    if (key.role == role) return key.name;
  }
  return "";
}

double Schedule::PeakRate(double lr) const {
  const absl::string_view key = KeyOf(Role::kPeak);
  return key.empty() ? lr : (*this)[key];
}

OrderedJson Schedule::Params() const {
  OrderedJson params = OrderedJson::object();
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!values_[i].has_value()) continue;
    const ScheduleKey& key = row_->keys[i];
    OrderedJson& value = params[std::string(key.name)];
    switch (key.kind) {
      case Kind::kNumber:
        value = *values_[i];
        break;
      case Kind::kSteps:
        value = static_cast<int64_t>(*values_[i]);
        break;
      case Kind::kChoice:
        value = std::string(key.choices[static_cast<size_t>(*values_[i])]);
        break;
    }
  }
  return params;
}

double LearningRate(const Schedule& schedule, double lr, int64_t step) {
  CASTOR_CHECK(step >= 1);
  const int64_t total = schedule.total_steps();
  const int64_t i = total > 0 ? std::min(step - 1, total) : step - 1;
  return schedule.row().rate(schedule, lr, static_cast<double>(i));
}

}  // namespace castor
