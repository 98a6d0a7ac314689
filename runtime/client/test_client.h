// A client for tests: a random model whose operators are its own, and that
// tells a run what they use.
#ifndef CASTOR_RUNTIME_CLIENT_TEST_CLIENT_H_
#define CASTOR_RUNTIME_CLIENT_TEST_CLIENT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "device/comm/rank_group.h"
#include "device/comm/thread_ranks.h"
#include "gtest/gtest.h"
#include "runtime/client/client_run.h"

namespace castor::test_client {

inline constexpr int64_t kWidth = 96;
inline float Value(uint64_t stream, int64_t i) {
  return static_cast<float>(RandomWord({9, stream}, i)) * 0x1p-31f - 1;
}

// A rank's place among threads that are ranks; alone by default.
struct Place {
  // What crosses between chunks, and where ranks meet.
  std::shared_ptr<ThreadGroup> chunks, meetings;
  int rank = 0;
  int world_size = 1;

  static Place First(int world_size) {
    return {.chunks = ThreadGroup::Create(world_size),
            .meetings = ThreadGroup::Create(world_size),
            .rank = 0,
            .world_size = world_size};
  }
  Place Of(int other) const {
    Place place = *this;
    place.rank = other;
    return place;
  }
  void Join(ClientOptions* options) const {
    if (world_size == 1) return;
    const CommunicatorOptions limit = {.time_limit_ns = 60'000'000'000};
    options->ranks = {
        .rank = rank,
        .world_size = world_size,
        .join = [chunks = chunks, rank = rank, limit](Device* device) {
          return MakeThreadRank(chunks, rank, device, limit);
        }};
    options->join_meetings = [meetings = meetings, rank = rank, limit] {
      return std::make_unique<RankGroup>(meetings->NewTransport(rank), limit);
    };
  }
  void Kill() const {
    meetings->Kill(rank);
    chunks->Kill(rank);
  }
};

// One operator: y[i] = x[i] w[i modulo the elements of w].
struct Layer {
  int64_t parameter = 0;
  int64_t claim = 0;       // bytes that it keeps until its backward
  int64_t temporary = 0;   // bytes that it takes for itself
  bool in_parts = false;   // its gradient is handed in as two halves
  bool read_late = false;  // its values are read once more at backward's end
  bool optional = false;   // steps with an odd number leave it out
  int64_t growth = 0;      // bytes that it takes more in each step
};

struct Model {
  std::vector<ClientParameter> parameters;
  std::vector<Layer> layers;
  int64_t micro_batches = 1;
  // Whether the name of a step's first use tells steps of different operators
  // apart. If it does not, they are recorded each time.
  bool tells = true;
};

inline Model RandomModel(std::mt19937& random) {
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  Model model;
  const int64_t parameters = 1 + below(6);
  for (int64_t i = 0; i < parameters; ++i) {
    model.parameters.push_back({.name = absl::StrCat("w", i),
                                .elements = 1 + below(below(3) == 0 ? 900 : 90),
                                .trainable = i == 0 || below(5) > 0});
  }
  const int64_t layers = 1 + below(8);
  const bool grows = below(4) == 0;
  for (int64_t i = 0; i < layers; ++i) {
    // Some are used twice, some never.
    model.layers.push_back({.parameter = i == 0 ? 0 : below(parameters),
                            .claim = below(3000),
                            .temporary = below(2) * below(9000),
                            .in_parts = below(4) == 0,
                            .read_late = below(4) == 0,
                            .optional = i > 0 && below(6) == 0,
                            .growth = grows ? below(1500) : 0});
  }
  model.micro_batches = 1 + below(3);
  model.tells = below(4) > 0;
  return model;
}

// The client: what it computes, and what it says of it.
class Client {
 public:
  Client(const Model& model, ClientRun* run, int rank = 0, int world_size = 1)
      : model_(model), run_(run), rank_(rank), world_size_(world_size) {
    for (const auto& parameter : model.parameters) {
      hand_outs_.emplace_back(parameter.elements);
    }
  }

  // Bytes that it takes for itself in each use of this step from now on.
  void TakeMore(int64_t bytes) { more_ = bytes; }

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

  // Gives the loss. `fail_at`: the use at which the client gives up.
  absl::StatusOr<float> Step(int64_t step, int64_t fail_at = -1) {
    CASTOR_RETURN_IF_ERROR(run_->Begin(/*training=*/true));
    uses_left_ = fail_at;
    float loss = 0;
    const absl::Status done = [&]() -> absl::Status {
      for (int64_t m = 0; m < model_.micro_batches; ++m) {
        CASTOR_RETURN_IF_ERROR(MicroBatch(step, m, &loss));
      }
      return run_->Step();
    }();
    run_->Release(claimed_);
    claimed_ = 0;
    if (done.ok()) return loss;
    CASTOR_RETURN_IF_ERROR(run_->Abort());
    return done;
  }

  absl::StatusOr<float> Evaluate(int64_t step) {
    CASTOR_RETURN_IF_ERROR(run_->Begin(/*training=*/false));
    uses_left_ = -1;
    std::vector<float> x = Input(step, 0);
    const absl::Status done = [&]() -> absl::Status {
      CASTOR_RETURN_IF_ERROR(Use("evaluate", Phase::kForward, {}).status());
      for (size_t i = 0; i < model_.layers.size(); ++i) {
        CASTOR_ASSIGN_OR_RETURN(const float* const w,
                                Use(absl::StrCat("layer ", i), Phase::kForward,
                                    {model_.layers[i].parameter}));
        for (int64_t e = 0; e < kWidth; ++e) x[e] *= At(i, w, e);
      }
      return run_->EndEvaluation();
    }();
    if (!done.ok()) {
      CASTOR_RETURN_IF_ERROR(run_->Abort());
      return done;
    }
    float loss = 0;
    for (const float y : x) loss += y * y / 2;
    return loss;
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

  static std::vector<float> Input(int64_t step, int64_t micro_batch) {
    std::vector<float> x;
    for (int64_t e = 0; e < kWidth; ++e) {
      x.push_back(Value(1000 + 10 * step + micro_batch, e));
    }
    return x;
  }

 private:
  float At(size_t layer, const float* w, int64_t e) const {
    return w[e % model_.parameters[model_.layers[layer].parameter].elements];
  }
  absl::StatusOr<const float*> Use(const std::string& name, Phase phase,
                                   std::vector<int64_t> parameters) {
    if (uses_left_ == 0) return absl::CancelledError("the client gives up");
    --uses_left_;
    std::vector<ParamId> ids;
    for (const int64_t id : parameters) ids.push_back(ParamId(id));
    std::vector<void*> addresses(ids.size());
    CASTOR_RETURN_IF_ERROR(
        run_->Use(run_->Label(name), phase, ids, addresses.data()));
    return addresses.empty() ? nullptr : static_cast<float*>(addresses[0]);
  }
  absl::Status Claim(int64_t bytes) {
    CASTOR_RETURN_IF_ERROR(run_->Claim(bytes));
    claimed_ += bytes;
    return absl::OkStatus();
  }
  void Release(int64_t bytes) {
    run_->Release(bytes);
    claimed_ -= bytes;
  }
  // `gradient` is what came new; the client keeps the sum where it has to.
  absl::Status HandIn(int64_t parameter, const std::vector<float>& gradient) {
    std::vector<float>& sum = hand_outs_[parameter];
    for (size_t e = 0; e < sum.size(); ++e) sum[e] += gradient[e];
    kept_[parameter] = true;
    CASTOR_ASSIGN_OR_RETURN(
        const bool taken,
        run_->HandInGradient(ParamId(parameter), sum.data(), /*last=*/false));
    if (taken) Taken(parameter);
    return absl::OkStatus();
  }
  void Taken(int64_t parameter) {
    std::fill(hand_outs_[parameter].begin(), hand_outs_[parameter].end(), 0.0f);
    kept_[parameter] = false;
  }

  absl::Status MicroBatch(int64_t step, int64_t m, float* loss) {
    kept_.assign(model_.parameters.size(), false);
    for (size_t p = 0; p < model_.parameters.size(); ++p) Taken(p);
    CASTOR_RETURN_IF_ERROR(
        Use(model_.tells ? absl::StrCat("inputs ", step % 2) : "inputs",
            Phase::kForward, {})
            .status());
    std::vector<size_t> order;
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      if (!model_.layers[i].optional || step % 2 == 0) order.push_back(i);
    }
    std::vector<std::vector<float>> inputs;
    std::vector<float> x = Input(step, m * world_size_ + rank_);
    for (const size_t i : order) {
      const Layer& layer = model_.layers[i];
      CASTOR_ASSIGN_OR_RETURN(
          const float* const w,
          Use(absl::StrCat("layer ", i), Phase::kForward, {layer.parameter}));
      CASTOR_RETURN_IF_ERROR(
          Claim(layer.claim + layer.temporary + step * layer.growth + more_));
      inputs.push_back(x);
      for (int64_t e = 0; e < kWidth; ++e) x[e] *= At(i, w, e);
      Release(layer.temporary + step * layer.growth + more_);
    }
    for (const float y : x) *loss += y * y / 2;
    std::vector<float> dy = x;
    for (size_t k = order.size(); k-- > 0;) {
      const size_t i = order[k];
      const Layer& layer = model_.layers[i];
      const ClientParameter& parameter = model_.parameters[layer.parameter];
      CASTOR_ASSIGN_OR_RETURN(
          const float* const w,
          Use(absl::StrCat("layer ", i), Phase::kBackward, {layer.parameter}));
      CASTOR_RETURN_IF_ERROR(
          Claim(layer.temporary + step * layer.growth + more_));
      std::vector<float> first(parameter.elements), rest(parameter.elements);
      for (int64_t e = 0; e < kWidth; ++e) {
        (layer.in_parts && e % 2 == 1 ? rest : first)[e % parameter.elements] +=
            dy[e] * inputs[k][e];
        dy[e] *= At(i, w, e);
      }
      Release(layer.temporary + layer.claim + step * layer.growth + more_);
      if (!parameter.trainable) continue;
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
      for (int64_t e = 0; e < kWidth; ++e) {
        if (!(std::abs(At(i, w, e)) < 10)) {
          return absl::InternalError("a parameter's place holds another value");
        }
      }
    }
    for (size_t p = 0; p < kept_.size(); ++p) {
      if (!kept_[p]) continue;
      CASTOR_ASSIGN_OR_RETURN(
          const bool taken,
          run_->HandInGradient(ParamId(p), hand_outs_[p].data(), true));
      EXPECT_TRUE(taken);
    }
    return run_->EndBackward();
  }

  const Model& model_;
  ClientRun* const run_;
  const int rank_, world_size_;
  int64_t more_ = 0;
  std::vector<std::vector<float>> hand_outs_;  // gradients not taken yet
  std::vector<bool> kept_;
  int64_t claimed_ = 0;
  int64_t uses_left_ = -1;
};

}  // namespace castor::test_client

#endif  // CASTOR_RUNTIME_CLIENT_TEST_CLIENT_H_
