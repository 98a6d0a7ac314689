// A training run by a client of the backend that has neither tensors, operators
// nor a tape, as another framework would be. It announces its operators, the
// chunks that they use and the gradients that are finished, and is given
// addresses for the time of an operator. All else is the memory manager's: the
// trace, the plan, the copies, the optimizer.
//
// The model is y = b w a x with two square matrices, a and b, and a diagonal
// one between them, w; the loss is half the sum of squares of y - t.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "device/host/host_device.h"
#include "gtest/gtest.h"
#include "memory/exec/host_memory.h"
#include "memory/plan/planner/planner.h"
#include "run/optim/optimizers.h"
#include "runtime/backend/device_backend.h"
#include "runtime/backend/dry_backend.h"

namespace castor {
namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kBatch = 8;
constexpr int64_t kSteps = 10;
constexpr double kRate = 0.02;

float Random(uint64_t stream, int64_t i) {
  return static_cast<float>(RandomWord({3, stream}, i)) * 0x1p-31f - 1;
}

// y = x m^T, row by row; x is [rows, width], m is [width, width].
template <typename Real>
void Multiply(const Real* x, const Real* m, Real* y) {
  for (int64_t r = 0; r < kBatch; ++r) {
    for (int64_t i = 0; i < kWidth; ++i) {
      Real sum = 0;
      for (int64_t j = 0; j < kWidth; ++j) {
        sum += x[r * kWidth + j] * m[i * kWidth + j];
      }
      y[r * kWidth + i] = sum;
    }
  }
}

// With the gradient dy of y: dx, unless it is null, and then dm, in the place
// of m.
template <typename Real>
void MultiplyBackward(const Real* x, const Real* dy, Real* m, Real* dx) {
  for (int64_t r = 0; r < kBatch && dx != nullptr; ++r) {
    for (int64_t j = 0; j < kWidth; ++j) {
      Real sum = 0;
      for (int64_t i = 0; i < kWidth; ++i) {
        sum += dy[r * kWidth + i] * m[i * kWidth + j];
      }
      dx[r * kWidth + j] = sum;
    }
  }
  for (int64_t i = 0; i < kWidth; ++i) {
    for (int64_t j = 0; j < kWidth; ++j) {
      Real sum = 0;
      for (int64_t r = 0; r < kBatch; ++r) {
        sum += dy[r * kWidth + i] * x[r * kWidth + j];
      }
      m[i * kWidth + j] = sum;
    }
  }
}

template <typename Real>
void Scale(const Real* x, const Real* w, Real* y) {
  for (int64_t r = 0; r < kBatch; ++r) {
    for (int64_t i = 0; i < kWidth; ++i) {
      y[r * kWidth + i] = x[r * kWidth + i] * w[i];
    }
  }
}

template <typename Real>
void ScaleBackward(const Real* x, const Real* dy, Real* w, Real* dx) {
  Scale(dy, w, dx);
  for (int64_t i = 0; i < kWidth; ++i) {
    Real sum = 0;
    for (int64_t r = 0; r < kBatch; ++r) {
      sum += dy[r * kWidth + i] * x[r * kWidth + i];
    }
    w[i] = sum;
  }
}

// Half the sum of squares of y - t; y becomes y - t.
template <typename Real>
Real Loss(Real* y, const float* t) {
  Real sum = 0;
  for (int64_t i = 0; i < kBatch * kWidth; ++i) {
    y[i] -= t[i];
    sum += y[i] * y[i] / 2;
  }
  return sum;
}

struct Data {
  std::vector<int32_t> x;  // the bits of fp32
  std::vector<float> t;
};
Data DataOf(int64_t step) {
  Data data;
  for (int64_t i = 0; i < kBatch * kWidth; ++i) {
    const float x = Random(100 + step, i);
    data.x.push_back(0);
    std::memcpy(&data.x.back(), &x, sizeof(x));
    data.t.push_back(x / 2);
  }
  return data;
}

// Parameters a, w, b, each in a chunk of its own.
constexpr int64_t kElements[] = {kWidth * kWidth, kWidth, kWidth* kWidth};
float Initial(int64_t parameter, int64_t i) {
  return parameter == 1 ? 1 + Random(1, i) / 4 : Random(parameter, i) / 4;
}

// Issues the client's calls of one step to either backend. `loss` gets the
// storage of the loss.
class Client {
 public:
  explicit Client(Backend* backend) : backend_(backend) {}

  absl::Status Step(const Data& data, int64_t* loss) {
    const int64_t bytes = kBatch * kWidth * sizeof(float);
    CASTOR_ASSIGN_OR_RETURN(const int64_t x, backend_->Upload("x", data.x));
    CASTOR_ASSIGN_OR_RETURN(const int64_t u,
                            Forward("a/forward", x, 0, bytes, Multiply<float>));
    CASTOR_ASSIGN_OR_RETURN(const int64_t v,
                            Forward("w/forward", u, 1, bytes, Scale<float>));
    CASTOR_ASSIGN_OR_RETURN(const int64_t y,
                            Forward("b/forward", v, 2, bytes, Multiply<float>));
    BackendOp op;
    op.name = "loss";
    op.operands = {{.storage_id = y, .writes = true}};
    op.outputs = {{.bytes = sizeof(float)}};
    op.kernel = [t = data.t](const Pointers& p, const ExecContext&) {
      *p.as<float>(Pointers::kOutputBase) = Loss(p.as<float>(0), t.data());
      return absl::OkStatus();
    };
    CASTOR_ASSIGN_OR_RETURN(const auto losses, backend_->Run(std::move(op)));
    *loss = losses[0];
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t dv,
        Backward("b/backward", v, y, 2, bytes, MultiplyBackward<float>));
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t du,
        Backward("w/backward", u, dv, 1, bytes, ScaleBackward<float>));
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t dx,
        Backward("a/backward", x, du, 0, 0, MultiplyBackward<float>));
    CASTOR_CHECK(dx == -1);
    backend_->Release(x);
    for (int64_t i = 0; i < 3; ++i) {
      CASTOR_RETURN_IF_ERROR(backend_->Update(
          {.chunk = ChunkId(i), .name = absl::StrCat("update/", i)}));
    }
    return absl::OkStatus();
  }

 private:
  using ForwardFunction = void (*)(const float* x, const float* m, float* y);
  using BackwardFunction = void (*)(const float* x, const float* dy, float* m,
                                    float* dx);

  absl::StatusOr<int64_t> Forward(std::string name, int64_t x, int64_t chunk,
                                  int64_t bytes, ForwardFunction function) {
    BackendOp op;
    op.name = std::move(name);
    op.operands = {{.storage_id = x}, {.chunk = ChunkId(chunk)}};
    op.outputs = {{.bytes = bytes}};
    op.chunks = {{.chunk = ChunkId(chunk)}};
    op.kernel = [function](const Pointers& p, const ExecContext&) {
      function(p.as<float>(0), p.as<float>(1),
               p.as<float>(Pointers::kOutputBase));
      return absl::OkStatus();
    };
    CASTOR_ASSIGN_OR_RETURN(const auto outputs, backend_->Run(std::move(op)));
    return outputs[0];
  }
  // Gives the storage of dx, -1 for none (0 bytes). `x`, unless it is the
  // model's input, and `dy` are needed no more.
  absl::StatusOr<int64_t> Backward(std::string name, int64_t x, int64_t dy,
                                   int64_t chunk, int64_t bytes,
                                   BackwardFunction function) {
    BackendOp op;
    op.name = std::move(name);
    op.phase = Phase::kBackward;
    op.operands = {{.storage_id = x},
                   {.storage_id = dy},
                   {.chunk = ChunkId(chunk),
                    .writes = true,
                    .gradient_bytes = kElements[chunk] *
                                      static_cast<int64_t>(sizeof(float))}};
    if (bytes > 0) op.outputs = {{.bytes = bytes}};
    op.chunks = {{.chunk = ChunkId(chunk), .writes = true}};
    const int dx = bytes > 0 ? Pointers::kOutputBase : -1;
    op.kernel = [function, dx](const Pointers& p, const ExecContext&) {
      function(p.as<float>(0), p.as<float>(1), p.as<float>(2), p.as<float>(dx));
      return absl::OkStatus();
    };
    CASTOR_ASSIGN_OR_RETURN(const auto outputs, backend_->Run(std::move(op)));
    CASTOR_RETURN_IF_ERROR(backend_->Reduce(
        {.chunk = ChunkId(chunk), .name = absl::StrCat("reduce/", chunk)}));
    if (bytes > 0) backend_->Release(x);
    backend_->Release(dy);
    return bytes > 0 ? outputs[0] : -1;
  }

  Backend* const backend_;
};

struct Outcome {
  std::vector<float> losses;
  std::vector<float> parameters;
  int64_t peak_bytes = 0;
};

// The run, with all the parts of the memory manager that it takes.
class TrainingRun {
 public:
  TrainingRun() {
    std::vector<LayoutParameter> list;
    for (const int64_t elements : kElements) {
      list.push_back(
          {.name = std::string(1, "awb"[list.size()]), .elements = elements});
    }
    options_.weight_decay.assign(3, 0.0);
    // No two parameters fit into one chunk.
    layout_ = *MakeChunkLayout(list, {.chunk_bytes = kElements[0] * 4,
                                      .states = options_.rule->states()});
    CASTOR_CHECK(layout_.num_chunks() == 3);
    DryBackend dry;
    int64_t loss = -1;
    CASTOR_CHECK(Client(&dry).Step(DataOf(0), &loss).ok());
    dry.Release(loss);
    trace_ = dry.Finish(&layout_, /*accumulate=*/false, /*training=*/true,
                        /*micro_batches=*/1);
  }

  PlanRequest RequestFor(int64_t device_bytes) const {
    PlanRequest request;
    request.trace = &trace_;
    request.device_budget_bytes = device_bytes;
    request.device_reserved_bytes = ChunkOptimizer::DeviceBytes(layout_);
    return request;
  }

  absl::StatusOr<Outcome> Train(const PlacementPolicy* policy,
                                int64_t device_bytes) const {
    PlanOrRefusal planned = MakePlan(policy, RequestFor(device_bytes));
    if (std::holds_alternative<Refusal>(planned)) {
      return absl::ResourceExhaustedError(std::get<Refusal>(planned).op);
    }
    const auto plan =
        std::make_shared<const Plan>(std::get<Plan>(std::move(planned)));
    CASTOR_ASSIGN_OR_RETURN(
        const auto device,
        HostDevice::Create(
            {.memory_bytes = std::min<int64_t>(device_bytes, 1 << 20)}));
    CASTOR_ASSIGN_OR_RETURN(const auto host,
                            HostMemory::Create({.budget_bytes = 1 << 20}));
    CASTOR_ASSIGN_OR_RETURN(
        const auto arena,
        Arena::Create(device.get(), {.scribble_freed = true}));
    CASTOR_ASSIGN_OR_RETURN(
        const auto store,
        ChunkStore::Create(device.get(), arena.get(), host.get(), &layout_,
                           /*accumulate=*/false, plan->side));
    CASTOR_ASSIGN_OR_RETURN(
        const auto optimizer,
        ChunkOptimizer::Create(device.get(), arena.get(), host.get(),
                               store.get(), options_));
    for (int64_t i = 0; i < 3; ++i) {
      CASTOR_RETURN_IF_ERROR(store->Fill(
          ChunkId(i), [i](std::byte* home, const StateView& states) {
            auto* const values = reinterpret_cast<float*>(home);
            std::fill_n(values, states.elements, 0.0f);
            for (int64_t e = 0; e < kElements[i]; ++e)
              values[e] = Initial(i, e);
            std::copy_n(values, states.elements, states.masters());
            for (int slot = 0; slot < 2; ++slot) {
              std::fill_n(static_cast<float*>(states.slot(slot)),
                          states.elements, 0.0f);
            }
            return absl::OkStatus();
          }));
    }
    DeviceBackend backend(device.get(), arena.get(), store.get(),
                          optimizer.get());
    Outcome outcome;
    outcome.losses.resize(kSteps);
    for (int64_t step = 1; step <= kSteps; ++step) {
      const auto tag = static_cast<uint16_t>(step);
      CASTOR_RETURN_IF_ERROR(backend.BeginStep(
          {.trace = &trace_,
           .plan = plan,
           .tag = tag,
           .update = UpdateStep{.number = step, .lr = kRate}}));
      int64_t loss = -1;
      CASTOR_RETURN_IF_ERROR(Client(&backend).Step(DataOf(step), &loss));
      backend.Download(loss, &outcome.losses[step - 1], sizeof(float));
      backend.Release(loss);
      CASTOR_RETURN_IF_ERROR(backend.EndStep());
    }
    CASTOR_RETURN_IF_ERROR(device->Synchronize(device->NowAll()));
    for (int64_t i = 0; i < 3; ++i) {
      std::vector<float> values(kElements[i]);
      CASTOR_RETURN_IF_ERROR(store->ReadState(ChunkId(i), StatePart::kMaster, 0,
                                              kElements[i], values.data()));
      outcome.parameters.insert(outcome.parameters.end(), values.begin(),
                                values.end());
    }
    outcome.peak_bytes = arena->stats().peak_bytes;
    return outcome;
  }

 private:
  OptimizerOptions options_;
  ChunkLayout layout_;
  StepTrace trace_;
};

// The same run in double precision, without any of Castor: AdamW as its paper
// has it, without decay.
Outcome TrainPlainly() {
  std::vector<double> p[3], m[3], v[3];
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t e = 0; e < kElements[i]; ++e) p[i].push_back(Initial(i, e));
    m[i].resize(kElements[i]);
    v[i].resize(kElements[i]);
  }
  Outcome outcome;
  for (int64_t step = 1; step <= kSteps; ++step) {
    const Data data = DataOf(step);
    const size_t size = kBatch * kWidth;
    std::vector<double> x(size), u(size), w(size), y(size), dw(size), du(size);
    for (size_t i = 0; i < size; ++i) {
      float value;
      std::memcpy(&value, &data.x[i], sizeof(value));
      x[i] = value;
    }
    Multiply(x.data(), p[0].data(), u.data());
    Scale(u.data(), p[1].data(), w.data());
    Multiply(w.data(), p[2].data(), y.data());
    outcome.losses.push_back(static_cast<float>(Loss(y.data(), data.t.data())));
    std::vector<double> g[3] = {p[0], p[1], p[2]};
    MultiplyBackward(w.data(), y.data(), g[2].data(), dw.data());
    ScaleBackward(u.data(), dw.data(), g[1].data(), du.data());
    MultiplyBackward<double>(x.data(), du.data(), g[0].data(), nullptr);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t e = 0; e < kElements[i]; ++e) {
        m[i][e] = 0.9 * m[i][e] + 0.1 * g[i][e];
        v[i][e] = 0.999 * v[i][e] + 0.001 * g[i][e] * g[i][e];
        const double mean = m[i][e] / (1 - std::pow(0.9, step));
        const double square = v[i][e] / (1 - std::pow(0.999, step));
        p[i][e] -= kRate * mean / (std::sqrt(square) + 1e-8);
      }
    }
  }
  return outcome;
}

TEST(Client, TrainsAsPlainArithmeticDoes) {
  const auto outcome = TrainingRun().Train(FindPolicy("cuda"), 1 << 20);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const Outcome plain = TrainPlainly();
  // Sums of 16 products in fp32, through three layers and ten steps.
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(outcome->losses[step], plain.losses[step],
                1e-4 * plain.losses[step]);
  }
  EXPECT_LT(plain.losses.back(), plain.losses.front() / 2);
}

// Promises P1, P2 and P5, of a client that Castor has never seen.
TEST(Client, GivesTheSameBitsAtEveryBudgetOrIsRefused) {
  const TrainingRun run;
  const auto reference = run.Train(FindPolicy("cuda"), 1 << 20);
  ASSERT_TRUE(reference.ok()) << reference.status();
  for (const PlacementPolicy& policy : Policies()) {
    const int64_t smallest =
        SmallestDeviceBudget(&policy, run.RequestFor(kUnlimitedBytes));
    EXPECT_EQ(run.Train(&policy, smallest - 1).status().code(),
              absl::StatusCode::kResourceExhausted);
    for (const int64_t budget :
         {smallest, smallest + 512, smallest + 1024, int64_t{1} << 20}) {
      const auto outcome = run.Train(&policy, budget);
      ASSERT_TRUE(outcome.ok()) << policy.name << outcome.status();
      EXPECT_EQ(outcome->losses, reference->losses) << policy.name << budget;
      EXPECT_EQ(outcome->parameters, reference->parameters)
          << policy.name << budget;
      EXPECT_LE(outcome->peak_bytes, budget) << policy.name;
    }
  }
}

}  // namespace
}  // namespace castor
