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

// The greatest rate of a schedule that has a warm-up.
double FullRate(const Config& config) {
  return config.scheduler.type == SchedulerType::kWarmupCosine
             ? config.optimizer.lr
             : config.scheduler.warmup_max_lr;
}

std::string WarmupNote(const Config& config) {
  const SchedulerConfig& scheduler = config.scheduler;
  const double last =
      LearningRate(scheduler, config.optimizer.lr, config.steps);
  return absl::StrCat("scheduler.params.warmup_num_steps: the warm-up takes ",
                      scheduler.warmup_num_steps, " steps, and the run has ",
                      config.steps, ": the learning rate ends at ", Rate(last),
                      ", on its way to ", Rate(FullRate(config)),
                      ", and never falls");
}

std::string TotalNote(const Config& config) {
  const SchedulerConfig& scheduler = config.scheduler;
  const int64_t end = std::min(config.steps, scheduler.total_num_steps);
  return absl::StrCat(
      "scheduler.params.total_num_steps: the schedule ends at step ",
      scheduler.total_num_steps, ", and the run at step ", config.steps,
      end < config.steps ? ": after it the learning rate stays at "
                         : ": the learning rate has come to ",
      Rate(LearningRate(scheduler, config.optimizer.lr, config.steps)),
      end < config.steps ? "" : " by then");
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
  const SchedulerConfig& scheduler = config.scheduler;
  if (scheduler.type == SchedulerType::kConstant || config.steps == 0) {
    return notes;
  }
  const bool ends = scheduler.type == SchedulerType::kWarmupDecay ||
                    scheduler.type == SchedulerType::kWarmupCosine;
  if (scheduler.warmup_num_steps > config.steps) {
    notes.push_back(WarmupNote(config));
  } else if (ends && scheduler.total_num_steps != config.steps) {
    notes.push_back(TotalNote(config));
  }
  return notes;
}

}  // namespace castor
