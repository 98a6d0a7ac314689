#include "runtime/ops/rotary.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/document_range.h"
#include "base/status_macros.h"
#include "kernels/rotary/rotary.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {
namespace {

absl::Status CheckOperands(const Tensor& x, const RotaryTable& table,
                           int64_t head_size, absl::string_view site) {
  const Shape& shape = x.shape();
  if (shape.rank() != 3 || head_size < 1 || shape[2] % head_size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", site, "\": a tensor of shape ", shape.ToString(),
                     " is no [B, T, H D] of heads of ", head_size));
  }
  const Shape& angles = table.values.shape();
  if (table.begin < 0 || angles[1] - table.begin < shape[1] ||
      2 * angles[2] > head_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", site, "\": a table of ", angles[1], " positions and ", angles[2],
        " pairs of channels cannot turn ", shape[1], " positions from ",
        table.begin, " of heads of ", head_size));
  }
  return absl::OkStatus();
}

// Everything but the addresses.
kernels::RotaryArgs ArgsOf(const Tensor& x, const RotaryTable& table,
                           int64_t head_size) {
  const Shape& shape = x.shape();
  return {.dtype = x.dtype(),
          .rows = shape[0] * shape[1],
          .length = shape[1],
          .heads = shape[2] / head_size,
          .head_size = head_size,
          .channels = 2 * table.values.shape()[2],
          .stride = shape[2],
          .begin = table.begin};
}

// Turns x, in place where nobody else needs it.
absl::StatusOr<Tensor> Turn(Engine& engine, Tensor x, const RotaryTable& table,
                            const Tensor& documents, kernels::RotaryArgs args,
                            std::string name) {
  const bool in_place = x.unique();
  Op op(engine, std::move(name));
  const int in = in_place ? op.Write(x) : op.Read(x);
  const int in_table = op.Read(table.values);
  const int in_documents = documents ? op.Read(documents) : -1;
  const int out = in_place ? in : op.Output(x.shape(), x.dtype());
  op.Cost(0, 2.0 * x.shape().elements() * SizeOf(x.dtype()));
  const int64_t sines = table.values.shape().elements() / 2;
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) mutable {
        args.cos = p.as<const float>(in_table);
        args.sin = args.cos + sines;
        if (in_documents >= 0) {
          args.documents = p.as<const DocumentRange>(in_documents);
        }
        args.x = p[in];
        args.y = p[out];
        return kernels::Run(context, args);
      }));
  return in_place ? x.Alias(engine.NewTensorId()) : op.output(out);
}

}  // namespace

absl::StatusOr<RotaryTable> UploadRotaryTable(Engine& engine, int64_t positions,
                                              int64_t pairs, HostData values,
                                              absl::string_view site) {
  RotaryTable table;
  CASTOR_ASSIGN_OR_RETURN(
      table.values,
      engine.Upload(site, {2, positions, pairs}, std::move(values)));
  return table;
}

absl::StatusOr<Tensor> Rotary(Engine& engine, Tensor x,
                              const RotaryTable& table, int64_t head_size,
                              absl::string_view site) {
  CASTOR_RETURN_IF_ERROR(CheckOperands(x, table, head_size, site));
  kernels::RotaryArgs args = ArgsOf(x, table, head_size);
  const int64_t x_id = x.id();
  const bool needs_dx = x.requires_grad();
  Tensor documents;
  if (engine.documents() != nullptr) documents = engine.documents()->ranges;
  CASTOR_ASSIGN_OR_RETURN(Tensor y, Turn(engine, std::move(x), table, documents,
                                         args, absl::StrCat(site, "/forward")));
  y.set_requires_grad(false);
  if (engine.grad_mode() == GradMode::kOff || !needs_dx) return y;
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  args.inverse = true;
  engine.tape()->Record(y,
                        [&engine, x_id, table, documents, args,
                         name = absl::StrCat(site, "/backward")](
                            Tensor dy, GradientSink& sink) -> absl::Status {
                          CASTOR_ASSIGN_OR_RETURN(
                              Tensor dx, Turn(engine, std::move(dy), table,
                                              documents, args, name));
                          return sink.Add(engine, x_id, std::move(dx));
                        });
  return y;
}

}  // namespace castor::ops
