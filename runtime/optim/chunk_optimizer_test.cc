#include "runtime/optim/chunk_optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/philox.h"
#include "device/host/host_device.h"
#include "runtime/optim/adam/adam.h"
#include "runtime/optim/lamb/lamb.h"

namespace castor {
namespace {

constexpr int kSteps = 3;
constexpr double kLearningRate = 0.01;

// Parameters of 100, 64 and 130 elements in chunks of 256 (the first two) and
// 192 elements, fp32; the second decays.
struct Case {
  std::vector<Side> sides = {Side::kHost, Side::kHost};
  int64_t micro_batches = 1;
  double clipping = 0;
  bool decoupled = true;
  bool bias_correction = true;
  int64_t chunk_bytes = 1024;
  double loss_scale = 0;  // 0: not scaled
  bool lamb = false;
  double max_coeff = 10;
  // The device adds up the micro batches of chunks on the host's side.
  bool device_sums = false;
  // Chunks on the host's side with these numbers, modulo 2, have banks, and are
  // updated ahead of the norm.
  std::vector<int64_t> ahead = {};
};

std::shared_ptr<const Optimizer> RuleOf(const Case& c) {
  if (c.lamb) {
    return std::make_shared<Lamb>(
        LambOptions{.betas = {0.8, 0.9},
                    .eps = 1e-6,
                    .bias_correction = c.bias_correction,
                    .max_coeff = c.max_coeff});
  }
  return std::make_shared<Adam>(
      AdamOptions{.betas = {0.8, 0.9},
                  .eps = 1e-6,
                  .adam_w_mode = c.decoupled,
                  .bias_correction = c.bias_correction});
}

// Added to the gradients of the model's elements [begin, end).
struct Poison {
  float value = 0;
  int64_t begin = 0;
  int64_t end = 294;
};

class Rig {
  struct Parameter {
    ChunkId chunk;
    int64_t offset = 0;
    int64_t elements = 0;
  };

 public:
  explicit Rig(const Case& c) : case_(c) {
    std::vector<LayoutParameter> list;
    for (int64_t elements : {100, 64, 130}) {
      list.push_back(
          {.name = std::string(1, "abc"[list.size()]), .elements = elements});
    }
    OptimizerOptions options;
    options.rule = RuleOf(c);
    layout_ = *MakeChunkLayout(
        list, {.chunk_bytes = c.chunk_bytes, .states = options.rule->states()});
    for (const LayoutParameter& parameter : layout_.parameters) {
      parameters_.push_back({.chunk = layout_.place(parameter.id).chunk,
                             .offset = layout_.place(parameter.id).offset,
                             .elements = parameter.elements});
    }
    device_ = *HostDevice::Create({.memory_bytes = 1 << 16});
    host_ = *HostMemory::Create({.budget_bytes = 1 << 20});
    arena_ = *Arena::Create(device_.get(), {.scribble_freed = true});
    std::vector<Side> sides = c.sides;
    sides.resize(layout_.num_chunks(), sides[0]);
    store_ = *ChunkStore::Create(device_.get(), arena_.get(), host_.get(),
                                 &layout_, c.micro_batches > 1, sides);
    options.gradient_clipping = c.clipping;
    options.micro_batches = c.micro_batches;
    options.weight_decay = {0, 0.1, 0};
    options.scaled = c.loss_scale > 0;
    optimizer_ = *ChunkOptimizer::Create(device_.get(), arena_.get(),
                                         host_.get(), store_.get(), options);
    for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
      EXPECT_TRUE(store_
                      ->Fill(ChunkId(i),
                             [&](std::byte* home, const StateView& view) {
                               float* x = reinterpret_cast<float*>(home);
                               std::fill(x, x + view.elements, 0.0f);
                               std::fill(view.master,
                                         view.master + 3 * view.elements, 0.0f);
                               ForEach(
                                   ChunkId(i), [&](int64_t at, int64_t global) {
                                     x[at] = view.master[at] = Initial(global);
                                   });
                               return absl::OkStatus();
                             })
                      .ok());
      if (store_->side(ChunkId(i)) == Side::kDevice) {
        EXPECT_TRUE(store_->Fetch(ChunkId(i), {}).ok());
      } else if (std::find(c.ahead.begin(), c.ahead.end(), i % 2) !=
                 c.ahead.end()) {
        EXPECT_TRUE(store_->MakeBank(ChunkId(i)).ok());
      }
    }
  }
  ~Rig() { device_->Synchronize(device_->NowAll()).IgnoreError(); }

  // Numbers of the model's elements do not depend on the layout.
  static float Random(uint64_t stream, int64_t global) {
    const uint32_t word = RandomWord({11, stream}, global);
    return static_cast<float>(word) * 0x1p-31f - 1;  // [-1, 1]
  }
  static float Initial(int64_t global) { return Random(0, global); }
  static float Gradient(int step, int64_t micro_batch, int64_t global) {
    return Random(100 * step + micro_batch, global);
  }

  absl::Status Step(int step, Poison poison = {}) {
    const absl::Status issued = Issue(step, poison);
    if (!issued.ok()) return issued;
    return device_->Synchronize(device_->NowAll());
  }
  absl::Status Issue(int step, Poison poison = {}) {
    optimizer_->BeginStep({.number = step, .lr = kLearningRate},
                          static_cast<uint16_t>(step),
                          case_.loss_scale > 0 ? case_.loss_scale : 1,
                          /*speculates=*/true);
    for (int64_t m = 0; m < case_.micro_batches; ++m) {
      for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
        const auto status = SumsOnDevice(ChunkId(i))
                                ? AddOnDevice(ChunkId(i), step, m, poison)
                                : AddUp(ChunkId(i), step, m, poison);
        if (!status.ok()) return status;
        if (m + 1 < case_.micro_batches) continue;
        const auto ahead = optimizer_->Speculate(ChunkId(i), Moment(0));
        if (!ahead.ok()) return ahead;
        if (store_->uncommitted(ChunkId(i))) ExpectClosed(ChunkId(i));
      }
    }
    for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
      auto status = optimizer_->Update(ChunkId(i), Moment(0));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Gives the values of the whole model, in the order of parameters.
  std::vector<float> Values(StatePart part) {
    std::vector<float> all;
    for (const Parameter& parameter : parameters_) {
      std::vector<float> values(parameter.elements);
      EXPECT_TRUE(store_
                      ->ReadState(parameter.chunk, part, parameter.offset,
                                  parameter.offset + values.size(),
                                  values.data())
                      .ok());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  std::vector<float> Payload() {
    std::vector<float> all;
    for (const Parameter& parameter : parameters_) {
      if (store_->resident(parameter.chunk)) {
        EXPECT_TRUE(store_->CopyBack(parameter.chunk, {}).ok());
      }
      std::vector<float> values(parameter.elements);
      EXPECT_TRUE(store_
                      ->ReadHome(parameter.chunk, parameter.offset,
                                 parameter.offset + values.size(),
                                 values.data())
                      .ok());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  double norm() const { return optimizer_->outcome().norm; }
  ChunkOptimizer& optimizer() { return *optimizer_; }
  ChunkStore& store() { return *store_; }
  Device& device() { return *device_; }

 private:
  template <typename F>
  void ForEach(ChunkId chunk, F f) const {
    int64_t global = 0;
    for (const Parameter& parameter : parameters_) {
      for (int64_t i = 0; i < parameter.elements; ++i, ++global) {
        if (parameter.chunk == chunk) f(parameter.offset + i, global);
      }
    }
  }
  // Nothing sees what is not committed.
  void ExpectClosed(ChunkId chunk) {
    std::vector<float> values(64);
    const int64_t size = static_cast<int64_t>(values.size());
    for (const absl::Status& status :
         {store_->Fetch(chunk, {}), store_->DropBank(chunk),
          store_->MoveOptimizer(chunk, Side::kDevice),
          store_->ReadHome(chunk, 0, size, values.data()),
          store_->ReadState(chunk, StatePart::kMaster, 0, size, values.data()),
          store_->CheckConsistency(), optimizer_->Speculate(chunk, Moment(0)),
          store_->RunOnHost(
              chunk, {}, [](std::byte*, const StateView&, const ExecContext&) {
                return absl::OkStatus();
              })}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_NE(status.message().find("not committed"), std::string::npos)
          << status;
    }
  }
  bool SumsOnDevice(ChunkId chunk) const {
    return case_.device_sums && case_.micro_batches > 1 &&
           store_->side(chunk) == Side::kHost;
  }
  absl::Status AddUp(ChunkId chunk, int step, int64_t micro_batch,
                     Poison poison) {
    WriteGradients(chunk, step, micro_batch, poison);
    return optimizer_->Reduce(chunk, micro_batch, Moment(0));
  }
  // What a plan with a sum on the device does (memory/plan/plan.h).
  absl::Status AddOnDevice(ChunkId chunk, int step, int64_t micro_batch,
                           Poison poison) {
    const bool first = micro_batch == 0;
    const bool last = micro_batch + 1 == case_.micro_batches;
    absl::Status status;
    if (first) status.Update(store_->Fetch(chunk, {}));
    if (!last) status.Update(store_->MakeGradients(chunk));
    WriteGradients(chunk, step, micro_batch, poison);
    if (first) status.Update(store_->MakeSum(chunk));
    status.Update(optimizer_->Reduce(chunk, micro_batch, Moment(0)));
    if (!last) {
      status.Update(store_->DropGradients(chunk));
      return status;
    }
    status.Update(store_->Drop(chunk));
    status.Update(store_->SendSum(chunk, {}));
    status.Update(store_->DropSum(chunk));
    return status;
  }
  void WriteGradients(ChunkId chunk, int step, int64_t micro_batch,
                      Poison poison) {
    const float scale =
        case_.loss_scale > 0 ? static_cast<float>(case_.loss_scale) : 1;
    auto write = [=, this](float* payload) {
      ForEach(chunk, [&](int64_t at, int64_t global) {
        payload[at] = Gradient(step, micro_batch, global) * scale;
        if (global >= poison.begin && global < poison.end) {
          payload[at] += poison.value;
        }
      });
      return absl::OkStatus();
    };
    if (store_->side(chunk) == Side::kHost && !SumsOnDevice(chunk)) {
      EXPECT_TRUE(store_
                      ->RunOnHost(chunk, {},
                                  [write](std::byte* home, const StateView&,
                                          const ExecContext&) {
                                    return write(
                                        reinterpret_cast<float*>(home));
                                  })
                      .ok());
      return;
    }
    device_->Wait(StreamId::kCompute, store_->WaitToUsePayload(chunk, true), 0);
    float* const payload = reinterpret_cast<float*>(store_->gradients(chunk));
    store_->NotePayloadUse(
        chunk,
        device_->Enqueue(
            StreamId::kCompute, 0,
            [write, payload](const ExecContext&) { return write(payload); }),
        /*writes=*/true);
  }

  const Case case_;
  std::vector<Parameter> parameters_;
  ChunkLayout layout_;
  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<HostMemory> host_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ChunkStore> store_;
  std::unique_ptr<ChunkOptimizer> optimizer_;
};

// Adam and LAMB in double, from the formulas of kernels/adam/adam.h and
// kernels/lamb/lamb.h.
struct Oracle {
  explicit Oracle(const Case& c) : c(c), x(294), m(294), v(294) {
    for (int64_t i = 0; i < 294; ++i) x[i] = Rig::Initial(i);
  }
  void Step(int step) {
    std::vector<double> g(294);
    double squares = 0;
    for (int64_t i = 0; i < 294; ++i) {
      for (int64_t k = 0; k < c.micro_batches; ++k) {
        g[i] += Rig::Gradient(step, k, i);
      }
      squares += g[i] * g[i];
    }
    norm = std::sqrt(squares);
    const double scale =
        c.clipping > 0 ? std::min(1.0, c.clipping / (norm + 1e-6)) : 1.0;
    const double correction1 = c.bias_correction ? 1 - std::pow(0.8, step) : 1;
    const double correction2 = c.bias_correction ? 1 - std::pow(0.9, step) : 1;
    const int64_t bounds[] = {0, 100, 164, 294};  // of the parameters
    for (int p = 0; p < 3; ++p) {
      const double decay = p == 1 ? 0.1 : 0;
      std::vector<double> u(294);
      double x2 = 0, u2 = 0;
      for (int64_t i = bounds[p]; i < bounds[p + 1]; ++i) {
        double gradient = g[i] * scale;
        if (!c.lamb && c.decoupled) {
          x[i] *= 1 - kLearningRate * decay;
        } else if (!c.lamb) {
          gradient += decay * x[i];
        }
        m[i] = 0.8 * m[i] + 0.2 * gradient;
        v[i] = 0.9 * v[i] + 0.1 * gradient * gradient;
        u[i] = m[i] / correction1 / (std::sqrt(v[i] / correction2) + 1e-6);
        if (c.lamb) u[i] += decay * x[i];
        x2 += x[i] * x[i];
        u2 += u[i] * u[i];
      }
      const double ratio =
          c.lamb ? std::clamp(std::sqrt(x2 / u2), 0.01, c.max_coeff) : 1;
      for (int64_t i = bounds[p]; i < bounds[p + 1]; ++i) {
        x[i] -= kLearningRate * ratio * u[i];
      }
    }
  }
  const Case c;
  std::vector<double> x, m, v;
  double norm = 0;
};

void ExpectNear(const std::vector<float>& ours,
                const std::vector<double>& theirs, const char* what) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    // Values are of order 1; a step makes some ten roundings of 2^-24.
    EXPECT_NEAR(ours[i], theirs[i], kSteps * 10 * 0x1p-24) << what << i;
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int64_t micro_batches : {1, 3}) {
    for (double clipping : {0.0, 0.5, 1e6}) {
      for (bool decoupled : {true, false}) {
        cases.push_back({.micro_batches = micro_batches,
                         .clipping = clipping,
                         .decoupled = decoupled});
      }
      cases.push_back({.micro_batches = micro_batches,
                       .clipping = clipping,
                       .bias_correction = false});
      for (double max_coeff : {10.0, 0.3}) {
        cases.push_back({.micro_batches = micro_batches,
                         .clipping = clipping,
                         .bias_correction = max_coeff > 1,
                         .lamb = true,
                         .max_coeff = max_coeff});
      }
    }
  }
  return cases;
}

TEST(ChunkOptimizer, FollowsTheFormulasInDouble) {
  for (const Case& c : Cases()) {
    Rig rig(c);
    Oracle oracle(c);
    for (int step = 1; step <= kSteps; ++step) {
      ASSERT_TRUE(rig.Step(step).ok());
      oracle.Step(step);
      if (c.clipping > 0) {
        // Sums of micro batches are rounded to fp32 before they are squared.
        EXPECT_NEAR(rig.norm(), oracle.norm, oracle.norm * 0x1p-23);
      } else {
        EXPECT_EQ(rig.norm(), 0);
      }
    }
    ExpectNear(rig.Values(StatePart::kMaster), oracle.x, "master ");
    ExpectNear(rig.Values(Adam::kM), oracle.m, "m ");
    ExpectNear(rig.Values(Adam::kV), oracle.v, "v ");
    EXPECT_EQ(rig.Payload(), rig.Values(StatePart::kMaster));
  }
}

TEST(ChunkOptimizer, SideAndChunkSizeDoNotChangeABit) {
  const Side kH = Side::kHost, kD = Side::kDevice;
  for (Case c : Cases()) {
    Rig reference(c);
    std::vector<double> norms;
    for (int step = 1; step <= kSteps; ++step) {
      ASSERT_TRUE(reference.Step(step).ok());
      norms.push_back(reference.norm());
    }
    for (int64_t chunk_bytes : {256, 1024, 4096}) {
      for (const std::vector<Side>& sides :
           {std::vector<Side>{kH}, {kD}, {kH, kD}, {kD, kH}}) {
        c.chunk_bytes = chunk_bytes;
        c.sides = sides;
        if (chunk_bytes == 4096 && sides.size() > 1) continue;  // one chunk
        for (const bool device_sums : {false, true}) {
          if (device_sums && c.micro_batches == 1) continue;
          c.device_sums = device_sums;
          Rig rig(c);
          for (int step = 1; step <= kSteps; ++step) {
            ASSERT_TRUE(rig.Step(step).ok());
            EXPECT_EQ(rig.norm(), norms[step - 1]);
          }
          for (StatePart part : {StatePart::kMaster, Adam::kM, Adam::kV}) {
            EXPECT_EQ(rig.Values(part), reference.Values(part));
          }
          EXPECT_EQ(rig.Payload(), reference.Payload());
        }
      }
    }
  }
}

// An update ahead of the norm is one that came after it, whatever the norm
// says, and wherever the others are.
TEST(ChunkOptimizer, UpdatesAheadChangeNoBit) {
  const Side kH = Side::kHost, kD = Side::kDevice;
  const float inf = std::numeric_limits<float>::infinity();
  int64_t committed = 0, repeated = 0;
  for (Case c : Cases()) {
    for (const double loss_scale : {0.0, 8.0}) {
      c.loss_scale = loss_scale;
      c.sides = {kH, kH};
      c.ahead.clear();
      const Poison kPoisons[] = {
          {}, {.value = loss_scale > 0 ? inf : 0, .begin = 70, .end = 110}, {}};
      Rig reference(c);
      std::vector<double> norms;
      for (int step = 1; step <= kSteps; ++step) {
        ASSERT_TRUE(reference.Step(step, kPoisons[step - 1]).ok());
        norms.push_back(reference.norm());
      }
      EXPECT_EQ(reference.optimizer().speculation(), SpeculationCounts());
      for (const std::vector<Side>& sides :
           {std::vector<Side>{kH, kH}, {kH, kD}, {kD, kH}}) {
        for (const std::vector<int64_t>& ahead :
             {std::vector<int64_t>{0, 1}, {0}, {1}}) {
          for (const bool device_sums : {false, true}) {
            if (device_sums && c.micro_batches == 1) continue;
            c.sides = sides;
            c.ahead = ahead;
            c.device_sums = device_sums;
            Rig rig(c);
            for (int step = 1; step <= kSteps; ++step) {
              const absl::Status status = rig.Step(step, kPoisons[step - 1]);
              ASSERT_TRUE(status.ok()) << status;
              EXPECT_EQ(rig.norm(), norms[step - 1]);
              EXPECT_TRUE(rig.store().CheckConsistency().ok());
            }
            for (StatePart part : {StatePart::kMaster, Adam::kM, Adam::kV}) {
              EXPECT_EQ(rig.Values(part), reference.Values(part));
            }
            EXPECT_EQ(rig.Payload(), reference.Payload());
            const SpeculationCounts counts = rig.optimizer().speculation();
            committed += counts.committed;
            repeated += counts.repeated;
            // LAMB measures first, and without a norm all go on at once.
            if (c.lamb || (c.clipping == 0 && loss_scale == 0)) {
              EXPECT_EQ(counts, SpeculationCounts());
              continue;
            }
            int64_t updates = 0;
            for (const int64_t i : ahead) updates += sides[i] == kH;
            EXPECT_EQ(counts.committed + counts.repeated, kSteps * updates);
          }
        }
      }
    }
  }
  EXPECT_GT(committed, 0);
  EXPECT_GT(repeated, 0);
}

// It is told of the step before, whose work is over when the next is issued.
TEST(ChunkOptimizer, TellsWhetherAStepWasClippedOrSkipped) {
  const float inf = std::numeric_limits<float>::infinity();
  Rig rig({.clipping = 1e6, .loss_scale = 8, .ahead = {0}});
  ASSERT_TRUE(rig.Step(1, {.value = inf}).ok());
  EXPECT_FALSE(rig.optimizer().missed_before());
  ASSERT_TRUE(rig.Step(2).ok());
  EXPECT_TRUE(rig.optimizer().missed_before());  // skipped
  ASSERT_TRUE(rig.Step(3, {.value = 1e7}).ok());
  EXPECT_FALSE(rig.optimizer().missed_before());
  ASSERT_TRUE(rig.Step(4).ok());
  EXPECT_TRUE(rig.optimizer().missed_before());  // clipped
  EXPECT_EQ(rig.optimizer().speculation(),
            (SpeculationCounts{.committed = 2, .repeated = 2}));
}

// States are where the last commit left them; the bank may go at any time
// between two steps, and so may the states.
TEST(ChunkOptimizer, BanksComeAndGoBetweenSteps) {
  Case c = {.clipping = 0.5};
  for (const int64_t micro_batches : {1, 3}) {
    c.micro_batches = micro_batches;
    Rig reference(c);
    Rig rig(c);
    for (int step = 1; step <= 8; ++step) {
      ASSERT_TRUE(reference.Step(step).ok());
      ASSERT_TRUE(rig.Step(step).ok());
      for (const ChunkId id : {ChunkId(0), ChunkId(1)}) {
        if ((step + id.value) % 3 == 0) {
          ASSERT_TRUE(rig.store().DropBank(id).ok());
          EXPECT_FALSE(rig.store().has_bank(id));
        } else if (step == 7 && id == ChunkId(1)) {
          ASSERT_TRUE(rig.store().has_bank(id));
          ASSERT_TRUE(rig.store().MoveOptimizer(id, Side::kDevice).ok());
          EXPECT_FALSE(rig.store().has_bank(id));
          EXPECT_TRUE(absl::IsFailedPrecondition(rig.store().MakeBank(id)));
          ASSERT_TRUE(rig.store().MoveOptimizer(id, Side::kHost).ok());
        } else {
          ASSERT_TRUE(rig.store().MakeBank(id).ok());
        }
      }
      for (StatePart part : {StatePart::kMaster, Adam::kM, Adam::kV}) {
        EXPECT_EQ(rig.Values(part), reference.Values(part)) << step;
      }
      EXPECT_EQ(rig.Payload(), reference.Payload());
    }
    EXPECT_GT(rig.optimizer().speculation().repeated, 0);
  }
}

TEST(ChunkOptimizer, NormThatIsNotFiniteStopsTheStepAndNamesIt) {
  for (const auto& [side, device_sums] : {std::pair(Side::kHost, false),
                                          {Side::kDevice, false},
                                          {Side::kHost, true}}) {
    Rig rig({.sides = {side, side},
             .micro_batches = device_sums ? 3 : 1,
             .clipping = 1,
             .device_sums = device_sums});
    ASSERT_TRUE(rig.Step(1).ok());
    const absl::Status status =
        rig.Step(2, {.value = std::numeric_limits<float>::infinity(),
                     .begin = 0,
                     .end = 164});
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find("at step 2 is not finite (\"b\")"),
              std::string::npos)
        << status;
  }
}

TEST(ChunkOptimizer, UpdatesOnTheHostWhileTheScaleWaitsForTheBus) {
  Rig rig({.sides = {Side::kHost, Side::kDevice}, .clipping = 0.5});
  absl::Notification host_is_done;
  bool in_time = false;
  rig.device().Enqueue(
      StreamId::kHostToDevice, 0, [&](const ExecContext&) -> absl::Status {
        in_time =
            host_is_done.WaitForNotificationWithTimeout(absl::Seconds(20));
        return absl::OkStatus();
      });
  ASSERT_TRUE(rig.Issue(1).ok());
  EXPECT_TRUE(
      rig.device().Synchronize(rig.device().Now(StreamId::kHostCompute)).ok());
  host_is_done.Notify();
  ASSERT_TRUE(rig.device().Synchronize(rig.device().NowAll()).ok());
  EXPECT_TRUE(in_time);
}

TEST(ChunkOptimizer, ALossScaleThatIsAPowerOfTwoChangesNoBit) {
  for (Case c : Cases()) {
    Rig plain(c);
    c.loss_scale = 1024;
    Rig scaled(c);
    for (int step = 1; step <= kSteps; ++step) {
      ASSERT_TRUE(plain.Step(step).ok());
      ASSERT_TRUE(scaled.Step(step).ok());
      if (c.clipping > 0) {
        EXPECT_EQ(scaled.norm(), plain.norm());
      }
      EXPECT_GT(scaled.norm(), 0);
    }
    for (StatePart part : {StatePart::kMaster, Adam::kM, Adam::kV}) {
      EXPECT_EQ(scaled.Values(part), plain.Values(part));
    }
    EXPECT_EQ(scaled.Payload(), plain.Payload());
  }
}

TEST(ChunkOptimizer, AStepWithAnOverflowChangesNothingAndNamesIt) {
  const Side kH = Side::kHost, kD = Side::kDevice;
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::vector<Side>& sides :
       {std::vector<Side>{kH, kH}, {kD, kD}, {kH, kD}, {kD, kH}}) {
    for (Case c : Cases()) {
      c.sides = sides;
      c.device_sums = c.lamb;
      c.loss_scale = 8;
      Rig rig(c);
      ASSERT_TRUE(rig.Step(1).ok());
      EXPECT_FALSE(rig.optimizer().outcome().not_finite.has_value());
      const auto master = rig.Values(StatePart::kMaster);
      const auto m = rig.Values(Adam::kM);
      const auto v = rig.Values(Adam::kV);
      const auto payload = rig.Payload();
      const struct {
        Poison poison;
        int64_t parameter;
      } kPoisons[] = {{{inf, 0, 1}, 0},
                      {{-inf, 30, 101}, 1},
                      {{std::nanf(""), 163, 165}, 2},
                      {{inf, 0, 294}, 2}};
      for (const auto& [poison, parameter] : kPoisons) {
        ASSERT_TRUE(rig.Step(2, poison).ok());
        EXPECT_EQ(rig.optimizer().outcome().not_finite, ParamId(parameter));
        EXPECT_EQ(rig.norm(), std::numeric_limits<double>::infinity());
        EXPECT_EQ(rig.Values(StatePart::kMaster), master);
        EXPECT_EQ(rig.Values(Adam::kM), m);
        EXPECT_EQ(rig.Values(Adam::kV), v);
        EXPECT_EQ(rig.Payload(), payload);
      }
      // And leaves no trace in the next step.
      ASSERT_TRUE(rig.Step(2).ok());
      EXPECT_FALSE(rig.optimizer().outcome().not_finite.has_value());
      Rig undisturbed(c);
      ASSERT_TRUE(undisturbed.Step(1).ok());
      ASSERT_TRUE(undisturbed.Step(2).ok());
      EXPECT_EQ(rig.norm(), undisturbed.norm());
      EXPECT_EQ(rig.Values(StatePart::kMaster),
                undisturbed.Values(StatePart::kMaster));
      EXPECT_EQ(rig.Payload(), undisturbed.Payload());
    }
  }
}

TEST(ChunkOptimizer, DeviceSideChunkWhosePayloadIsAwayIsAnErrorThatNamesIt) {
  Rig rig({.sides = {Side::kDevice, Side::kHost}});
  ASSERT_TRUE(rig.store().Drop(ChunkId(0)).ok());
  rig.optimizer().BeginStep({.number = 1, .lr = kLearningRate}, 1);
  const absl::Status status = rig.optimizer().Reduce(ChunkId(0), 0, Moment(0));
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_NE(status.message().find("chunk 0"), std::string::npos);
}

}  // namespace
}  // namespace castor
