#include "runtime/ops/linear.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/bias_gradient/bias_gradient.h"
#include "kernels/matmul/matmul.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {
namespace {

// The module's name: the parameter's without ".weight".
std::string SiteOf(const Parameter& w) {
  constexpr absl::string_view kSuffix = ".weight";
  std::string site = w.name;
  if (site.size() > kSuffix.size() &&
      site.compare(site.size() - kSuffix.size(), kSuffix.size(),
                   kSuffix.data()) == 0) {
    site.resize(site.size() - kSuffix.size());
  }
  return site;
}

struct Sizes {
  int64_t n, i, o;  // rows, inputs, outputs
  DType dtype;
  bool out_in;  // w is [O, I]
};

// The product whose operands lie where `args` says; pointers are filled in when
// the kernel runs.
struct MatmulSlots {
  int a = -1, b = -1, c = -1, bias = -1, workspace = -1;
};

absl::Status RunMatmul(Op& op, kernels::MatmulArgs args, MatmulSlots slots) {
  op.Cost(2.0 * args.m * args.n * args.k,
          static_cast<double>(SizeOf(args.dtype)) *
              (args.m * args.k + args.k * args.n + args.m * args.n),
          CostKind::kProduct);
  return op.Run(
      [args, slots](const Pointers& p, const ExecContext& context) mutable {
        args.a = p[slots.a];
        args.b = p[slots.b];
        args.c = p[slots.c];
        args.bias = p[slots.bias];
        args.workspace = p[slots.workspace];
        return kernels::Run(context, args);
      });
}

kernels::MatmulArgs ForwardArgs(const Sizes& s) {
  return {.m = s.n,
          .n = s.o,
          .k = s.i,
          .lda = s.i,
          .ldb = s.out_in ? s.i : s.o,
          .transpose_b = s.out_in,
          .ldc = s.o,
          .dtype = s.dtype};
}

// dx [N, I] = dy [N, O] w^T.
absl::StatusOr<Tensor> BackwardInput(Engine& engine, const Sizes& s,
                                     const Shape& x_shape, const Tensor& dy,
                                     Parameter& w) {
  const kernels::MatmulArgs args = {.m = s.n,
                                    .n = s.i,
                                    .k = s.o,
                                    .lda = s.o,
                                    .ldb = s.out_in ? s.i : s.o,
                                    .transpose_b = !s.out_in,
                                    .ldc = s.i,
                                    .dtype = s.dtype};
  Op op(engine, absl::StrCat(SiteOf(w), "/backward_input"));
  MatmulSlots slots = {.a = op.Read(dy), .b = op.Read(w)};
  slots.c = op.Output(x_shape, s.dtype);
  slots.workspace =
      op.Workspace(kernels::WorkspaceBytes(engine.gpu_sizes(), args));
  CASTOR_RETURN_IF_ERROR(RunMatmul(op, args, slots));
  return op.output(slots.c);
}

// dw = x^T dy, in w's own layout.
absl::Status BackwardWeight(Engine& engine, const Sizes& s, const Tensor& x,
                            const Tensor& dy, Parameter& w) {
  if (!w.trainable) return absl::OkStatus();
  kernels::MatmulArgs args = {.m = s.out_in ? s.o : s.i,
                              .n = s.out_in ? s.i : s.o,
                              .k = s.n,
                              .lda = s.out_in ? s.o : s.i,
                              .transpose_a = true,
                              .ldb = s.out_in ? s.i : s.o,
                              .ldc = s.out_in ? s.i : s.o,
                              .dtype = s.dtype};
  Op op(engine, absl::StrCat(SiteOf(w), "/backward_weight"));
  MatmulSlots slots;
  slots.a = op.Read(s.out_in ? dy : x);
  slots.b = op.Read(s.out_in ? x : dy);
  const Op::GradientSlot dw = op.WriteGradient(w);
  slots.c = dw.slot;
  args.accumulate = dw.accumulate;
  slots.workspace =
      op.Workspace(kernels::WorkspaceBytes(engine.gpu_sizes(), args));
  return RunMatmul(op, args, slots);
}

absl::Status BackwardBias(Engine& engine, const Sizes& s, const Tensor& dy,
                          Parameter& w, Parameter* bias) {
  if (bias == nullptr || !bias->trainable) return absl::OkStatus();
  Op op(engine, absl::StrCat(SiteOf(w), "/backward_bias"));
  const int in = op.Read(dy);
  const Op::GradientSlot db = op.WriteGradient(*bias);
  op.Cost(1.0 * s.n * s.o, 1.0 * s.n * s.o * SizeOf(s.dtype));
  return op.Run([s, in, db](const Pointers& p, const ExecContext& context) {
    return kernels::Run(context,
                        kernels::BiasGradientArgs{.dtype = s.dtype,
                                                  .rows = s.n,
                                                  .channels = s.o,
                                                  .dy = p[in],
                                                  .db = p[db.slot],
                                                  .accumulate = db.accumulate});
  });
}

}  // namespace

absl::StatusOr<Tensor> Linear(Engine& engine, const Tensor& x, Parameter& w,
                              Parameter* bias, WeightLayout layout) {
  const bool out_in = layout == WeightLayout::kOutIn;
  const Sizes s = {.n = x.shape().rows(),
                   .i = x.shape().columns(),
                   .o = w.shape[out_in ? 0 : 1],
                   .dtype = x.dtype(),
                   .out_in = out_in};
  if (w.shape.rank() != 2 || w.shape[out_in ? 1 : 0] != s.i) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", w.name, "\" of shape ", w.shape.ToString(),
        " does not take an input of shape ", x.shape().ToString()));
  }
  if (bias != nullptr && bias->elements() != s.o) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", bias->name, "\" of shape ", bias->shape.ToString(),
        " is no bias for \"", w.name, "\" of shape ", w.shape.ToString()));
  }
  kernels::MatmulArgs args = ForwardArgs(s);
  Op op(engine, absl::StrCat(SiteOf(w), "/forward"));
  MatmulSlots slots = {.a = op.Read(x), .b = op.Read(w)};
  if (bias != nullptr) slots.bias = op.Read(*bias);
  slots.c =
      op.Output(x.shape().rank() == 3 ? Shape{x.shape()[0], x.shape()[1], s.o}
                                      : Shape{s.n, s.o},
                s.dtype);
  slots.workspace =
      op.Workspace(kernels::WorkspaceBytes(engine.gpu_sizes(), args));
  CASTOR_RETURN_IF_ERROR(RunMatmul(op, args, slots));
  Tensor y = op.output(slots.c);

  const bool needs_dx = x.requires_grad();
  const bool trains = w.trainable || (bias != nullptr && bias->trainable);
  if (engine.grad_mode() == GradMode::kOff || !(needs_dx || trains)) return y;
  y.set_requires_grad(true);
  engine.ExpectBackward(w, /*reads=*/needs_dx);
  if (bias != nullptr) engine.ExpectBackward(*bias, /*reads=*/false);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, s, x_id = x.id(), x_shape = x.shape(), needs_dx,
       x = w.trainable ? x : Tensor(), &w,
       bias](Tensor dy, GradientSink& sink) -> absl::Status {
        if (needs_dx) {
          CASTOR_ASSIGN_OR_RETURN(Tensor dx,
                                  BackwardInput(engine, s, x_shape, dy, w));
          CASTOR_RETURN_IF_ERROR(engine.DoneReading(w));
          CASTOR_RETURN_IF_ERROR(sink.Add(engine, x_id, std::move(dx)));
        }
        CASTOR_RETURN_IF_ERROR(BackwardWeight(engine, s, x, dy, w));
        return BackwardBias(engine, s, dy, w, bias);
      });
  return y;
}

}  // namespace castor::ops
