// Promises P1, P2 and P5 over random models, placements and numbers of ranks:
// each run is refused before its first step with what a user needs to mend it,
// or gives the bits of the run on one rank that has everything on the device.
// None fails half-way. Some of the runs train nothing, but generate. On the
// machine that is linked in (test_machine.h).
//
// CASTOR_CASES=N runs at least N placements (1,200 on the host by default), and
// with fewer than by default a share of the cases that are not random, too;
// CASTOR_SEED=S takes others, CASTOR_MODEL=I runs the I-th model of that seed
// alone.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/philox.h"
#include "base/units.h"
#include "nlohmann/json.hpp"
#include "run/optim/adam/adam.h"
#include "tests/case_generator.h"
#include "tests/from_environment.h"
#include "tests/test_machine.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr int kGroups = 8;
constexpr int64_t kPlacementsPerModel = 6;
// One model of so many generates, of each group.
constexpr int64_t kModelsPerGeneration = 4;

int64_t Placements() {
  return FromEnvironment("CASTOR_CASES", PlacementsOnTestMachine());
}

// With sanitizers, for whom a case takes up to fifty times as long: all cases
// would show the same accesses of the same code again.
bool IsShare() { return Placements() < PlacementsOnTestMachine(); }

// A broken invariant aborts: the case must be known even then.
char current_case[4096];
void PrintCaseAndAbort(int signal) {
  const ssize_t written =
      ::write(STDERR_FILENO, current_case, std::strlen(current_case));
  static_cast<void>(written);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}
void SetCurrentCase(const std::string& text) {
  std::snprintf(current_case, sizeof(current_case), "%s", text.c_str());
}

struct Tally {
  int64_t admitted = 0;
  int64_t refused = 0;
  int64_t advice_followed = 0;    // refusals whose budgets were tried
  int64_t sharded = 0;            // admitted runs on several ranks
  int64_t generations = 0;        // admitted runs that trained nothing
  int64_t evictions = 0;          // admitted runs that moved bytes
  int64_t compactions = 0;        // admitted runs in which blocks moved
  int64_t planned_addresses = 0;  // admitted runs with blocks in planned places
  int64_t device_sums = 0;        // those of the ranks' last plans
  // Updates ahead of the norm, and those of them that were in vain.
  SpeculationCounts speculation;
  // The numbers of the ranks' last plans that chose to keep the activations of
  // some blocks, and of all.
  int64_t chose_some = 0;
  int64_t chose_all = 0;
  // Those with blocks whose activations may leave, and the bytes of these that
  // came back from the host.
  int64_t offloaded = 0;
  int64_t activation_bytes = 0;
  // Those whose last plan has addresses, for what came back, too.
  int64_t offloaded_in_place = 0;
  int64_t operators = 0;  // whose bytes were accounted for
};

// Everything that may not depend on placement.
absl::Status CheckSameResults(const TrainingResult& reference,
                              const TrainingResult& result, bool evaluated) {
  if (!SameNumbers(result.losses, reference.losses)) {
    return absl::InternalError(
        absl::StrCat("losses ", absl::StrJoin(result.losses, " "), " are not ",
                     absl::StrJoin(reference.losses, " ")));
  }
  if (!SameLogits(result, reference)) {
    return absl::InternalError("logits differ");
  }
  if (result.parameters_sha256 != reference.parameters_sha256) {
    return absl::InternalError("parameters differ");
  }
  if (result.state_sha256 != reference.state_sha256) {
    return absl::InternalError("optimizer states differ");
  }
  if (result.gradient_norm != reference.gradient_norm) {
    return absl::InternalError("gradient norms differ");
  }
  if (!(result.state == reference.state)) {
    return absl::InternalError("steps skipped or loss scales differ");
  }
  if (Overflows(result) != Overflows(reference)) {
    return absl::InternalError(
        absl::StrCat("overflows ", absl::StrJoin(Overflows(result), " "),
                     " are not ", absl::StrJoin(Overflows(reference), " ")));
  }
  if (evaluated &&
      (result.evaluation_loss != reference.evaluation_loss ||
       result.evaluation_correct != reference.evaluation_correct)) {
    return absl::InternalError(absl::StrCat(
        "evaluation loss ", result.evaluation_loss, " with ",
        result.evaluation_correct, " tokens correct is not ",
        reference.evaluation_loss, " with ", reference.evaluation_correct));
  }
  return absl::OkStatus();
}

// Returns the bytes of a model's key-value cache: for each layer keys and
// values, in blocks of whole alignments. 0: the model trains.
int64_t CacheBytes(const TrainingCase& c) {
  const OrderedJson sizes = ModelConfigOf(c).architecture->ToJson();
  const auto size = [&](const char* key, const char* in_gpt2) {
    return sizes.value(sizes.contains(key) ? key : in_gpt2, int64_t{0});
  };
  const int64_t width =
      sizes.contains("num_key_value_heads")
          ? size("num_key_value_heads", "") * size("head_dim", "")
          : size("hidden_size", "n_embd");
  const int64_t bytes = c.options.shape.cache * width * SizeOf(c.dtype);
  return 2 * size("num_hidden_layers", "n_layer") *
         RoundUp(bytes, kBlockAlignment);
}

// Budgets hold, and every byte has a category.
absl::Status CheckMemory(const TrainingCase& c, Trainer& trainer) {
  const ArenaStats& stats = trainer.arena_stats();
  const MemoryOptions& memory = c.options.memory;
  const AdmissionReport& admission = trainer.admission();
  if (stats.peak_bytes > memory.device_bytes ||
      stats.peak_bytes > admission.device_arena_bytes) {
    return absl::InternalError(absl::StrCat("device peak ", stats.peak_bytes,
                                            " of ", memory.device_bytes));
  }
  if (trainer.host_stats().peak_bytes > memory.host_bytes) {
    return absl::InternalError(absl::StrCat("host peak ",
                                            trainer.host_stats().peak_bytes,
                                            " of ", memory.host_bytes));
  }
  if (stats.used.Sum() != stats.used_bytes ||
      stats.used_at_peak.Sum() != stats.peak_bytes) {
    return absl::InternalError("categories do not add up to the bytes used");
  }
  if (stats.transient_bytes != CacheBytes(c)) {
    return absl::InternalError(
        absl::StrCat("activations left between steps: ", stats.used.ToString(),
                     " beside ", CacheBytes(c), " of the cache"));
  }
  if (admission.smallest_device_budget_bytes > memory.device_bytes ||
      admission.device.total() > memory.device_bytes) {
    return absl::InternalError(
        absl::StrCat("admitted below the smallest budget of ",
                     admission.smallest_device_budget_bytes, " bytes, or with ",
                     admission.device.total(), " bytes planned"));
  }
  return absl::OkStatus();
}

// A refusal names the operator and the bytes, in numbers and in its message.
absl::Status CheckRefusal(const TrainingCase& c, const TrainingResult& result) {
  const Refusal& refusal = *result.refusal;
  const MemoryOptions& memory = c.options.memory;
  const bool device = refusal.tier == "device";
  const auto wrong = [&](absl::string_view what) {
    return absl::InternalError(
        absl::StrCat("refusal ", what, ": ", result.refusal_message));
  };
  if (refusal.op.empty()) return wrong("without an operator");
  if (!device && refusal.tier != "host") return wrong("of no tier");
  const int64_t smallest = device ? refusal.smallest_device_budget_bytes
                                  : refusal.smallest_host_budget_bytes;
  if (smallest <= (device ? memory.device_bytes : memory.host_bytes)) {
    return wrong("by a budget that is large enough");
  }
  if (!absl::StrContains(result.refusal_message, refusal.op) ||
      !absl::StrContains(result.refusal_message,
                         absl::StrCat(refusal.peak_bytes, " bytes")) ||
      !absl::StrContains(result.refusal_message,
                         absl::StrCat(smallest, " bytes"))) {
    return wrong("whose message lacks the operator or the bytes");
  }
  return absl::OkStatus();
}

// Returns how many chunks' gradients the device adds up for the host's side.
int64_t DeviceSums(const Trainer& trainer) {
  int64_t sums = 0;
  if (trainer.training_plan() == nullptr) return 0;
  for (const auto& actions : trainer.training_plan()->actions) {
    for (const Action& action : actions) {
      sums += action.kind == ActionKind::kMakeSum;
    }
  }
  return sums;
}

// One run against the reference; counts it.
absl::Status CheckPlacement(const TrainingCase& c,
                            const TrainingResult& reference, Tally* tally) {
  auto result = RunTraining(c, [&](Trainer& trainer) {
    tally->device_sums += DeviceSums(trainer);
    tally->speculation.committed += trainer.speculation().committed;
    tally->speculation.repeated += trainer.speculation().repeated;
    const BlockCount blocks = trainer.training_forecast().blocks;
    if (c.options.activation_checkpointing == ActivationCheckpointing::kAuto) {
      tally->chose_all += blocks.blocks > 0 && blocks.kept == blocks.blocks;
      tally->chose_some += blocks.kept > 0 && blocks.kept < blocks.blocks;
      tally->offloaded += blocks.offloaded > 0;
      tally->activation_bytes += trainer.activation_bytes_back();
      tally->offloaded_in_place +=
          blocks.offloaded > 0 && trainer.activation_bytes_back() > 0 &&
          trainer.training_plan()->addresses.has_value();
    }
    return CheckMemory(c, trainer);
  });
  if (!result.ok()) return result.status();
  if (result->refusal.has_value()) {
    ++tally->refused;
    return CheckRefusal(c, *result);
  }
  ++tally->admitted;
  tally->sharded += c.world_size > 1;
  tally->generations += !result->logits.empty();
  for (const StepReport& report : result->reports) {
    if ((c.world_size > 1) == (report.network_bytes > 0)) continue;
    return absl::InternalError(
        absl::StrCat(report.network_bytes, " bytes from ", c.world_size - 1,
                     " other ranks in step ", report.step));
  }
  int64_t moved = 0;
  for (const StepReport& report : result->reports) moved += report.h2d_bytes;
  tally->evictions += moved > 0;
  tally->compactions += result->compactions > 0;
  tally->planned_addresses += result->placed_as_planned > 0;
  if (result->misplaced > 0) {
    return absl::InternalError(absl::StrCat(
        result->misplaced, " blocks found their planned places taken"));
  }
  tally->operators += result->operators_watched;
  return CheckSameResults(reference, *result, c.evaluate_after > 0);
}

// Does what a refusal says, as often as one comes: few changes must be enough
// (one for each tier and kind of step), and one byte less must not be.
absl::Status FollowAdvice(TrainingCase c, const TrainingResult& reference,
                          Tally* tally) {
  std::string advice;
  for (int change = 0; change < 4; ++change) {
    TrainingCase admission_only = c;
    admission_only.steps = 0;
    auto result = RunTraining(admission_only);
    if (!result.ok()) return result.status();
    if (!result->refusal.has_value()) {
      if (change == 0) return absl::OkStatus();  // there was nothing to mend
      ++tally->advice_followed;
      return CheckPlacement(c, reference, tally);
    }
    const Refusal& refusal = *result->refusal;
    MemoryOptions& memory = c.options.memory;
    int64_t& budget =
        refusal.tier == "device" ? memory.device_bytes : memory.host_bytes;
    const int64_t smallest = refusal.tier == "device"
                                 ? refusal.smallest_device_budget_bytes
                                 : refusal.smallest_host_budget_bytes;
    if (smallest >= kUnlimitedBytes) {
      return absl::InternalError(
          absl::StrCat("no budget would do: ", result->refusal_message));
    }
    TrainingCase short_by_one = c;
    (refusal.tier == "device" ? short_by_one.options.memory.device_bytes
                              : short_by_one.options.memory.host_bytes) =
        smallest - 1;
    short_by_one.steps = 0;
    auto refused = RunTraining(short_by_one);
    if (!refused.ok()) return refused.status();
    if (!refused->refusal.has_value()) {
      return absl::InternalError(absl::StrCat(
          "less than the smallest budget would do: ", result->refusal_message));
    }
    budget = smallest;
    absl::StrAppend(&advice, "\n", result->refusal_message);
  }
  return absl::InternalError(
      absl::StrCat("what refusals say does not help:", advice));
}

// Describes a failing case, after making it as plain as possible.
std::string Explain(const TrainingCase& c, bool follow) {
  const auto check = [follow](const TrainingCase& x) -> absl::Status {
    SetCurrentCase(Describe(x));
    auto reference = RunTraining(ReferenceOf(x));
    if (!reference.ok()) return reference.status();
    Tally ignored;
    return follow ? FollowAdvice(x, *reference, &ignored)
                  : CheckPlacement(x, *reference, &ignored);
  };
  const absl::Status again = check(c);
  if (again.ok()) {
    return absl::StrCat("it passes when run again: timing matters\n",
                        Describe(c));
  }
  const TrainingCase plain = Shrink(c, [&](const TrainingCase& x) {
    return check(x).code() == again.code();
  });
  return absl::StrCat(Describe(c), "shrunk to\n", Describe(plain), "with ",
                      check(plain).ToString());
}

class Promises : public ::testing::TestWithParam<int> {};

TEST_P(Promises, EveryPlacementGivesTheSameBitsOrIsRefusedFirst) {
  if (!WhyNoTestMachine().empty()) {
    GTEST_SKIP() << "SKIPPED: " << WhyNoTestMachine();
  }
  const int64_t seed = FromEnvironment("CASTOR_SEED", 20240229);
  const int64_t cases = Placements();
  const int64_t only = FromEnvironment("CASTOR_MODEL", -1);
  const int64_t models = CeilDiv(cases, kPlacementsPerModel);
  std::printf("CASTOR_SEED=%lld CASTOR_CASES=%lld\n",
              static_cast<long long>(seed), static_cast<long long>(cases));
  std::signal(SIGABRT, PrintCaseAndAbort);
  Tally tally;
  for (int64_t i = GetParam(); i < models; i += kGroups) {
    if (only >= 0 && i != only) continue;
    const uint64_t model_seed = MixKey(seed, i);
    const std::string name =
        absl::StrCat("CASTOR_SEED=", seed, " CASTOR_MODEL=", i, "\n");
    const bool generates =
        (i / kGroups - GetParam()) % kModelsPerGeneration == 0;
    const TrainingCase model = generates
                                   ? OnTestMachine(RandomGeneration(model_seed))
                                   : OnTestMachine(RandomModel(model_seed));
    SetCurrentCase(name + Describe(model));
    auto reference = RunTraining(model);
    ASSERT_TRUE(reference.ok()) << reference.status() << "\n"
                                << name << Describe(model);
    ASSERT_FALSE(reference->refusal.has_value()) << name << Describe(model);
    for (int64_t p = 0; p < kPlacementsPerModel; ++p) {
      Random random(model_seed, p);
      auto c = RandomPlacement(model, random, MostRanksOnTestMachine());
      ASSERT_TRUE(c.ok()) << c.status() << "\n" << name << Describe(model);
      const std::string placed =
          absl::StrCat(name, "placement ", p, "\n", Describe(*c));
      SetCurrentCase(placed);
      const int64_t refused_before = tally.refused;
      absl::Status status = CheckPlacement(*c, *reference, &tally);
      ASSERT_TRUE(status.ok()) << status << "\n"
                               << placed << Explain(*c, /*follow=*/false);
      if (tally.refused == refused_before || random.Chance(0.5)) continue;
      status = FollowAdvice(*c, *reference, &tally);
      ASSERT_TRUE(status.ok()) << status << "\n"
                               << placed << Explain(*c, /*follow=*/true);
    }
  }
  std::printf(
      "placements: %lld admitted (%lld on several ranks, %lld generated, "
      "%lld moved chunks, %lld moved blocks, %lld had planned addresses, %lld "
      "sums on the device, %lld "
      "updates ahead of the norm and %lld in vain, %lld chose to keep some "
      "activations, %lld all, %lld had activations that may leave, of which "
      "%lld bytes came back, to planned addresses in %lld), %lld refused; of "
      "these "
      "%lld were mended as their refusals said; the bytes of "
      "%lld operators were accounted for\n",
      static_cast<long long>(tally.admitted),
      static_cast<long long>(tally.sharded),
      static_cast<long long>(tally.generations),
      static_cast<long long>(tally.evictions),
      static_cast<long long>(tally.compactions),
      static_cast<long long>(tally.planned_addresses),
      static_cast<long long>(tally.device_sums),
      static_cast<long long>(tally.speculation.committed),
      static_cast<long long>(tally.speculation.repeated),
      static_cast<long long>(tally.chose_some),
      static_cast<long long>(tally.chose_all),
      static_cast<long long>(tally.offloaded),
      static_cast<long long>(tally.activation_bytes),
      static_cast<long long>(tally.offloaded_in_place),
      static_cast<long long>(tally.refused),
      static_cast<long long>(tally.advice_followed),
      static_cast<long long>(tally.operators));
  // Both outcomes must be among so many cases.
  if (only < 0 && models >= 4 * kGroups) {
    EXPECT_GT(tally.admitted, 0);
    EXPECT_GT(tally.refused, 0);
    if (MostRanksOnTestMachine() > 1) {
      EXPECT_GT(tally.sharded, 0);
    }
    EXPECT_GT(tally.generations, 0);
    EXPECT_GT(tally.evictions, 0);
    EXPECT_GT(tally.advice_followed, 0);
    EXPECT_GT(tally.operators, 0);
  }
  // The choice of kept blocks follows from measured durations, too, so that
  // only many cases are sure to have some.
  if (only < 0 && models >= 40 * kGroups) {
    EXPECT_GT(tally.chose_some + tally.chose_all, 0);
    EXPECT_GT(tally.offloaded, 0);
    EXPECT_GT(tally.activation_bytes, 0);
    EXPECT_GT(tally.offloaded_in_place, 0);
  }
}

// Updates ahead of a norm that then says that nothing is clipped, or that all
// is, or now the one and now the other, or that gradients are not finite; with
// an evaluation between the steps.
TEST(Speculation, GivesTheSameBits) {
  if (!WhyNoTestMachine().empty()) {
    GTEST_SKIP() << "SKIPPED: " << WhyNoTestMachine();
  }
  const struct {
    const char* norms;
    double clipping;  // of the norm at the end, 0: none
    double loss_scale;
    bool commits, repeats;
  } kKinds[] = {{"never clipped", 1e3, 0, true, false},
                {"always clipped", 1e-3, 0, false, true},
                {"clipped at times", 1.0, 0, true, true},
                {"clipped at times, and scaled", 1.0, 0x1p4, true, true},
                {"not finite at first", 0, 0x1p20, true, true}};
  // An emulated GPU takes seconds for a case: there all of a run's steps are
  // clipped, or none is.
  const bool has_ranks = MostRanksOnTestMachine() > 1;
  uint64_t seed = 0;
  for (const auto& kind : kKinds) {
    SCOPED_TRACE(kind.norms);
    if (!has_ranks && (kind.clipping == 1 || kind.loss_scale > 0)) continue;
    // The seed is this kind's in either case.
    ++seed;
    if (has_ranks && IsShare() && !(kind.commits && kind.repeats)) continue;
    TrainingCase model = OnTestMachine(RandomModel(MixKey(98, seed)));
    model.dtype = kind.loss_scale > 0 ? DType::kFloat16 : DType::kFloat32;
    model.frozen.clear();
    model.steps = 8;
    model.evaluate_after = 4;
    model.other_batch = model.other_length = 0;
    model.options.optimizer.rule = std::make_shared<Adam>();
    model.options.optimizer.gradient_clipping = 1e9;
    model.options.loss_scale = {.initial = kind.loss_scale, .hysteresis = 1};
    SpeculationCounts counts;
    for (const int64_t micro_batches : {1, 4}) {
      if (!has_ranks && micro_batches > 1) continue;
      if (has_ranks && IsShare() && micro_batches == 1) continue;
      model.options.shape.micro_batches = micro_batches;
      TrainingCase wanted = ReferenceOf(model);
      if (kind.clipping > 0) {
        const auto unclipped = RunTraining(wanted);
        ASSERT_TRUE(unclipped.ok()) << unclipped.status() << Describe(model);
        wanted.options.optimizer.gradient_clipping =
            model.options.optimizer.gradient_clipping =
                kind.clipping * unclipped->gradient_norm;
      } else {
        wanted.options.optimizer.gradient_clipping =
            model.options.optimizer.gradient_clipping = 0;
      }
      const auto reference = RunTraining(wanted);
      ASSERT_TRUE(reference.ok()) << reference.status() << Describe(model);
      for (const char* policy : {"cpu", "auto"}) {
        if (!has_ranks && policy[0] != 'c') continue;
        for (int ranks = 1; ranks <= std::min<int64_t>(2, micro_batches);
             ++ranks) {
          // Each of the two once.
          if (has_ranks && IsShare() && (ranks == 1) == (policy[0] == 'c')) {
            continue;
          }
          TrainingCase c = model;
          c.world_size = ranks;
          c.watched = true;
          c.options.memory.policy = FindPolicy(policy);
          c.options.memory.chunk_bytes = 64 * SizeOf(c.dtype) * 4;
          c.options.planning.speculation = {
              .first_wait = 0, .longest_wait = 0, .least_gain = -1};
          const auto needs = FindNeeds(c);
          ASSERT_TRUE(needs.ok()) << needs.status() << Describe(c);
          c.options.memory.device_bytes = needs->smallest_device;
          Tally tally;
          const absl::Status status = CheckPlacement(c, *reference, &tally);
          ASSERT_TRUE(status.ok()) << status << "\n" << Describe(c);
          counts.committed += tally.speculation.committed;
          counts.repeated += tally.speculation.repeated;
        }
      }
    }
    std::printf(
        "%s: %lld updates ahead of the norm were committed, %lld done "
        "again\n",
        kind.norms, static_cast<long long>(counts.committed),
        static_cast<long long>(counts.repeated));
    EXPECT_EQ(counts.committed > 0, kind.commits);
    EXPECT_EQ(counts.repeated > 0, kind.repeats);
  }
}

// On a bus that is the slowest of all the planner has the device add up
// gradients for the host's side.
TEST(DeviceSums, GiveTheSameBits) {
  if (!WhyNoTestMachine().empty()) {
    GTEST_SKIP() << "SKIPPED: " << WhyNoTestMachine();
  }
  // An emulated GPU takes ten seconds for a case.
  const bool has_ranks = MostRanksOnTestMachine() > 1;
  constexpr int64_t kOfShare = 4;  // in bf16, clipped
  int64_t seed = 0;
  int64_t with_sums[] = {0, 0};  // cases, by the number of ranks less one
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const double clipping : {0.0, 0.05}) {
      if (!has_ranks && (clipping == 0 || dtype == DType::kFloat16)) continue;
      ++seed;
      if (has_ranks && IsShare() && seed != kOfShare) continue;
      TrainingCase model = OnTestMachine(RandomModel(MixKey(77, seed)));
      SetType(dtype, &model);
      model.frozen.clear();
      model.steps = 6;
      model.other_batch = model.other_length = 0;
      model.options.shape.micro_batches = 8;
      model.options.optimizer.gradient_clipping = clipping;
      const auto reference = RunTraining(ReferenceOf(model));
      ASSERT_TRUE(reference.ok()) << reference.status() << Describe(model);
      for (int ranks = 1; ranks <= std::min(2, MostRanksOnTestMachine());
           ++ranks) {
        TrainingCase c = model;
        c.world_size = ranks;
        c.watched = true;
        c.options.memory.policy = FindPolicy("auto");
        c.options.memory.chunk_bytes = 64 * SizeOf(dtype) * 4;
        c.options.planning.watch = {
            .settling_steps = 1, .most_settling_steps = 1, .drift_steps = 1};
        c.options.planning.step_seconds = [](int64_t, double foreseen_seconds) {
          return 2 * foreseen_seconds;
        };
        // The last of so few steps is to follow the plan.
        c.options.planning.beside = false;
        c.options.planning.settled_durations = [](StepTrace* trace,
                                                  BusModel* bus) {
          for (OpRecord& op : trace->ops) {
            op.duration_ns = 1000;
            op.host_duration_ns = op.kind == OpKind::kCompute ? 0 : 1000;
          }
          bus->h2d_bytes_per_s = bus->d2h_bytes_per_s = 1e6;
        };
        const auto needs = FindNeeds(c);
        ASSERT_TRUE(needs.ok()) << needs.status() << Describe(c);
        c.options.memory.device_bytes =
            needs->smallest_device +
            (needs->unmanaged_device - needs->smallest_device) / 2;
        Tally tally;
        const absl::Status status = CheckPlacement(c, *reference, &tally);
        ASSERT_TRUE(status.ok()) << status << "\n" << Describe(c);
        with_sums[ranks - 1] += tally.device_sums > 0;
      }
    }
  }
  // There were six cases, or two; in the others optimizer states on the device,
  // or no sums at all, are faster.
  const int64_t least = has_ranks && !IsShare() ? 4 : 1;
  EXPECT_GE(with_sums[0], least);
  if (has_ranks) {
    EXPECT_GE(with_sums[1], least);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, Promises, ::testing::Range(0, kGroups));

}  // namespace
}  // namespace castor::testing
