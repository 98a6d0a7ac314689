#include "runtime/ops/activation.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/activation/activation.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {
namespace {

double Bytes(const Tensor& x, int tensors) {
  return static_cast<double>(tensors) * x.shape().elements() *
         SizeOf(x.dtype());
}

// `up` is empty for an activation without a gate.
absl::StatusOr<Tensor> Forward(Engine& engine, const Tensor& x,
                               const Tensor& up, Activation kind,
                               const std::string& name) {
  Op op(engine, name);
  const int in = op.Read(x);
  const int in_up = up ? op.Read(up) : -1;
  const int out = op.Output(x.shape(), x.dtype());
  op.Cost(0, Bytes(x, up ? 3 : 2));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=, dtype = x.dtype(), size = x.shape().elements()](
                 const Pointers& p, const ExecContext& context) {
        return kernels::Run(context,
                            kernels::ActivationForwardArgs{.kind = kind,
                                                           .dtype = dtype,
                                                           .size = size,
                                                           .x = p[in],
                                                           .up = p[in_up],
                                                           .y = p[out]});
      }));
  return op.output(out);
}

// The gradients of x and of `up`, if there is one. x's takes dy's place and
// up's that of up, where nobody else needs those.
struct Gradients {
  Tensor dx, dup;
};
absl::StatusOr<Gradients> Backward(Engine& engine, const Tensor& x, Tensor up,
                                   Tensor dy, Activation kind,
                                   const std::string& name) {
  const bool dx_in_place = dy.unique();
  const bool dup_in_place = up && up.unique();
  Op op(engine, name);
  const int in = op.Read(x);
  const int in_dy = dx_in_place ? op.Write(dy) : op.Read(dy);
  const int out = dx_in_place ? in_dy : op.Output(x.shape(), x.dtype());
  int in_up = -1, out_up = -1;
  if (up) {
    in_up = dup_in_place ? op.Write(up) : op.Read(up);
    out_up = dup_in_place ? in_up : op.Output(x.shape(), x.dtype());
  }
  op.Cost(0, Bytes(x, up ? 5 : 3));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=, dtype = x.dtype(), size = x.shape().elements()](
                 const Pointers& p, const ExecContext& context) {
        return kernels::Run(context,
                            kernels::ActivationBackwardArgs{.kind = kind,
                                                            .dtype = dtype,
                                                            .size = size,
                                                            .x = p[in],
                                                            .up = p[in_up],
                                                            .dy = p[in_dy],
                                                            .dx = p[out],
                                                            .dup = p[out_up]});
      }));
  Gradients gradients;
  gradients.dx = dx_in_place ? std::move(dy) : op.output(out);
  if (up) gradients.dup = dup_in_place ? std::move(up) : op.output(out_up);
  return gradients;
}

}  // namespace

absl::StatusOr<Tensor> Activate(Engine& engine, const Tensor& x,
                                Activation kind, absl::string_view site) {
  CASTOR_ASSIGN_OR_RETURN(Tensor y, Forward(engine, x, Tensor(), kind,
                                            absl::StrCat(site, "/forward")));
  if (engine.grad_mode() == GradMode::kOff || !x.requires_grad()) return y;
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, kind, x_id = x.id(), saved = kind == Activation::kRelu ? y : x,
       name = absl::StrCat(site, "/backward")](
          Tensor dy, GradientSink& sink) -> absl::Status {
        CASTOR_ASSIGN_OR_RETURN(
            Gradients gradients,
            Backward(engine, saved, Tensor(), std::move(dy), kind, name));
        return sink.Add(engine, x_id, std::move(gradients.dx));
      });
  return y;
}

absl::StatusOr<Tensor> ActivateGated(Engine& engine, const Tensor& gate,
                                     const Tensor& up, Activation kind,
                                     absl::string_view site) {
  if (gate.shape() != up.shape()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", site, "\" cannot gate an input of shape ", up.shape().ToString(),
        " by one of shape ", gate.shape().ToString()));
  }
  CASTOR_ASSIGN_OR_RETURN(Tensor y, Forward(engine, gate, up, kind,
                                            absl::StrCat(site, "/forward")));
  if (engine.grad_mode() == GradMode::kOff ||
      !(gate.requires_grad() || up.requires_grad())) {
    return y;
  }
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, kind, gate, up, up_id = up.id(), wants_up = up.requires_grad(),
       name = absl::StrCat(site, "/backward")](
          Tensor dy, GradientSink& sink) mutable -> absl::Status {
        CASTOR_ASSIGN_OR_RETURN(
            Gradients gradients,
            Backward(engine, gate, std::move(up), std::move(dy), kind, name));
        if (wants_up) {
          CASTOR_RETURN_IF_ERROR(
              sink.Add(engine, up_id, std::move(gradients.dup)));
        }
        if (!gate.requires_grad()) return absl::OkStatus();
        return sink.Add(engine, gate.id(), std::move(gradients.dx));
      });
  return y;
}

}  // namespace castor::ops
