// A client for tests: a random model whose operators are its own, and that
// tells a run what they use.
#ifndef CASTOR_CLIENT_TESTING_TEST_CLIENT_H_
#define CASTOR_CLIENT_TESTING_TEST_CLIENT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "client/client_run.h"
#include "client/testing/test_model.h"
#include "device/comm/device_parts.h"
#include "device/comm/rank_group.h"
#include "device/comm/thread_ranks.h"
#include "gtest/gtest.h"

namespace castor::test_client {

inline constexpr int64_t kWidth = 96;
inline constexpr double kRate = 0.02;  // that clients learn with
inline float Value(uint64_t stream, int64_t i) {
  return static_cast<float>(RandomWord({9, stream}, i)) * 0x1p-31f - 1;
}

// A rank's place among threads that are ranks; alone by default.
struct Place {
  // The groups in which ranks exchange shards of chunks, and in which they
  // meet.
  std::shared_ptr<ThreadGroup> chunks, meetings;
  int rank = 0;
  int world_size = 1;
  // Makes this rank's transport of parts between the ranks' GPUs; empty: they
  // have none.
  std::function<absl::StatusOr<std::unique_ptr<DeviceParts>>(int rank)>
      gpu_parts;

  static Place First(int world_size) {
    return {.chunks = ThreadGroup::Create(world_size),
            .meetings = ThreadGroup::Create(world_size),
            .rank = 0,
            .world_size = world_size,
            .gpu_parts = {}};
  }
  Place Of(int other) const {
    Place place = *this;
    place.rank = other;
    return place;
  }
  void Join(ClientOptions* options) const {
    if (world_size == 1) return;
    const CommunicatorOptions limit = {.time_limit_ns = 60'000'000'000};
    const auto join =
        [chunks = chunks, rank = rank, limit, gpu_parts = gpu_parts](
            Device* device) -> absl::StatusOr<std::unique_ptr<Communicator>> {
      std::unique_ptr<DeviceParts> parts;
      if (gpu_parts) {
        CASTOR_ASSIGN_OR_RETURN(parts, gpu_parts(rank));
      }
      return MakeThreadRank(chunks, rank, device, limit, std::move(parts));
    };
    options->ranks = {.rank = rank, .world_size = world_size, .join = join};
    options->join_meetings = [meetings = meetings, rank = rank, limit] {
      return std::make_unique<RankGroup>(meetings->NewTransport(rank), limit);
    };
  }
  void Kill() const {
    meetings->Kill(rank);
    chunks->Kill(rank);
  }
};

// How a run is planned, where its learning rates come from, and which steps are
// undone, which must not change what it computes.
struct Ways {
  PlanningOptions planning = ClientOptions().planning;
  // The step from which on the schedule has another rate than is given.
  int64_t gives_rate_from = std::numeric_limits<int64_t>::max();
  bool expects_rate = false;  // says before a step which rate it will give
  // Another try of this step comes before it, with a gradient that is not
  // finite; 0: none does. The try is an error, or it is `skipped`.
  int64_t tries_in_vain = 0;
  bool skipped = false;
  // Before this step each parameter is given the values that it has; 0: none
  // is.
  int64_t gives_values_at = 0;
  // Called before each step, by all ranks; may be null.
  std::function<absl::Status(ClientRun& run, int64_t step)> before_step = {};

  bool gives_rate() const {
    return gives_rate_from < std::numeric_limits<int64_t>::max();
  }
  void Change(ClientOptions* options) const {
    options->planning = planning;
    options->undoes_not_finite = tries_in_vain > 0;
    options->max_skipped_steps = skipped ? 2 : 1;
    options->learning_rate = [from = gives_rate_from](int64_t step) {
      return step < from ? kRate : 2 * kRate;
    };
  }
};

inline Ways RandomWays(std::mt19937& random, int64_t steps) {
  Ways ways;
  PlanningOptions& planning = ways.planning;
  planning.speculation = {.on = random() % 4 > 0,
                          .first_wait = static_cast<int64_t>(random() % 2),
                          .longest_wait = static_cast<int64_t>(random() % 3),
                          .least_gain = random() % 3 > 0 ? -1.0 : 0.0};
  if (random() % 2 == 0) {
    planning.watch = {
        .settling_steps = 1, .most_settling_steps = 1, .drift_steps = 1};
    planning.step_seconds = [](int64_t, double foreseen_seconds) {
      return 2 * foreseen_seconds;
    };
    planning.settled_durations = [](StepTrace* trace, BusModel* bus) {
      static thread_local std::mt19937 durations;
      for (OpRecord& op : trace->ops) {
        op.duration_ns = durations() % 100000;
        op.host_duration_ns = durations() % 100000;
      }
      bus->h2d_bytes_per_s = 1e7 + durations() % 100000000;
    };
  }
  if (random() % 2 == 0) ways.gives_rate_from = 1 + random() % steps;
  ways.expects_rate = random() % 2 == 0;
  if (random() % 2 == 0) ways.tries_in_vain = 1 + random() % steps;
  ways.skipped = random() % 2 == 0;
  if (random() % 2 == 0) ways.gives_values_at = 1 + random() % steps;
  return ways;
}

// For Ways::before_step: sets another device memory, of `smallest` bytes or
// more, and tries in vain one that is too small for the steps so far.
inline std::function<absl::Status(ClientRun& run, int64_t step)> OtherBudgets(
    uint32_t seed, int64_t smallest) {
  return [=](ClientRun& run, int64_t step) {
    std::mt19937 random(seed + static_cast<uint32_t>(step));
    const ClientRun::Stats stats = run.stats();
    EXPECT_LE(stats.device_peak_bytes, stats.device_budget_bytes);
    const int64_t known = stats.smallest_device_budget_bytes;
    if (known > 0 && random() % 2 == 0) {
      const absl::Status refused = run.SetDeviceMemory(known - 256);
      EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
      EXPECT_GE(run.refused().smallest_device_budget_bytes, known);
      EXPECT_TRUE(run.refused().exact);
      EXPECT_EQ(run.stats().device_budget_bytes, stats.device_budget_bytes);
    }
    return run.SetDeviceMemory(smallest +
                               static_cast<int64_t>(random() % 20000));
  };
}

// The machine on which a client's operators run: its thread, at once.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual void Compute(std::function<void()> work) { work(); }
  // Returns true if Compute queues the work on a stream of the run's device,
  // and the client's memory is the run's.
  virtual bool is_stream() const { return false; }
  // The stream that a block is allocated for.
  virtual void* stream() { return nullptr; }
};

// A client, which computes a model and tells the run what it uses.
class Client {
 public:
  Client(const Model& model, ClientRun* run, int rank = 0, int world_size = 1,
         Machine* machine = nullptr)
      : model_(model),
        run_(run),
        rank_(rank),
        world_size_(world_size),
        machine_(machine != nullptr ? machine : &on_thread_),
        sums_(model.parameters.size()) {}
  ~Client() {
    GiveAllBack();
    run_->Drain().IgnoreError();  // a test that cares has asked
    EXPECT_EQ(*mistakes_, 0);
  }

  // Gives its updates their rates if `ways` says so.
  void Give(const Ways& ways) {
    if (!ways.gives_rate()) return;
    rate_ = kRate;
    expects_rate_ = ways.expects_rate;
  }
  // Tries a step with a gradient that is not finite, on the last rank, as
  // `ways` has it. The step leaves no trace.
  absl::Status TryInVain(const Ways& ways, int64_t step) {
    not_finite_ = rank_ + 1 == world_size_;
    absl::Status tried = QueueStep(step).status();
    // It may be recorded the second time (see Train).
    if (absl::IsAborted(tried)) tried = QueueStep(step).status();
    not_finite_ = false;
    if (ways.skipped || !absl::IsOutOfRange(tried)) return tried;
    EXPECT_NE(tried.message().find("is not finite (\"w"), std::string::npos)
        << tried;
    return absl::OkStatus();
  }
  // Sets how many more bytes it takes for itself in each use from now on.
  void TakeMore(int64_t bytes) { more_ = bytes; }
  // Has `call` called once, before a layer is used next. By then the step has
  // begun to follow a plan, or is recorded.
  void BeforeNextLayer(std::function<void()> call) {
    before_layer_ = std::move(call);
  }

  absl::Status GiveValuesAgain() {
    for (size_t i = 0; i < model_.parameters.size(); ++i) {
      std::vector<float> values(model_.parameters[i].elements);
      const ParamId id(static_cast<int64_t>(i));
      CASTOR_RETURN_IF_ERROR(run_->GetValues(id, values.data()));
      CASTOR_RETURN_IF_ERROR(run_->SetValues(id, values.data()));
    }
    return absl::OkStatus();
  }
  absl::Status SetValues() {
    for (size_t i = 0; i < model_.parameters.size(); ++i) {
      std::vector<float> values;
      for (int64_t e = 0; e < model_.parameters[i].elements; ++e) {
        values.push_back(1 + Value(i, e) / 4);
      }
      CASTOR_RETURN_IF_ERROR(run_->SetValues(ParamId(i), values.data()));
    }
    return absl::OkStatus();
  }

  // A loss that is there when the run has drained.
  using Loss = std::shared_ptr<const float>;
  // Queues a step. `fail_at`: the use at which the client gives up.
  absl::StatusOr<Loss> QueueStep(int64_t step, int64_t fail_at = -1) {
    if (expects_rate_) run_->ExpectLearningRate(*rate_);
    CASTOR_RETURN_IF_ERROR(run_->Begin(/*training=*/true));
    uses_left_ = fail_at;
    const auto loss = std::make_shared<float>(0.0f);
    const absl::Status done = [&]() -> absl::Status {
      for (int64_t m = 0; m < model_.micro_batches; ++m) {
        CASTOR_RETURN_IF_ERROR(MicroBatch(step, m, loss));
      }
      return run_->Step(rate_);
    }();
    GiveAllBack();
    if (done.ok()) return loss;
    CASTOR_RETURN_IF_ERROR(run_->Abort());
    return done;
  }
  absl::StatusOr<float> Step(int64_t step, int64_t fail_at = -1) {
    return WaitedFor(QueueStep(step, fail_at));
  }

  absl::StatusOr<Loss> QueueEvaluation(int64_t step) {
    CASTOR_RETURN_IF_ERROR(run_->Begin(/*training=*/false));
    uses_left_ = -1;
    Vector x = Input(step, 0);
    const absl::Status done = [&]() -> absl::Status {
      CASTOR_RETURN_IF_ERROR(Use("evaluate", Phase::kForward, {}).status());
      for (size_t i = 0; i < model_.layers.size(); ++i) {
        CASTOR_ASSIGN_OR_RETURN(const float* const w,
                                Use(absl::StrCat("layer ", i), Phase::kForward,
                                    {model_.layers[i].parameter}));
        x = Product(x, w, Elements(i));
      }
      return run_->EndEvaluation();
    }();
    if (!done.ok()) {
      CASTOR_RETURN_IF_ERROR(run_->Abort());
      return done;
    }
    const auto loss = std::make_shared<float>(0.0f);
    AddLoss(x, loss);
    return loss;
  }
  absl::StatusOr<float> Evaluate(int64_t step) {
    return WaitedFor(QueueEvaluation(step));
  }

  std::vector<float> Values() {
    std::vector<float> all;
    for (size_t i = 0; i < model_.parameters.size(); ++i) {
      std::vector<float> values(model_.parameters[i].elements);
      EXPECT_TRUE(run_->GetValues(ParamId(i), values.data()).ok());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  static std::vector<float> InputOf(int64_t step, int64_t micro_batch) {
    std::vector<float> x;
    for (int64_t e = 0; e < kWidth; ++e) {
      x.push_back(Value(1000 + 10 * step + micro_batch, e));
    }
    return x;
  }

 private:
  using Vector = std::shared_ptr<std::vector<float>>;
  // Memory that it takes for itself. On a stream it is written, and read when
  // it is given back: nobody else may have written to it.
  struct Block {
    int64_t bytes = 0;
    uint8_t* address = nullptr;  // on a stream
    uint8_t pattern = 0;
  };

  static Vector Input(int64_t step, int64_t micro_batch) {
    return std::make_shared<std::vector<float>>(InputOf(step, micro_batch));
  }
  int64_t Elements(size_t layer) const {
    return model_.parameters[model_.layers[layer].parameter].elements;
  }
  absl::StatusOr<float> WaitedFor(absl::StatusOr<Loss> loss) {
    CASTOR_RETURN_IF_ERROR(loss.status());
    if (machine_->is_stream()) CASTOR_RETURN_IF_ERROR(run_->Drain());
    return **loss;
  }
  Vector Product(const Vector& x, const float* w, int64_t elements) {
    const auto y = std::make_shared<std::vector<float>>(kWidth);
    machine_->Compute([=] {
      for (int64_t e = 0; e < kWidth; ++e) (*y)[e] = (*x)[e] * w[e % elements];
    });
    return y;
  }
  void AddLoss(const Vector& x, const std::shared_ptr<float>& loss) {
    machine_->Compute([=] {
      for (const float y : *x) *loss += y * y / 2;
    });
  }

  absl::Status Announce(const std::string& name, int64_t length) {
    if (uses_left_ == 0) return absl::CancelledError("the client gives up");
    --uses_left_;
    return run_->Announce(run_->Label(name), Phase::kForward, {length});
  }
  absl::StatusOr<const float*> Use(const std::string& name, Phase phase,
                                   std::vector<int64_t> parameters) {
    if (before_layer_) std::exchange(before_layer_, nullptr)();
    if (uses_left_ == 0) return absl::CancelledError("the client gives up");
    --uses_left_;
    std::vector<ParamId> ids;
    for (const int64_t id : parameters) ids.push_back(ParamId(id));
    std::vector<void*> addresses(ids.size());
    CASTOR_RETURN_IF_ERROR(
        run_->Use(run_->Label(name), phase, ids, addresses.data()));
    return addresses.empty() ? nullptr : static_cast<float*>(addresses[0]);
  }

  absl::StatusOr<Block> Take(int64_t bytes) {
    Block block = {.bytes = bytes};
    if (!machine_->is_stream()) {
      CASTOR_RETURN_IF_ERROR(run_->Claim(bytes));
      claimed_ += bytes;
      return block;
    }
    CASTOR_ASSIGN_OR_RETURN(void* const address,
                            run_->Allocate(bytes, machine_->stream()));
    if (bytes == 0) return block;
    block.address = static_cast<uint8_t*>(address);
    block.pattern = ++pattern_;
    taken_.push_back(block);
    machine_->Compute(
        [block] { std::memset(block.address, block.pattern, block.bytes); });
    return block;
  }
  void GiveBack(const Block& block) {
    if (!machine_->is_stream()) {
      run_->Release(block.bytes);
      claimed_ -= block.bytes;
      return;
    }
    if (block.address == nullptr) return;
    machine_->Compute([block, mistakes = mistakes_] {
      for (int64_t i = 0; i < block.bytes; ++i) {
        *mistakes += block.address[i] != block.pattern ? 1 : 0;
      }
    });
    run_->Free(block.address);
    std::erase_if(taken_, [&](const Block& other) {
      return other.address == block.address;
    });
  }
  void GiveAllBack() {
    while (!taken_.empty()) GiveBack(Block(taken_.back()));
    for (size_t p = 0; p < sums_.size(); ++p) Taken(p);
    run_->Release(claimed_);
    claimed_ = 0;
  }

  // Returns the sum of a gradient's parts that were not taken, zeros at first.
  absl::StatusOr<float*> SumOf(int64_t parameter) {
    float*& sum = sums_[parameter];
    if (sum != nullptr) return sum;
    const int64_t elements = model_.parameters[parameter].elements;
    const auto bytes = elements * static_cast<int64_t>(sizeof(float));
    if (machine_->is_stream()) {
      CASTOR_ASSIGN_OR_RETURN(void* const address,
                              run_->Allocate(bytes, machine_->stream()));
      sum = static_cast<float*>(address);
    } else {
      sum = new float[elements];
    }
    machine_->Compute([=] { std::fill_n(sum, elements, 0.0f); });
    return sum;
  }
  void Taken(int64_t parameter) {
    float* const sum = std::exchange(sums_[parameter], nullptr);
    if (sum == nullptr) return;
    if (machine_->is_stream()) {
      run_->Free(sum);
    } else {
      delete[] sum;
    }
  }
  // Hands in a gradient. `gradient` is the new part; the client keeps the sum
  // where it has to.
  absl::Status HandIn(int64_t parameter, const Vector& gradient) {
    CASTOR_ASSIGN_OR_RETURN(float* const sum, SumOf(parameter));
    machine_->Compute([=] {
      for (size_t e = 0; e < gradient->size(); ++e) sum[e] += (*gradient)[e];
    });
    CASTOR_ASSIGN_OR_RETURN(
        const bool taken,
        run_->HandInGradient(ParamId(parameter), sum, /*last=*/false));
    if (taken) Taken(parameter);
    return absl::OkStatus();
  }

  absl::Status MicroBatch(int64_t step, int64_t m,
                          const std::shared_ptr<float>& loss) {
    const int64_t length = model_.Length(step, m * world_size_ + rank_);
    const auto scaled = [&](int64_t bytes) {
      return bytes * length / Model::kUsualLength;
    };
    CASTOR_RETURN_IF_ERROR(Announce(
        model_.tells ? absl::StrCat("inputs ", step % 2, "[*]") : "inputs[*]",
        length));
    std::vector<size_t> order;
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      if (!model_.layers[i].optional || step % 2 == 0) order.push_back(i);
    }
    std::vector<Vector> inputs;
    std::vector<Block> kept;
    Vector x = Input(step, m * world_size_ + rank_);
    for (const size_t i : order) {
      const Layer& layer = model_.layers[i];
      CASTOR_ASSIGN_OR_RETURN(
          const float* const w,
          Use(absl::StrCat("layer ", i), Phase::kForward, {layer.parameter}));
      CASTOR_ASSIGN_OR_RETURN(kept.emplace_back(), Take(scaled(layer.claim)));
      CASTOR_ASSIGN_OR_RETURN(
          const Block temporary,
          Take(scaled(layer.temporary) + step * layer.growth + more_));
      inputs.push_back(x);
      x = Product(x, w, Elements(i));
      GiveBack(temporary);
    }
    AddLoss(x, loss);
    Vector dy = x;
    for (size_t k = order.size(); k-- > 0;) {
      const size_t i = order[k];
      const Layer& layer = model_.layers[i];
      const int64_t elements = Elements(i);
      CASTOR_ASSIGN_OR_RETURN(
          const float* const w,
          Use(absl::StrCat("layer ", i), Phase::kBackward, {layer.parameter}));
      CASTOR_ASSIGN_OR_RETURN(
          const Block temporary,
          Take(scaled(layer.temporary) + step * layer.growth + more_));
      const auto first = std::make_shared<std::vector<float>>(elements);
      const auto rest = std::make_shared<std::vector<float>>(elements);
      const bool spoils = not_finite_ && i == 0;
      machine_->Compute([=, in = inputs[k], in_parts = layer.in_parts] {
        if (spoils) (*first)[0] = std::numeric_limits<float>::infinity();
        for (int64_t e = 0; e < kWidth; ++e) {
          (*(in_parts && e % 2 == 1 ? rest : first))[e % elements] +=
              (*dy)[e] * (*in)[e];
        }
      });
      dy = Product(dy, w, elements);
      GiveBack(temporary);
      GiveBack(kept[k]);
      if (!model_.parameters[layer.parameter].trainable ||
          !layer.HandsIn(step, m * world_size_ + rank_)) {
        continue;
      }
      CASTOR_RETURN_IF_ERROR(HandIn(layer.parameter, first));
      if (layer.in_parts) {
        CASTOR_RETURN_IF_ERROR(HandIn(layer.parameter, rest));
      }
    }
    for (const size_t i : order) {
      if (!model_.layers[i].read_late) continue;
      CASTOR_ASSIGN_OR_RETURN(
          const float* const w,
          Use(absl::StrCat("late read ", i), Phase::kBackward,
              {model_.layers[i].parameter}));
      // It still holds the parameter.
      machine_->Compute([w, n = Elements(i), mistakes = mistakes_] {
        for (int64_t e = 0; e < n; ++e)
          *mistakes += std::abs(w[e]) < 10 ? 0 : 1;
      });
    }
    for (size_t p = 0; p < sums_.size(); ++p) {
      if (sums_[p] == nullptr) continue;
      CASTOR_ASSIGN_OR_RETURN(const bool taken,
                              run_->HandInGradient(ParamId(p), sums_[p], true));
      EXPECT_TRUE(taken);
      Taken(p);
    }
    return run_->EndBackward();
  }

  const Model& model_;
  bool not_finite_ = false;  // gradients of the step at hand
  ClientRun* const run_;
  const int rank_, world_size_;
  Machine on_thread_;
  Machine* const machine_;
  std::optional<double> rate_;
  bool expects_rate_ = false;
  int64_t more_ = 0;
  std::function<void()> before_layer_;
  std::vector<float*> sums_;  // [parameter]; null: of gradients not there yet
  std::vector<Block> taken_;  // on a stream
  uint8_t pattern_ = 0;
  int64_t claimed_ = 0;
  int64_t uses_left_ = -1;
  // Bytes and values that were not what they had to be. The stream's thread
  // counts them; a reader must have drained the run.
  std::shared_ptr<int64_t> mistakes_ = std::make_shared<int64_t>(0);
};

}  // namespace castor::test_client

#endif  // CASTOR_CLIENT_TESTING_TEST_CLIENT_H_
