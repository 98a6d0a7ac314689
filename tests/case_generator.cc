#include "tests/case_generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/name_pattern.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "models/families.h"
#include "nlohmann/json.hpp"
#include "run/optim/adafactor/adafactor.h"
#include "run/optim/adam/adam.h"
#include "run/optim/lamb/lamb.h"
#include "run/optim/lion/lion.h"
#include "run/optim/sgd/sgd.h"
#include "tests/random_architecture.h"

namespace castor::testing {
namespace {

std::vector<std::string> RandomFrozenOfGpt2(const models::Gpt2Config& model,
                                            Random& random) {
  if (random.Chance(0.5)) return {};
  switch (random.Uniform(0, 6)) {
    case 0:
      return {"*wte.*"};
    case 1:
      return {"*ln_*"};
    case 2:
      return {"*.bias", "*wpe*"};
    case 3:
      return {absl::StrCat("*.h.", random.Uniform(0, model.n_layer - 1), ".*")};
    case 4:
      return {"*attn*"};
    case 5:  // everything but the head
      return model.tie_word_embeddings
                 ? std::vector<std::string>{"*.h.*", "*wpe*", "*ln_*"}
                 : std::vector<std::string>{"transformer.*"};
    default:  // everything but the first layer norm: the longest way back
      return {"*wte*",  "*wpe*",  "*attn.*", "*mlp*",
              "*ln_2*", "*ln_f*", "lm_head*"};
  }
}

// Sizes, dropouts, and what is frozen.
void MakeGpt2(Random& random, TrainingCase* c) {
  models::Gpt2Config& model = c->model;
  model.n_layer = random.Uniform(1, 3);
  model.n_head = random.Uniform(1, 4);
  model.n_embd = model.n_head * random.Pick<int64_t>({1, 2, 3, 5, 8, 12});
  model.n_inner =
      random.Chance(0.5) ? 0 : random.Uniform(1, 3 * model.n_embd + 1);
  model.n_positions = random.Uniform(2, 13);
  model.vocab_size = random.Uniform(2, 70);
  if (random.Chance(0.1)) model.vocab_size += 500;  // an outsize embedding
  model.activation_function = random.Pick({"gelu_new", "gelu_new", "gelu"});
  model.tie_word_embeddings = random.Chance(0.6);
  model.resid_pdrop = random.Pick({0.0, 0.0, 0.2});
  model.embd_pdrop = random.Pick({0.0, 0.0, 0.3});
  model.attn_pdrop = random.Pick({0.0, 0.0, 0.1});
  // Large enough for gradients to differ from layer to layer.
  model.initializer_range = 0.2;
  c->frozen = RandomFrozenOfGpt2(model, random);
}

// Admission alone, under other budgets.
absl::StatusOr<Refusal> RefusalOf(TrainingCase c, int64_t device_bytes,
                                  int64_t host_bytes) {
  c.options.memory.device_bytes = device_bytes;
  c.options.memory.host_bytes = host_bytes;
  c.steps = 0;
  // All ranks come to the same, each before it meets the others.
  const RankOptions one = {
      .rank = c.world_size - 1,
      .world_size = c.world_size,
      .join = [](Device*) { return absl::InternalError("admitted"); }};
  std::vector<StatePiece> none;
  CASTOR_ASSIGN_OR_RETURN(const TrainingResult result,
                          RunRank(c, one, nullptr, &none));
  if (!result.refusal.has_value()) {
    return absl::InternalError(absl::StrCat("admitted with ", device_bytes,
                                            " bytes of device and ", host_bytes,
                                            " bytes of host memory"));
  }
  return *result.refusal;
}

int64_t DeviceBudget(const Needs& needs, Random& random) {
  const int64_t least = needs.smallest_device;
  const int64_t most = needs.unmanaged_device;
  if (least >= kUnlimitedBytes) {
    return random.Pick({most / 2, most, 2 * most});
  }
  switch (random.Uniform(0, 11)) {
    case 0:
      return 0;
    case 1:
      return random.Uniform(0, least - 1);
    case 2:
      return least - 1;
    case 3:
    case 4:
    case 5:
      return least;
    case 6:
    case 7:  // a few blocks more, not always whole ones
      return least + random.Uniform(1, 12) * 256 - random.Uniform(0, 255);
    case 8:
    case 9:
    case 10:
      return least + static_cast<int64_t>(random.Real() * random.Real() *
                                          std::max<int64_t>(0, most - least));
    default:
      return random.Pick({most, most + 100000, kUnlimitedBytes});
  }
}

int64_t HostBudget(const Needs& needs, Random& random) {
  const int64_t least = needs.smallest_host, most = needs.largest_host;
  switch (random.Uniform(0, 9)) {
    case 0:
      return random.Pick({least - 1, most - 1});
    case 1:
      return random.Pick({least, most});
    case 2:
      return random.Uniform(least, std::max(least, most));
    default:
      return kUnlimitedBytes;
  }
}

// Changes a key of a model that has it.
void SetKey(TrainingCase& c, const char* key, const Json& value) {
  if (c.architecture == nullptr) return;
  c.architecture = WithKey(c.architecture, key, value);
}

std::string DescribeModel(const TrainingCase& c) {
  if (c.architecture != nullptr) {
    return absl::StrFormat(
        "model: %s %s, frozen [%s]\n", c.architecture->family(),
        c.architecture->ToJson().dump(), absl::StrJoin(c.frozen, " "));
  }
  const models::Gpt2Config& m = c.model;
  return absl::StrFormat(
      "model: layers %d, heads %d, width %d, inner %d, positions %d, "
      "vocabulary %d, %s, %s, dropout %g %g %g, frozen [%s]\n",
      m.n_layer, m.n_head, m.n_embd, m.inner(), m.n_positions, m.vocab_size,
      m.activation_function, m.tie_word_embeddings ? "tied" : "untied",
      m.resid_pdrop, m.embd_pdrop, m.attn_pdrop, absl::StrJoin(c.frozen, " "));
}

// Lion or SGD, with all that they have.
std::shared_ptr<const Optimizer> RandomLionOrSgd(MasterFormat master,
                                                 Random& random) {
  const MomentFormat moments = random.Pick(
      {MomentFormat::kFloat32, MomentFormat::kBFloat16, MomentFormat::kInt8});
  if (random.Chance(0.5)) {
    return std::make_shared<Lion>(
        LionOptions{.betas = {0.9, random.Pick({0.99, 0.5})},
                    .formats = {master, moments}});
  }
  SgdOptions sgd = {.momentum = random.Pick({0.0, 0.9, 0.9}),
                    .formats = {.master = master}};
  if (sgd.momentum > 0) {
    sgd.formats.moments = moments;
    sgd.nesterov = random.Chance(0.5);
    if (!sgd.nesterov) sgd.dampening = random.Pick({0.0, 0.5});
  }
  return std::make_shared<Sgd>(sgd);
}

std::string Size(int64_t bytes) {
  return bytes >= kUnlimitedBytes ? "unlimited" : absl::StrCat(bytes);
}

}  // namespace

TrainingCase RandomModel(uint64_t seed, const models::Family* family) {
  Random random(seed, HashName("model", 5));
  TrainingCase c;
  if (family == nullptr) {
    // The first, GPT-2, thrice as often as another.
    const auto families = models::Families();
    const int64_t rows = static_cast<int64_t>(families.size());
    const int64_t row = random.Uniform(0, rows + 1);
    family = families[row < rows ? row : 0];
  }
  int64_t longest = 0;
  if (family == models::Families()[0]) {
    MakeGpt2(random, &c);
    longest = c.model.n_positions;
  } else {
    c.architecture = RandomArchitecture(*family, random);
    c.frozen = RandomFrozen(*c.architecture, random);
    // Some models' positions have no end.
    longest = std::min<int64_t>(13, c.architecture->positions());
  }

  c.dtype = random.Pick({DType::kFloat32, DType::kFloat32, DType::kBFloat16,
                         DType::kBFloat16, DType::kFloat16});
  c.seed = MixKey(seed, 1);
  // Now and then enough for plans to be made again.
  c.steps = random.Chance(0.15) ? 7 : random.Uniform(2, 4);
  TrainerOptions& options = c.options;
  options.shape = {.batch = random.Uniform(1, 3),
                   .length = random.Uniform(1, longest),
                   .micro_batches = random.Pick<int64_t>({1, 1, 2, 3, 4, 8}),
                   .terms = TermsOf(c)};
  if (random.Chance(0.5)) {
    c.evaluate_after = random.Uniform(1, c.steps);
    options.eval_batch = random.Uniform(1, 4);
  }
  if (random.Chance(0.3)) {
    c.other_batch = random.Uniform(1, options.shape.batch);
    c.other_length = random.Uniform(1, options.shape.length);
    c.steps += 2;  // so that the other shape gets past its warm-up too
  }
  AdamOptions adam;
  adam.adam_w_mode = random.Chance(0.7);
  adam.betas[1] = random.Pick({0.999, 0.95});
  options.optimizer.gradient_clipping = random.Pick({0.0, 0.05, 1.0, 100.0});
  const double decay = random.Pick({0.0, 0.1});
  const bool all_decay = random.Chance(0.5);
  options.weight_decay = [=](const Parameter& parameter) {
    const bool exempt = MatchesPattern("*.bias", parameter.name) ||
                        MatchesPattern("*ln_*", parameter.name) ||
                        MatchesPattern("*norm*", parameter.name);
    return exempt && !all_decay ? 0.0 : decay;
  };
  // From scales at which nothing overflows to those at which each step does.
  options.loss_scale = {.dynamic = random.Chance(0.8),
                        .initial = random.Pick({0x1p4, 0x1p12, 0x1p16, 0x1p20}),
                        .window = random.Pick<int64_t>({1, 2, 1000}),
                        .hysteresis = random.Uniform(1, 2),
                        .minimum = 0x1p-20};
  const double lr = random.Pick({1e-3, 1e-2});
  options.learning_rate = [=](int64_t step) {
    return lr / std::sqrt(static_cast<double>(step));
  };
  options.scribble_freed_memory = true;
  if (c.evaluate_after > 0) c.evaluate_batches = random.Uniform(1, 3);
  adam.bias_correction = random.Chance(0.75);
  Random masters(seed, HashName("masters", 7));
  MasterFormat master = MasterFormat::kFloat32;
  if (c.dtype == DType::kBFloat16) {
    master = masters.Pick({MasterFormat::kFloat32, MasterFormat::kSplit,
                           MasterFormat::kBFloat16});
  }
  adam.formats = {master,
                  random.Pick({MomentFormat::kFloat32, MomentFormat::kFloat32,
                               MomentFormat::kBFloat16, MomentFormat::kInt8})};
  options.optimizer.rule = std::make_shared<Adam>(adam);
  if (random.Chance(0.3)) {
    options.optimizer.rule = std::make_shared<Lamb>(
        LambOptions{.betas = adam.betas,
                    .bias_correction = adam.bias_correction,
                    .max_coeff = random.Pick({10.0, 0.3})});
  }
  // Draws of their own leave the others as they are.
  Random other(seed, HashName("optimizer", 9));
  if (other.Chance(0.3))
    options.optimizer.rule = RandomLionOrSgd(master, other);
  Random factored(seed, HashName("adafactor", 9));
  if (factored.Chance(0.2)) {
    AdafactorOptions adafactor = {.clip_threshold = factored.Pick({1.0, 0.1}),
                                  .scale_parameter = factored.Chance(0.5),
                                  .relative_step = factored.Chance(0.3)};
    if (factored.Chance(0.5)) adafactor.beta1 = 0.9;
    options.optimizer.rule = std::make_shared<Adafactor>(adafactor);
  }
  c.masked = random.Chance(0.5);
  options.shape.documents = random.Chance(0.35);
  const double factor = random.Pick({1.0, 1.0, 0.3, 5.0});
  options.lr_factor = [=](const Parameter& parameter) {
    return MatchesPattern("*weight", parameter.name) ? 1.0 : factor;
  };
  return ReferenceOf(c);
}

void SetType(DType dtype, TrainingCase* c) {
  c->dtype = dtype;
  const MasterFormat master = c->options.optimizer.rule->formats().master;
  if (dtype != DType::kBFloat16 && master != MasterFormat::kFloat32) {
    c->options.optimizer.rule = std::make_shared<Adam>();
  }
}

TrainingCase RandomGeneration(uint64_t seed) {
  Random random(seed, HashName("generation", 10));
  TrainingCase c = RandomModel(seed);
  if (ModelConfigOf(c).architecture->task() != ModelTask::kNextToken) {
    c = RandomModel(seed, models::Families()[0]);
  }
  const int64_t positions = ModelConfigOf(c).architecture->positions();
  StepShape& shape = c.options.shape;
  c.steps =
      random.Uniform(1, std::min<int64_t>(4, positions - shape.length + 1));
  shape = {.batch = 1,
           .length = shape.length,
           .training = false,
           .cache = shape.length + c.steps - 1};
  c.options.eval_batch = c.evaluate_after = 0;
  c.other_batch = c.other_length = 0;
  c.masked = false;
  return c;
}

TrainingCase ReferenceOf(const TrainingCase& c) {
  TrainingCase reference = c;
  reference.watched = false;
  reference.world_size = 1;
  reference.options.memory = {.policy = FindPolicy("cuda"), .prefetch = false};
  // The reference makes no activations again in backward.
  reference.options.activation_checkpointing = ActivationCheckpointing::kNone;
  reference.options.planning.mistake = nullptr;
  reference.options.threads = 1;
  reference.options.bus_bytes_per_s = 0;
  return reference;
}

absl::StatusOr<Needs> FindNeeds(const TrainingCase& c) {
  const int64_t host = c.options.memory.host_bytes;
  Needs needs;
  CASTOR_ASSIGN_OR_RETURN(Refusal refusal, RefusalOf(c, 0, host));
  needs.smallest_device = refusal.smallest_device_budget_bytes;
  CASTOR_ASSIGN_OR_RETURN(refusal, RefusalOf(c, kUnlimitedBytes, 0));
  needs.smallest_host = refusal.smallest_host_budget_bytes;
  TrainingCase other = c;
  other.options.memory.policy = FindPolicy("cpu");
  CASTOR_ASSIGN_OR_RETURN(refusal, RefusalOf(other, kUnlimitedBytes, 0));
  needs.largest_host = refusal.smallest_host_budget_bytes;
  other.options.memory.policy = FindPolicy("cuda");
  CASTOR_ASSIGN_OR_RETURN(refusal, RefusalOf(other, 0, kUnlimitedBytes));
  needs.unmanaged_device = refusal.smallest_device_budget_bytes;
  return needs;
}

const PlacementPolicy* RandomPolicy(Random& random) {
  const int64_t rows = static_cast<int64_t>(Policies().size());
  const int64_t row = random.Uniform(0, rows + 1);
  return row < rows ? &Policies()[row] : DefaultPolicy();
}

absl::StatusOr<TrainingCase> RandomPlacement(const TrainingCase& model,
                                             Random& random, int most_ranks,
                                             const PlacementPolicy* policy) {
  TrainingCase c = model;
  MemoryOptions& memory = c.options.memory;
  memory.policy = policy != nullptr ? policy : RandomPolicy(random);
  c.options.activation_checkpointing = random.Pick(
      {ActivationCheckpointing::kNone, ActivationCheckpointing::kBlock,
       ActivationCheckpointing::kAuto, ActivationCheckpointing::kAuto});
  if (most_ranks > 1 && random.Chance(0.5)) {
    do {
      c.world_size = static_cast<int>(random.Uniform(1, most_ranks));
    } while (c.options.shape.micro_batches % c.world_size != 0);
  }
  const int64_t element = SizeOf(c.dtype);
  switch (random.Uniform(0, 3)) {
    case 0:
      memory.chunk_bytes = 0;
      break;
    case 1:  // tiles: nearly a chunk for each parameter
      memory.chunk_bytes = 64 * element * random.Uniform(1, 8);
      break;
    case 2:
      memory.chunk_bytes = random.Uniform(64 * element, 20000);
      break;
    default:
      memory.chunk_bytes = random.Pick<int64_t>({1 << 16, 1 << 24});
  }
  memory.prefetch = random.Chance(0.6);
  memory.gpu_margin_mem_ratio = random.Pick({0.0, 0.3, 0.7, 1.0, 1.0});
  memory.warmup_steps = random.Uniform(1, 3);
  memory.pinned_bytes = random.Pick<int64_t>({0, 4096, kUnlimitedBytes});
  c.options.threads = static_cast<int>(random.Uniform(1, 2));
  c.options.bus_bytes_per_s = random.Chance(0.2) ? random.Pick({5e7, 1e9}) : 0;
  c.watched = random.Chance(0.7);
  if (random.Chance(0.3)) c.evaluate_after = 0;
  if (c.evaluate_after == 0) c.options.eval_batch = 0;
  CASTOR_ASSIGN_OR_RETURN(Needs needs, FindNeeds(c));
  memory.host_bytes = HostBudget(needs, random);
  if (memory.host_bytes < kUnlimitedBytes) {
    CASTOR_ASSIGN_OR_RETURN(needs, FindNeeds(c));
  }
  memory.device_bytes = DeviceBudget(needs, random);
  if (random.Chance(0.15)) c.options.planning.mistake = FetchTwice;
  if (random.Chance(0.5)) PlanAgainAndAgain(random, &c);
  // Mostly as much as fits, whatever earlier steps and the simulator say.
  c.options.planning.speculation = {
      .on = random.Chance(0.8),
      .first_wait = random.Pick<int64_t>({0, 0, 0, 1, 2}),
      .longest_wait = random.Pick<int64_t>({0, 1024}),
      .least_gain = random.Pick({-1.0, -1.0, -1.0, 0.0})};
  // Simulated steps of tiny models would let few activations leave.
  if (random.Chance(0.6)) {
    for (int block = 0; block < 3; ++block) {
      c.options.planning.offloaded_blocks.push_back(random.Chance(0.7));
    }
  }
  return c;
}

void PlanAgainAndAgain(Random& random, TrainingCase* c) {
  c->options.planning.watch = {
      .settling_steps = 1, .most_settling_steps = 1, .drift_steps = 1};
  c->options.planning.step_seconds = [](int64_t, double foreseen_seconds) {
    return 2 * foreseen_seconds;
  };
  const uint64_t seed = random.Uniform(0, 1 << 30);
  // Some runs are too short to take what is planned beside their steps.
  c->options.planning.beside = seed % 2 == 0;
  c->options.planning.settled_durations =
      [durations = Random(seed)](StepTrace* trace, BusModel* bus) mutable {
        const auto speed = [&] { return 1e6 * durations.Uniform(1, 10000); };
        for (OpRecord& op : trace->ops) {
          op.duration_ns = durations.Uniform(1, 100'000);
          if (op.kind == OpKind::kCompute) continue;
          op.host_duration_ns = durations.Uniform(1, 100'000);
        }
        bus->h2d_bytes_per_s = speed();
        bus->d2h_bytes_per_s = speed();
        bus->network_bytes_per_s = speed();
      };
}

void FetchTwice(Plan* plan) {
  const Action fetch = {ActionKind::kFetch, ChunkId(0), Moment()};
  plan->actions[0].insert(plan->actions[0].end(), {fetch, fetch});
}

std::string Describe(const TrainingCase& c) {
  const TrainerOptions& o = c.options;
  const MemoryOptions& memory = o.memory;
  Parameter weight, bias;
  weight.name = "a.weight";
  bias.name = "a.bias";
  std::string text = DescribeModel(c);
  absl::StrAppend(
      &text,
      absl::StrFormat(
          "training: %s, seed %u, %d steps of %d x [%d, %d], "
          "every second [%d, %d], cache %d, masked %d, documents %d, "
          "checkpointing %s (by the host: %s), evaluation after "
          "step %d of %d x %d, ",
          DTypeName(c.dtype), c.seed, c.steps, o.shape.micro_batches,
          o.shape.batch, o.shape.length, c.other_batch, c.other_length,
          o.shape.cache, c.masked, o.shape.documents,
          kActivationCheckpointings[static_cast<int>(
              o.activation_checkpointing)],
          absl::StrJoin(o.planning.offloaded_blocks, " "), c.evaluate_after,
          c.evaluate_batches, o.eval_batch),
      absl::StrFormat("%s %s %s, clipping %g, decay %g (biases %g), lr %g %g "
                      "(biases x %g)\n",
                      o.optimizer.rule->name(),
                      o.optimizer.rule->Params().dump(),
                      castor::Describe(o.optimizer.rule->formats()),
                      o.optimizer.gradient_clipping, o.weight_decay(weight),
                      o.weight_decay(bias), o.learning_rate(1),
                      o.learning_rate(2), o.lr_factor(bias)));
  if (c.dtype == DType::kFloat16) {
    const LossScaleOptions& scale = o.loss_scale;
    absl::StrAppend(&text,
                    absl::StrFormat("loss scale: %g, dynamic %d, window %d, "
                                    "hysteresis %d, minimum %g\n",
                                    scale.initial, scale.dynamic, scale.window,
                                    scale.hysteresis, scale.minimum));
  }
  absl::StrAppend(
      &text,
      absl::StrFormat(
          "placement: ranks %d, %s, device %s, host %s, pinned %s, chunks of "
          "%d, margin "
          "%g, warm-up %d, prefetch %d, threads %d, bus %g, watched %d, "
          "mistaken plans %d, planned again and again %d, speculation %d after "
          "%d for %g\n",
          c.world_size, memory.policy->name, Size(memory.device_bytes),
          Size(memory.host_bytes), Size(memory.pinned_bytes),
          memory.chunk_bytes, memory.gpu_margin_mem_ratio, memory.warmup_steps,
          memory.prefetch, o.threads, o.bus_bytes_per_s, c.watched,
          o.planning.mistake != nullptr,
          o.planning.settled_durations != nullptr, o.planning.speculation.on,
          o.planning.speculation.first_wait,
          o.planning.speculation.least_gain));
  return text;
}

TrainingCase Shrink(TrainingCase c,
                    const std::function<bool(const TrainingCase&)>& fails) {
  using Change = void (*)(TrainingCase&);
  constexpr Change kChanges[] = {
      [](TrainingCase& x) { x.steps = std::max<int64_t>(1, x.steps - 1); },
      [](TrainingCase& x) { x.evaluate_after = x.options.eval_batch = 0; },
      [](TrainingCase& x) { x.other_batch = x.other_length = 0; },
      [](TrainingCase& x) { x.masked = false; },
      [](TrainingCase& x) { x.options.shape.documents = false; },
      [](TrainingCase& x) { x.world_size = 1; },
      [](TrainingCase& x) { x.evaluate_batches = 1; },
      [](TrainingCase& x) { x.options.planning.mistake = nullptr; },
      [](TrainingCase& x) {
        x.options.planning.watch = {};
        x.options.planning.step_seconds = nullptr;
        x.options.planning.settled_durations = nullptr;
      },
      [](TrainingCase& x) { x.options.planning.speculation.on = false; },
      [](TrainingCase& x) { x.options.threads = 1; },
      [](TrainingCase& x) { x.options.bus_bytes_per_s = 0; },
      [](TrainingCase& x) { x.options.memory.prefetch = false; },
      [](TrainingCase& x) { x.options.memory.warmup_steps = 1; },
      [](TrainingCase& x) { x.options.memory.gpu_margin_mem_ratio = 1; },
      [](TrainingCase& x) { x.options.memory.host_bytes = kUnlimitedBytes; },
      [](TrainingCase& x) { x.options.memory.pinned_bytes = 0; },
      [](TrainingCase& x) { x.options.memory.device_bytes = kUnlimitedBytes; },
      [](TrainingCase& x) { x.options.memory.chunk_bytes = 0; },
      [](TrainingCase& x) {
        x.options.activation_checkpointing = ActivationCheckpointing::kNone;
      },
      [](TrainingCase& x) { x.options.planning.offloaded_blocks.clear(); },
      [](TrainingCase& x) { x.options.shape.micro_batches = x.world_size; },
      [](TrainingCase& x) {
        x.options.shape.batch = 1;
        x.other_batch = std::min<int64_t>(x.other_batch, 1);
      },
      [](TrainingCase& x) {
        x.options.shape.length = 1;
        x.other_length = std::min<int64_t>(x.other_length, 1);
      },
      [](TrainingCase& x) { x.options.optimizer.gradient_clipping = 0; },
      [](TrainingCase& x) { SetType(DType::kFloat32, &x); },
      [](TrainingCase& x) {
        x.model.resid_pdrop = x.model.embd_pdrop = x.model.attn_pdrop = 0;
        SetKey(x, "attention_dropout", 0);
      },
      [](TrainingCase& x) { x.frozen.clear(); },
      [](TrainingCase& x) {
        x.model.tie_word_embeddings = false;
        SetKey(x, "tie_word_embeddings", false);
      },
      [](TrainingCase& x) {
        x.model.n_layer = 1;
        SetKey(x, "num_hidden_layers", 1);
      },
      [](TrainingCase& x) { SetKey(x, "sliding_window", nullptr); },
      [](TrainingCase& x) { SetKey(x, "attention_bias", false); },
      [](TrainingCase& x) { SetKey(x, "mlp_bias", false); },
      [](TrainingCase& x) {
        SetKey(x, "rope_parameters", {{"rope_type", "default"}});
      },
      [](TrainingCase& x) { SetKey(x, "num_key_value_heads", nullptr); },
      [](TrainingCase& x) { SetKey(x, "num_attention_heads", 1); },
      [](TrainingCase& x) { SetKey(x, "head_dim", 4); },
      [](TrainingCase& x) { x.model.n_embd = x.model.n_head = 1; },
      [](TrainingCase& x) {
        x.model.n_inner = 1;
        SetKey(x, "intermediate_size", 1);
      },
      [](TrainingCase& x) {
        x.model.vocab_size = 2;
        SetKey(x, "vocab_size", 2);
      },
  };
  const std::string before = Describe(c);
  for (const Change& change : kChanges) {
    TrainingCase simpler = c;
    change(simpler);
    if (Describe(simpler) != Describe(c) && fails(simpler)) {
      c = std::move(simpler);
    }
  }
  return Describe(c) == before ? c : Shrink(std::move(c), fails);
}

}  // namespace castor::testing
