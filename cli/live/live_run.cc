#include "cli/live/live_run.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/standard_error.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

absl::StatusOr<int> Port(const std::string& text) {
  int port = 0;
  if (!absl::SimpleAtoi(text, &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dashboard: \"", text,
                     "\" is no port: expected 0 (any free one) to 65535"));
  }
  return port;
}

}  // namespace

absl::Status CheckLiveOptions(const LiveOptions& options) {
  if (options.dashboard.empty()) return absl::OkStatus();
  return Port(options.dashboard).status();
}

absl::StatusOr<std::unique_ptr<LiveRun>> LiveRun::Create(
    const LiveOptions& options, const RunRecord& run, const Trainer* trainer) {
  std::unique_ptr<LiveRun> live(new LiveRun(run, trainer));
  if (!options.dashboard.empty()) {
    CASTOR_ASSIGN_OR_RETURN(const int port, Port(options.dashboard));
    auto dashboard = Dashboard::Start(port, run, trainer->step());
    CASTOR_RETURN_IF_ERROR(Annotate("--dashboard", dashboard.status()));
    live->dashboard_ = *std::move(dashboard);
    std::printf("dashboard: %s\n", live->dashboard_->url().c_str());
  }
  if (!options.tensorboard.empty()) {
    auto file = TensorBoardFile::Create(options.tensorboard, trainer->step());
    CASTOR_RETURN_IF_ERROR(Annotate("--tensorboard", file.status()));
    live->tensorboard_ = *std::move(file);
    std::printf("tensorboard: %s\n", live->tensorboard_->path().c_str());
  }
  return live;
}

LiveMemory LiveRun::Memory() const {
  const ArenaStats& device = trainer_->arena_stats();
  const HostMemoryStats host = trainer_->host_stats();
  return {.device = device.used,
          .host = host.used,
          .device_at_peak = device.used_at_peak,
          .host_at_peak = host.used_at_peak,
          .device_peak_bytes = device.peak_bytes,
          .host_peak_bytes = host.peak_bytes};
}

void LiveRun::AddStep(const StepReport& step) {
  const LiveMemory memory = Memory();
  if (dashboard_ != nullptr) dashboard_->AddStep(step, memory);
  if (tensorboard_ == nullptr) return;
  const int64_t tokens = step.tokens > 0 ? step.tokens : tokens_per_step_;
  const double tokens_per_second =
      step.seconds > 0 ? static_cast<double>(tokens) / step.seconds : 0;
  if (trainer_->state().loss_scale.has_value()) {
    Write(step.step, {{"train/loss_scale", step.loss_scale}});
  }
  Write(step.step,
        {{"train/loss", step.loss},
         {"train/learning_rate", step.learning_rate},
         {"train/tokens_per_second", tokens_per_second},
         {"train/step_seconds", step.seconds},
         {"train/stall_seconds", step.stall_seconds},
         {"memory/device_bytes", static_cast<double>(memory.device.Sum())},
         {"memory/device_peak_bytes",
          static_cast<double>(step.device_peak_bytes)},
         {"memory/host_bytes", static_cast<double>(memory.host.Sum())},
         {"bus/host_to_device_bytes", static_cast<double>(step.h2d_bytes)},
         {"bus/device_to_host_bytes", static_cast<double>(step.d2h_bytes)}});
}

void LiveRun::AddValidation(int64_t step, const LiveValidation& validation) {
  const auto& [loss, perplexity, accuracy] = validation;
  if (dashboard_ != nullptr) dashboard_->AddValidation(step, validation);
  if (tensorboard_ == nullptr) return;
  std::vector<Scalar> scalars = {{"validation/loss", loss},
                                 {"validation/perplexity", perplexity}};
  if (!std::isnan(accuracy)) {
    scalars.push_back({"validation/token_accuracy", accuracy});
  }
  Write(step, scalars);
}

void LiveRun::AddBudget(const BudgetRecord& change) {
  if (dashboard_ != nullptr) dashboard_->AddBudget(change);
}

void LiveRun::Write(int64_t step, absl::Span<const Scalar> scalars) {
  const double now = std::chrono::duration<double>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  const absl::Status status = tensorboard_->Append(now, step, scalars);
  if (status.ok()) return;
  TellNote("castor", absl::StrCat("--tensorboard: ", status.message(),
                                  "; the run goes on without"));
  tensorboard_.reset();
}

void LiveRun::End(const std::string& state, const std::string& message) {
  if (dashboard_ != nullptr) dashboard_->End(state, message);
}

}  // namespace castor::cli
