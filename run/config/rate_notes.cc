#include "run/config/rate_notes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "run/optim/lr_schedule.h"

namespace castor {
namespace {

std::string Rate(double rate) { return absl::StrFormat("%.3g", rate); }

std::string KeyPath(const Schedule& schedule, ScheduleKey::Role role) {
  return absl::StrCat("scheduler.params.", schedule.KeyOf(role));
}

std::string WarmupNote(const Config& config) {
  const Schedule& schedule = config.scheduler;
  const double lr = config.optimizer.lr;
  return absl::StrCat(
      KeyPath(schedule, ScheduleKey::Role::kWarmup), ": the warm-up takes ",
      schedule.warmup_steps(), " steps, and the run has ", config.steps,
      ": the learning rate ends at ",
      Rate(LearningRate(schedule, lr, config.steps)), ", on its way to ",
      Rate(schedule.PeakRate(lr)), ", and never falls");
}

std::string TotalNote(const Config& config) {
  const Schedule& schedule = config.scheduler;
  const int64_t total = schedule.total_steps();
  const bool over = total < config.steps;
  return absl::StrCat(
      KeyPath(schedule, ScheduleKey::Role::kTotal),
      ": the schedule ends at step ", total, ", and the run at step ",
      config.steps,
      over ? ": after it the learning rate stays at "
           : ": the learning rate has come to ",
      Rate(LearningRate(schedule, config.optimizer.lr, config.steps)),
      over ? "" : " by then");
}

}  // namespace

std::vector<std::string> RateNotes(const Config& config) {
  std::vector<std::string> notes;
  if (config.optimizer.lr_is_default && !config.model.pretrained.empty()) {
    notes.push_back(
        absl::StrCat("optimizer.params.lr is not given: the learning rate is ",
                     Rate(config.optimizer.lr),
                     ", for model.pretrained has trained values"));
  }
  const Schedule& schedule = config.scheduler;
  if (config.steps == 0) return notes;
  if (schedule.warmup_steps() > config.steps) {
    notes.push_back(WarmupNote(config));
  } else if (schedule.total_steps() > 0 &&
             schedule.total_steps() != config.steps) {
    notes.push_back(TotalNote(config));
  }
  return notes;
}

}  // namespace castor
