#include "client/interface/castor_client.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "client/client_checkpoints.h"
#include "client/client_run.h"
#include "client/interface/client_config.h"
#include "client/interface/client_status.h"
#include "client/launched_ranks.h"
#include "device/cuda/runtime_api.h"
#include "nlohmann/json.hpp"
#include "run/config/config.h"
#include "run/config/time_limits.h"
#include "run/gpu_ranks.h"
#include "run/report/run_trace.h"

struct castor_run {
  bool closed = false;  // under `closing`
  std::unique_ptr<castor::RankGroup> ranks;
  std::unique_ptr<castor::ClientRun> run;
  std::string summary;
  castor::Config config;
  std::unique_ptr<castor::ClientCheckpoints> checkpoints;
  std::unique_ptr<castor::RunTrace> trace;
  int64_t last_traced_step = 0;
  // The strings that the last castor_checkpoint points at.
  std::string path, text, notes, differences;
  std::vector<std::string> exchanged;
};

namespace {

using castor::ClientRun;
using castor::ParamId;
using castor::Tell;

// Held by whoever closes a run, or frees a block of one.
std::mutex closing;

castor_status Tell(castor_run* run, const absl::Status& status) {
  if (status.ok()) return CASTOR_OK;
  const ClientRun::Refused refused = run->run->refused();
  return Tell(status, &refused);
}

// castor_begin and castor_step have a status of their own for values that are
// not finite.
castor_status TellOfStep(castor_run* run, const absl::Status& status) {
  const castor_status told = Tell(run, status);
  return absl::IsOutOfRange(status) ? CASTOR_NOT_FINITE : told;
}

absl::Status CheckParameter(const castor_run* run, int64_t parameter) {
  const auto count = static_cast<int64_t>(run->run->layout().parameters.size());
  if (parameter >= 0 && parameter < count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter ", parameter, ": there are ", count, ", counted from 0"));
}

// If one rank is refused before it has joined the others, all are refused.
absl::StatusOr<std::unique_ptr<ClientRun>> OpenOnRanks(
    const char* config_json, const castor_parameter* parameters, int64_t count,
    const castor_place* place, bool port_is_stores, castor_run* opening,
    ClientRun::Refused* refused) {
  auto launch =
      castor::LaunchOfClient(castor::CurrentEnvironment(), port_is_stores);
  if (!launch.ok()) return launch.status();
  bool agreed = false;
  const auto join = [&](castor::Device* device)
      -> absl::StatusOr<std::unique_ptr<castor::Communicator>> {
    agreed = true;
    castor::RankGroup& ranks = *opening->ranks;
    CASTOR_RETURN_IF_ERROR(ranks.Agree("start", absl::OkStatus()));
    std::unique_ptr<castor::DeviceParts> gpu_parts;
    if (place != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(gpu_parts, castor::JoinGpus(ranks, place->gpu));
    }
    return ranks.MakeCommunicator(device, std::move(gpu_parts));
  };
  auto asked = castor::ReadAsked(
      config_json, parameters, count, place,
      {.rank = launch->rank, .world_size = launch->world_size, .join = join},
      launch->local_size);
  const castor::CommunicatorOptions limits =
      asked.ok() ? castor::TimeLimitsOf(asked->config.network)
                 : castor::CommunicatorOptions();
  auto group = castor::JoinLaunchedRanks(*launch, limits);
  if (!group.ok()) return group.status();
  opening->ranks = *std::move(group);
  castor::RankGroup& ranks = *opening->ranks;
  if (asked.ok()) {
    asked->options.join_meetings = [&launch, limits] {
      return castor::JoinLaunchedRanks(*launch, limits);
    };
  }
  absl::Status valid = asked.status();
  if (valid.ok()) valid = castor::CheckPlace(asked->config, place);
  if (ranks.world_size() > 1) {
    CASTOR_RETURN_IF_ERROR(ranks.Agree("configuration", valid));
    int64_t& device_bytes = asked->options.memory.device_bytes;
    if (place != nullptr &&
        asked->config.memory.device_memory >= castor::kUnlimitedBytes) {
      CASTOR_ASSIGN_OR_RETURN(device_bytes,
                              castor::FirstBudgetOfGpus(ranks, place->gpu,
                                                        /*follows=*/false));
    }
  }
  auto opened = valid.ok()
                    ? ClientRun::Create(asked->parameters,
                                        std::move(asked->options), refused)
                    : valid;
  if (asked.ok()) opening->config = std::move(asked->config);
  if (opened.ok() || agreed) return opened;
  return ranks.Agree("start", opened.status());
}

castor::Phase PhaseOf(castor_phase phase) {
  return phase == CASTOR_FORWARD ? castor::Phase::kForward
                                 : castor::Phase::kBackward;
}

}  // namespace

castor_status castor_open(const char* config_json,
                          const castor_parameter* parameters, int64_t count,
                          const castor_place* place, int port_is_stores,
                          castor_run** run) {
  *run = nullptr;
  ClientRun::Refused refused;
  auto opening = std::make_unique<castor_run>();
  auto opened = OpenOnRanks(config_json, parameters, count, place,
                            port_is_stores != 0, opening.get(), &refused);
  if (!opened.ok()) return Tell(opened.status(), &refused);
  opening->run = *std::move(opened);
  opening->checkpoints = std::make_unique<castor::ClientCheckpoints>(
      opening->run.get(), opening->config);
  *run = opening.release();
  return CASTOR_OK;
}

void castor_close(castor_run* run) {
  if (run == nullptr) return;
  castor_end_trace(run);
  {
    const std::lock_guard lock(closing);
    run->closed = true;
    if (run->run->HasBlocks()) {
      run->run->Drain().IgnoreError();
      return;
    }
  }
  delete run;
}

const char* castor_dtype(const castor_run* run) {
  return castor::DTypeName(run->run->dtype()).data();
}

int64_t castor_micro_batches(const castor_run* run) {
  return run->run->micro_batches();
}

int castor_rank(const castor_run* run) { return run->ranks->rank(); }

int castor_world_size(const castor_run* run) {
  return run->ranks->world_size();
}

castor_status castor_set_values(castor_run* run, int64_t parameter,
                                const float* values, int root) {
  const absl::Status valid = CheckParameter(run, parameter);
  return Tell(run, !valid.ok()
                       ? valid
                       : run->run->SetValues(ParamId(parameter), values, root));
}

castor_status castor_get_values(castor_run* run, int64_t parameter,
                                float* out) {
  const absl::Status valid = CheckParameter(run, parameter);
  return Tell(
      run, !valid.ok() ? valid : run->run->GetValues(ParamId(parameter), out));
}

castor_status castor_exchange(castor_run* run, const char* what,
                              const char* text, const char** texts) {
  auto all = run->run->Exchange(what, text);
  if (!all.ok()) return Tell(all.status());
  run->exchanged = *std::move(all);
  for (const std::string& each : run->exchanged) *texts++ = each.c_str();
  return CASTOR_OK;
}

int64_t castor_label(castor_run* run, const char* name) {
  return run->run->Label(name).value;
}

castor_status castor_begin(castor_run* run, int training) {
  return TellOfStep(run, run->run->Begin(training != 0));
}

castor_status castor_announce(castor_run* run, int64_t label,
                              castor_phase phase, const int64_t* extents,
                              int64_t count) {
  return Tell(run, run->run->Announce(castor::LabelId(label), PhaseOf(phase),
                                      absl::MakeConstSpan(extents, count)));
}

castor_status castor_use(castor_run* run, int64_t label, castor_phase phase,
                         const int64_t* parameters, int64_t count,
                         void** addresses) {
  std::vector<ParamId> ids;
  ids.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    const absl::Status valid = CheckParameter(run, parameters[i]);
    if (!valid.ok()) return Tell(run, valid);
    ids.push_back(ParamId(parameters[i]));
  }
  return Tell(run, run->run->Use(castor::LabelId(label), PhaseOf(phase), ids,
                                 addresses));
}

castor_status castor_gradient(castor_run* run, int64_t parameter,
                              const void* gradient, int last, int* taken) {
  *taken = 0;
  const absl::Status valid = CheckParameter(run, parameter);
  if (!valid.ok()) return Tell(run, valid);
  const auto copied =
      run->run->HandInGradient(ParamId(parameter), gradient, last != 0);
  if (!copied.ok()) return Tell(run, copied.status());
  *taken = *copied ? 1 : 0;
  return CASTOR_OK;
}

castor_status castor_end_backward(castor_run* run) {
  return Tell(run, run->run->EndBackward());
}

castor_status castor_step(castor_run* run, double learning_rate) {
  const absl::Status stepped = run->run->Step(
      learning_rate < 0 ? std::optional<double>() : learning_rate);
  const bool over = stepped.ok() || absl::IsOutOfRange(stepped);
  if (over && run->trace != nullptr) {
    // Work of the last step that is not over yet belongs to it.
    if (run->run->steps() == run->last_traced_step) {
      const absl::Status drained = run->run->Drain();
      if (!drained.ok()) return Tell(run, drained);
    }
    run->trace->OnResult(run->run->report());
  }
  return TellOfStep(run, stepped);
}

void castor_expect_rate(castor_run* run, double learning_rate) {
  run->run->ExpectLearningRate(learning_rate);
}

castor_status castor_end_evaluation(castor_run* run) {
  return Tell(run, run->run->EndEvaluation());
}

castor_status castor_abort(castor_run* run) {
  return Tell(run, run->run->Abort());
}

castor_status castor_save_checkpoint(castor_run* run, const char* directory,
                                     const char* text, int64_t keep,
                                     int64_t keep_aside, int lock,
                                     castor_checkpoint* saved) {
  *saved = {};
  auto made = run->checkpoints->Save(
      directory, text,
      {.keep = keep, .lock = lock != 0, .keep_aside = keep_aside});
  if (!made.ok()) return Tell(made.status());
  run->path = std::move(made->path);
  run->notes = absl::StrJoin(made->notes, "\n");
  *saved = {.path = run->path.c_str(),
            .step = run->run->steps(),
            .text = text,
            .notes = run->notes.c_str(),
            .differences = ""};
  return CASTOR_OK;
}

castor_status castor_find_checkpoint(castor_run* run, const char* path,
                                     int changed, castor_checkpoint* found) {
  *found = {};
  auto read = run->checkpoints->Find(path, changed != 0);
  if (!read.ok()) return Tell(read.status());
  const bool has_text = read->text.has_value();
  run->path = std::move(read->path);
  run->text = has_text ? *std::move(read->text) : "";
  run->notes = absl::StrJoin(read->notes, "\n");
  run->differences = absl::StrJoin(read->differences, "\n");
  *found = {.path = run->path.c_str(),
            .step = read->step,
            .text = has_text ? run->text.c_str() : nullptr,
            .notes = run->notes.c_str(),
            .differences = run->differences.c_str()};
  return CASTOR_OK;
}

castor_status castor_load_checkpoint(castor_run* run) {
  return Tell(run->checkpoints->Load());
}

castor_status castor_trace(castor_run* run, const char* path, const char* title,
                           const char* steps) {
  ClientRun& client = *run->run;
  if (run->config.device.type == castor::DeviceType::kCuda) {
    return Tell(absl::FailedPreconditionError(
        "a client's run on a GPU cannot be traced yet"));
  }
  const bool traced = run->trace != nullptr;
  const absl::Status met = client.MeetBetweenSteps(
      castor::RankCall::kBeginTrace,
      absl::StrCat(path, " of steps ", steps, traced ? ", a second one" : ""));
  if (!met.ok()) return Tell(met);
  if (traced) {
    return Tell(absl::FailedPreconditionError("the run is traced already"));
  }
  const auto window = castor::WindowOf(steps, client.steps() + 1,
                                       run->config.memory.warmup_steps);
  if (!window.ok()) return Tell(window.status());
  const absl::Status drained = client.Drain();
  if (!drained.ok()) return Tell(drained);
  castor::RunRecord record;
  record.title = absl::StrCat(title, ", ", castor_dtype(run));
  record.device = "host";
  record.policy = castor::PolicyOf(run->config);
  record.device_budget_bytes = run->config.memory.device_memory;
  record.host_budget_bytes = run->config.memory.host_memory;
  record.steps = run->config.steps;
  record.threads = castor::ThreadsOf(run->config.device);
  auto trace =
      castor::RunTrace::Create(path, std::move(record), *window, &client);
  if (!trace.ok()) return Tell(trace.status());
  run->trace = *std::move(trace);
  run->last_traced_step = window->last;
  return CASTOR_OK;
}

castor_status castor_end_trace(castor_run* run) {
  const std::unique_ptr<castor::RunTrace> trace = std::move(run->trace);
  if (trace == nullptr) return CASTOR_OK;
  absl::Status over =
      run->run->MeetBetweenSteps(castor::RankCall::kEndTrace, "");
  const absl::Status drained = run->run->Drain();
  trace->Finish(drained.ok() ? "finished" : "failed",
                std::string(drained.message()));
  if (over.ok()) over = trace->Merge();
  if (!trace->status().ok()) return Tell(trace->status());
  if (over.ok()) return CASTOR_OK;
  return Tell(absl::UnavailableError(absl::StrCat(
      "the ranks' traces stay in files of their own: ", over.message())));
}

castor_status castor_claim(castor_run* run, int64_t bytes) {
  return Tell(run, run->run->Claim(bytes));
}

void castor_release(castor_run* run, int64_t bytes) {
  run->run->Release(bytes);
}

castor_status castor_allocate(castor_run* run, int64_t bytes, void* stream,
                              void** address) {
  *address = nullptr;
  const auto block = run->run->Allocate(bytes, stream);
  if (block.ok()) *address = *block;
  return Tell(run, block.status());
}

void castor_free(castor_run* run, void* address) {
  {
    const std::lock_guard lock(closing);
    run->run->Free(address);
    if (!run->closed || run->run->HasBlocks()) return;
  }
  delete run;
}

void castor_use_on(castor_run* run, void* address, void* stream) {
  run->run->UseOn(address, stream);
}

castor_status castor_local_rank(int* local_rank) {
  const auto launch = castor::LaunchOfClient(castor::CurrentEnvironment());
  *local_rank = launch.ok() ? launch->local_rank : -1;
  return Tell(launch.status());
}

castor_status castor_gpu_allocate(int gpu, int64_t bytes, void** address) {
  *address = nullptr;
  const auto api = castor::cuda::RuntimeApi();
  if (!api.ok()) return Tell(api.status());
  const absl::Status chosen = (*api)->UseDevice(gpu);
  if (!chosen.ok()) return Tell(chosen);
  const auto block = (*api)->Allocate(bytes);
  if (block.ok()) *address = *block;
  return Tell(block.status());
}

void castor_gpu_free(int gpu, void* address) {
  const auto api = castor::cuda::RuntimeApi();
  if (api.ok() && (*api)->UseDevice(gpu).ok()) (*api)->Free(address);
}

castor_status castor_set_device_memory(castor_run* run, const char* size) {
  const auto bytes = castor::ParseBytes(size);
  if (!bytes.ok()) return Tell(bytes.status());
  const absl::Status set = run->run->SetDeviceMemory(*bytes);
  // A trace that begins later tells this budget.
  if (set.ok()) run->config.memory.device_memory = *bytes;
  return Tell(run, set);
}

int64_t castor_steps(const castor_run* run) { return run->run->steps(); }

int64_t castor_skipped_steps(const castor_run* run) {
  return run->run->skipped_steps();
}

double castor_loss_scale(const castor_run* run) {
  return run->run->loss_scale();
}

double castor_learning_rate(const castor_run* run) {
  return run->run->learning_rate();
}

castor_status castor_gradient_norm(castor_run* run, double* norm) {
  const auto known = run->run->GradientNorm();
  *norm = known.ok() ? *known : 0;
  return Tell(run, known.status());
}

double castor_scheduled_rate(const castor_run* run, int64_t step) {
  return castor::LearningRate(run->config.scheduler, run->config.optimizer.lr,
                              step);
}

int64_t castor_seed(const castor_run* run) { return run->config.seed; }

uint64_t castor_generator_seed(int64_t seed, int64_t step, int64_t micro_batch,
                               int64_t call) {
  uint64_t mixed = static_cast<uint64_t>(seed);
  for (const int64_t word : {step, micro_batch, call}) {
    mixed = castor::MixKey(mixed, static_cast<uint64_t>(word));
  }
  return mixed;
}

const char* castor_summary(castor_run* run) {
  const ClientRun::Stats stats = run->run->stats();
  const castor::ChunkLayout& layout = run->run->layout();
  const int64_t steps =
      std::max<int64_t>(1, stats.recorded_steps + stats.followed_steps);
  nlohmann::ordered_json summary;
  summary["policy"] = PolicyOf(run->config);
  summary["precision"] = castor_dtype(run);
  summary["device_budget_bytes"] = stats.device_budget_bytes;
  summary["smallest_device_budget_bytes"] = stats.smallest_device_budget_bytes;
  summary["world_size"] = castor_world_size(run);
  summary["rank"] = castor_rank(run);
  summary["steps"] = run->run->steps();
  summary["skipped_steps"] = run->run->skipped_steps();
  if (run->run->dtype() == castor::DType::kFloat16) {
    summary["loss_scale"] = run->run->loss_scale();
  }
  summary["recorded_steps"] = stats.recorded_steps;
  summary["plans"] = stats.plans;
  summary["predicted_step_seconds"] =
      static_cast<double>(stats.predicted_step_ns) * 1e-9;
  const castor::SpeculationCounts ahead = run->run->speculation();
  summary["speculative_updates"] = ahead.committed + ahead.repeated;
  summary["speculative_updates_repeated"] = ahead.repeated;
  summary["parameters"] = layout.parameter_elements;
  summary["chunks"] = layout.num_chunks();
  summary["device_peak_bytes"] = stats.device_peak_bytes;
  summary["claimed_bytes"] = stats.claimed_bytes;
  summary["host_peak_bytes"] = stats.host_peak_bytes;
  summary["h2d_bytes_per_step"] = stats.h2d_bytes / steps;
  summary["d2h_bytes_per_step"] = stats.d2h_bytes / steps;
  run->summary = summary.dump();
  return run->summary.c_str();
}
