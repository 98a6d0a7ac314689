#include "run/config/run_length.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/units.h"
#include "run/config/config_names.h"
#include "run/optim/lr_schedules.h"

namespace castor {
namespace {

constexpr absl::string_view kParams = "scheduler.params";

// The row that "scheduler.type" or "lr_scheduler_type" names. *known: whether
// its name is one.
const ScheduleRow* ReadType(JsonReader& root, JsonReader& scheduler,
                            bool* known) {
  int index = 0;
  std::vector<absl::string_view> names = LrScheduleNames(false);
  scheduler.Choice("type", names, &index);
  *known = !scheduler.Failed("type");
  if (root.Has("lr_scheduler_type")) {
    names = LrScheduleNames(/*hugging_face_only=*/true);
    index = 0;
    root.Choice("lr_scheduler_type", names, &index);
    *known = *known && !root.Failed("lr_scheduler_type");
    if (scheduler.Has("type")) {
      root.Fail("lr_scheduler_type",
                "is another name of scheduler.type: give one of them",
                {"scheduler.type"});
    }
  }
  return FindLrSchedule(names[index]);
}

// Makes the keys of other rows known, and says that they mean nothing here.
void RefuseOtherRowsKeys(const ScheduleRow& row, bool known_row,
                         JsonReader& params) {
  for (const ScheduleRow& other : LrSchedules()) {
    for (const ScheduleKey& key : other.keys) {
      const bool ours =
          std::any_of(row.keys.begin(), row.keys.end(),
                      [&](const ScheduleKey& k) { return k.name == key.name; });
      if (ours || !params.Has(key.name) || !known_row ||
          params.Failed(key.name)) {
        continue;
      }
      params.Fail(key.name, absl::StrCat("has no meaning for scheduler.type \"",
                                         row.name, "\""));
    }
  }
}

void ReadParams(const ScheduleRow& row, bool known_row, JsonReader& params,
                Config* config) {
  Schedule schedule = Schedule::Read(row, params);
  const absl::Status fits =
      schedule.Resolve(config->optimizer.lr, config->steps);
  if (!fits.ok()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(std::string(fits.message()), absl::MaxSplits(": ", 1));
    params.Fail(parts.first, parts.second,
                {params.PathOf(schedule.KeyOf(ScheduleKey::Role::kWarmup))});
  }
  if (const absl::string_view key = schedule.unresolved();
      !key.empty() && config->steps == 0 && config->num_train_epochs == 0 &&
      known_row) {
    const auto total =
        std::find_if(row.keys.begin(), row.keys.end(), [](const auto& k) {
          return k.absent == ScheduleKey::Absent::kRunSteps;
        });
    if (total != row.keys.end()) {
      params.FailMissing(total->name, "is required where there is no \"steps\"",
                         {"steps"});
    } else {
      params.Fail(key,
                  absl::StrCat("is a share of \"steps\", which is not given: "
                               "give it, or ",
                               schedule.KeyOf(ScheduleKey::Role::kWarmup)),
                  {"steps"});
    }
  }
  RefuseOtherRowsKeys(row, known_row, params);
  params.RefuseUnknownKeys();
  config->scheduler = std::move(schedule);
}

}  // namespace

void ReadLength(JsonReader& root, Config* config) {
  root.Int("steps", &config->steps, {.min = 1, .max = kMaxSteps});
  root.Double("num_train_epochs", &config->num_train_epochs,
              {.min = 0, .max = 1e9, .min_open = true});
  if (root.Has("num_train_epochs") && config->data.streaming) {
    root.Fail("num_train_epochs",
              "cannot be had with \"streaming\": true, where nobody knows how "
              "much an epoch is: give steps",
              {"data.streaming", "steps"});
  } else if (root.Has("num_train_epochs") && root.Has("steps")) {
    root.Fail("num_train_epochs",
              "and steps both say how long the run is: give one of them",
              {"steps"});
  } else if (!root.Has("num_train_epochs") && !root.Has("steps")) {
    root.FailMissing("steps", "is required, unless num_train_epochs is given",
                     {"num_train_epochs"});
  }
}

void ReadSchedule(JsonReader& root, Config* config) {
  JsonReader scheduler = root.Object("scheduler");
  bool known = false;
  const ScheduleRow* const row = ReadType(root, scheduler, &known);
  JsonReader params = scheduler.Object("params");
  JsonReader kwargs = root.Object("lr_scheduler_kwargs");
  const bool both = root.Has("lr_scheduler_kwargs") && scheduler.Has("params");
  if (both) {
    root.Fail(
        "lr_scheduler_kwargs",
        absl::StrCat("is another name of ", kParams, ": give one of them"),
        {std::string(kParams)});
  }
  ReadParams(*row, known,
             root.Has("lr_scheduler_kwargs") && !both ? kwargs : params,
             config);
  scheduler.RefuseUnknownKeys();
}

void ReadEvaluation(JsonReader& root, Config* config) {
  root.Int("eval_interval", &config->eval_interval,
           {.min = 0, .max = kMaxSteps});
  int strategy = static_cast<int>(
      config->eval_interval > 0 ? EvalStrategy::kSteps : EvalStrategy::kNo);
  root.Choice("eval_strategy", config_names::kEvalStrategies, &strategy);
  config->eval_strategy = static_cast<EvalStrategy>(strategy);
  const bool in_steps = config->eval_strategy == EvalStrategy::kSteps;
  if (in_steps && config->eval_interval == 0) {
    root.Fail("eval_strategy",
              "\"steps\" needs eval_interval, the steps from one evaluation to "
              "the next",
              {"eval_interval"});
  }
  if (config->eval_strategy == EvalStrategy::kEpoch &&
      config->eval_interval > 0) {
    root.Fail("eval_interval",
              "has no meaning beside \"eval_strategy\": \"epoch\": leave one "
              "of them out",
              {"eval_strategy"});
  }
  if (config->eval_strategy == EvalStrategy::kEpoch && config->data.streaming) {
    root.Fail("eval_strategy",
              "\"epoch\" cannot be had with \"streaming\": true, where nobody "
              "knows when an epoch ends: give eval_interval, in steps",
              {"data.streaming", "eval_interval"});
  }
  if (!in_steps) config->eval_interval = 0;
  const absl::string_view asks =
      root.Has("eval_strategy") ? "eval_strategy" : "eval_interval";
  if (config->evaluates() && config->data.validation.empty() &&
      config->data.validation_fraction == 0) {
    root.Fail(asks, "needs data.validation or data.validation_fraction",
              {"data.validation", "data.validation_fraction"});
  }
  root.Int("early_stopping_patience", &config->early_stopping_patience,
           {.min = 1, .max = 1 << 20});
  root.Double("early_stopping_threshold", &config->early_stopping_threshold,
              {.min = 0});
  constexpr absl::string_view kNeedsEvaluation =
      "needs evaluations: add eval_interval, or \"eval_strategy\": \"epoch\"";
  if (root.Has("early_stopping_patience") && !config->evaluates()) {
    root.Fail("early_stopping_patience", kNeedsEvaluation,
              {"eval_strategy", "eval_interval"});
  }
  if (root.Has("early_stopping_threshold") &&
      config->early_stopping_patience == 0) {
    root.Fail("early_stopping_threshold",
              "has a meaning only beside early_stopping_patience: add that, or "
              "leave it out",
              {"early_stopping_patience"});
  }
  if (config->checkpoint.load_best && !config->evaluates()) {
    root.Fail("checkpoint.load_best", kNeedsEvaluation,
              {"eval_strategy", "eval_interval"});
  }
}

int64_t StepsPerEpoch(int64_t samples, int64_t batch) {
  return std::max<int64_t>(1, CeilDiv(samples, batch));
}

int64_t StepsOfEpochs(double epochs, int64_t steps_per_epoch) {
  const double steps = std::ceil(epochs * static_cast<double>(steps_per_epoch));
  return static_cast<int64_t>(
      std::clamp(steps, 1.0, static_cast<double>(kMaxSteps)));
}

absl::Status SetSteps(int64_t steps, Config* config) {
  config->steps = steps;
  config->num_train_epochs = 0;
  const absl::Status fits =
      config->scheduler.Resolve(config->optimizer.lr, steps);
  if (fits.ok()) return fits;
  return absl::InvalidArgumentError(absl::StrCat(kParams, ".", fits.message()));
}

}  // namespace castor
