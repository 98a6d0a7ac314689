// A model of three parameters whose chunks a ChunkOptimizer updates, and the
// same updates in double: what its tests compare.
#ifndef CASTOR_RUN_OPTIM_CHUNK_OPTIMIZER_RIG_H_
#define CASTOR_RUN_OPTIM_CHUNK_OPTIMIZER_RIG_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "device/host/host_device.h"
#include "run/optim/adafactor/adafactor.h"
#include "run/optim/adam/adam.h"
#include "run/optim/chunk_optimizer.h"
#include "run/optim/lamb/lamb.h"
#include "run/optim/lion/lion.h"
#include "run/optim/sgd/sgd.h"

namespace castor {

constexpr int kSteps = 3;
constexpr double kLearningRate = 0.01;
constexpr double kDampening = 0.3;
constexpr double kUpdateClipping = 0.7;  // Adafactor's

enum class RuleKind : uint8_t { kAdam, kLamb, kLion, kSgd, kAdafactor };

// Parameters of shapes [10, 10], [64] and [13, 10] in chunks of 256 (the first
// two) and 192 elements, fp32; the second decays.
struct Case {
  std::vector<Side> sides = {Side::kHost, Side::kHost};
  int64_t micro_batches = 1;
  double clipping = 0;
  bool decoupled = true;
  bool bias_correction = true;
  int64_t chunk_bytes = 1024;
  double loss_scale = 0;  // 0: not scaled
  RuleKind kind = RuleKind::kAdam;
  double max_coeff = 10;  // LAMB's
  double momentum = 0.9;  // SGD's
  bool nesterov = false;
  // The device adds up the micro batches of chunks on the host's side.
  bool device_sums = false;
  // Chunks on the host's side with these numbers, modulo 2, have banks, and are
  // updated ahead of the norm.
  std::vector<int64_t> ahead = {};
  DeviceObserver* observer = nullptr;
};

inline std::shared_ptr<const Optimizer> RuleOf(const Case& c) {
  switch (c.kind) {
    case RuleKind::kLamb:
      return std::make_shared<Lamb>(
          LambOptions{.betas = {0.8, 0.9},
                      .eps = 1e-6,
                      .bias_correction = c.bias_correction,
                      .max_coeff = c.max_coeff});
    case RuleKind::kLion:
      return std::make_shared<Lion>(LionOptions{.betas = {0.8, 0.9}});
    case RuleKind::kSgd:
      return std::make_shared<Sgd>(
          SgdOptions{.momentum = c.momentum,
                     .dampening = c.nesterov ? 0 : kDampening,
                     .nesterov = c.nesterov});
    case RuleKind::kAdafactor:
      return std::make_shared<Adafactor>(AdafactorOptions{
          .clip_threshold = kUpdateClipping, .relative_step = false});
    case RuleKind::kAdam:
      break;
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
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{10, 10}, {64}, {13, 10}}) {
      const Margins margins = MarginsOf(shape);
      list.push_back({.name = std::string(1, "abc"[list.size()]),
                      .elements = margins.elements(),
                      .margins = margins});
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
    device_ = *HostDevice::Create({.memory_bytes = 1 << 18});
    device_->SetObserver(c.observer);
    host_ = *HostMemory::Create({.budget_bytes = 1 << 20});
    arena_ = *Arena::Create(device_.get(), {.scribble_freed = true});
    std::vector<Side> sides = c.sides;
    sides.resize(layout_.num_chunks(), sides[0]);
    store_ = *ChunkStore::Create(device_.get(), arena_.get(), host_.get(),
                                 &layout_, c.micro_batches > 1, sides);
    options.gradient_clipping = c.clipping;
    options.micro_batches = c.micro_batches;
    options.weight_decay = {0, 0.1, 0};
    options.skips_not_finite = c.loss_scale > 0;
    optimizer_ = *ChunkOptimizer::Create(device_.get(), arena_.get(),
                                         host_.get(), store_.get(), options);
    for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
      EXPECT_TRUE(
          store_
              ->Fill(ChunkId(i),
                     [&](std::byte* home, const StateView& view) {
                       float* x = reinterpret_cast<float*>(home);
                       std::fill(x, x + view.elements, 0.0f);
                       std::fill(view.masters(),
                                 view.masters() +
                                     view.elements * layout_.states.num_parts(),
                                 0.0f);
                       ForEach(ChunkId(i), [&](int64_t at, int64_t global) {
                         x[at] = view.masters()[at] = Initial(global);
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
  // Master, all slots and the values of margins.
  std::vector<std::vector<float>> AllValues() {
    std::vector<std::vector<float>> all;
    for (int i = 0; i < layout_.states.num_parts(); ++i) {
      all.push_back(Values(StatePart(i)));
    }
    if (layout_.states.margins) {
      std::vector<float>& margins = all.emplace_back();
      for (const LayoutParameter& parameter : layout_.parameters) {
        const absl::Span<const float> own = store_->margins(parameter.id);
        margins.insert(margins.end(), own.begin(), own.end());
      }
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
  // Adds as a plan with a sum on the device does (memory/plan/plan.h).
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

// Adam, LAMB, Lion, SGD and Adafactor in double, from the formulas of the
// kernels' headers.
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
    for (double& gradient : g) gradient *= scale;
    const int64_t bounds[] = {0, 100, 164, 294};  // of the parameters
    for (int p = 0; p < 3; ++p) {
      const double decay = p == 1 ? 0.1 : 0;
      if (c.kind == RuleKind::kLion) {
        for (int64_t i = bounds[p]; i < bounds[p + 1]; ++i) {
          StepLion(i, g[i], decay);
        }
      } else if (c.kind == RuleKind::kSgd) {
        for (int64_t i = bounds[p]; i < bounds[p + 1]; ++i) {
          StepSgd(i, g[i], decay, step);
        }
      } else if (c.kind == RuleKind::kAdafactor) {
        StepAdafactor(p, bounds[p], bounds[p + 1], g, decay, step);
      } else {
        StepAdamOrLamb(bounds[p], bounds[p + 1], g, decay, step);
      }
    }
  }
  void StepLion(int64_t i, double g, double decay) {
    const double c = 0.8 * m[i] + 0.2 * g;
    x[i] -= kLearningRate * ((c > 0) - (c < 0) + decay * x[i]);
    m[i] = 0.9 * m[i] + 0.1 * g;
  }
  void StepSgd(int64_t i, double g, double decay, int step) {
    g += decay * x[i];
    if (c.momentum > 0) {
      const double add = step == 1 || c.nesterov ? 1 : 1 - kDampening;
      m[i] = c.momentum * m[i] + add * g;
      g = c.nesterov ? g + c.momentum * m[i] : m[i];
    }
    x[i] -= kLearningRate * g;
  }
  // `m` has the values of margins.
  void StepAdafactor(int p, int64_t begin, int64_t end,
                     const std::vector<double>& g, double decay, int step) {
    const double beta2 = 1 - std::pow(step, -0.8);
    const bool vector = p == 1;
    const int64_t columns = vector ? 1 : 10;
    const int64_t rows = (end - begin) / columns;
    if (p == 0) m.resize(20 + 64 + 23);
    double* const kept = &m[p == 0 ? 0 : p == 1 ? 20 : 84];
    std::vector<double> sums(rows + columns);
    double x2 = 0, u2 = 0, mean = 0;
    for (int64_t i = begin; i < end; ++i) {
      sums[(i - begin) / columns] += g[i] * g[i] / columns;
      sums[rows + (i - begin) % columns] += g[i] * g[i] / rows;
      x2 += x[i] * x[i];
    }
    for (int64_t i = 0; i < rows + (vector ? 0 : columns); ++i) {
      kept[i] = beta2 * kept[i] + (1 - beta2) * (sums[i] + 1e-30);
      if (i < rows) mean += kept[i] / rows;
    }
    std::vector<double> u;
    for (int64_t i = 0; i < end - begin; ++i) {
      const double v =
          kept[i / columns] * (vector ? 1 : kept[rows + i % columns] / mean);
      u.push_back(g[begin + i] / std::sqrt(v));
      u2 += u[i] * u[i];
    }
    const double size = static_cast<double>(end - begin);
    const double lr = kLearningRate * std::max(1e-3, std::sqrt(x2 / size));
    const double over = std::max(1.0, std::sqrt(u2 / size) / kUpdateClipping);
    for (int64_t i = begin; i < end; ++i) {
      x[i] -= lr * (decay * x[i] + u[i - begin] / over);
    }
  }
  void StepAdamOrLamb(int64_t begin, int64_t end, const std::vector<double>& g,
                      double decay, int step) {
    const bool lamb = c.kind == RuleKind::kLamb;
    const double correction1 = c.bias_correction ? 1 - std::pow(0.8, step) : 1;
    const double correction2 = c.bias_correction ? 1 - std::pow(0.9, step) : 1;
    std::vector<double> u(294);
    double x2 = 0, u2 = 0;
    for (int64_t i = begin; i < end; ++i) {
      double gradient = g[i];
      if (!lamb && c.decoupled) {
        x[i] *= 1 - kLearningRate * decay;
      } else if (!lamb) {
        gradient += decay * x[i];
      }
      m[i] = 0.8 * m[i] + 0.2 * gradient;
      v[i] = 0.9 * v[i] + 0.1 * gradient * gradient;
      u[i] = m[i] / correction1 / (std::sqrt(v[i] / correction2) + 1e-6);
      if (lamb) u[i] += decay * x[i];
      x2 += x[i] * x[i];
      u2 += u[i] * u[i];
    }
    const double ratio =
        lamb ? std::clamp(std::sqrt(x2 / u2), 0.01, c.max_coeff) : 1;
    for (int64_t i = begin; i < end; ++i) x[i] -= kLearningRate * ratio * u[i];
  }
  const Case c;
  std::vector<double> x, m, v;
  double norm = 0;
};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_CHUNK_OPTIMIZER_RIG_H_
