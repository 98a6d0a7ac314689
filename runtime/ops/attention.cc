#include "runtime/ops/attention.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/document_range.h"
#include "base/status_macros.h"
#include "kernels/attention/attention.h"
#include "kernels/copy_rows/copy_rows.h"
#include "kernels/run.h"
#include "runtime/autograd/key_value_cache.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {
namespace {

using kernels::AttentionBackwardArgs;
using kernels::AttentionForwardArgs;
using kernels::AttentionMask;
using kernels::AttentionShape;

// The tensors that q, k and v lie in, one or three, and where.
struct Operands {
  absl::InlinedVector<Tensor, 3> tensors;
  // Where q, k or v lies: the number of the tensor, and the bytes before its
  // first element.
  struct Part {
    size_t tensor = 0;
    int64_t offset_bytes = 0;
  };
  std::array<Part, 3> parts;

  double Bytes() const {
    double bytes = 0;
    for (const Tensor& tensor : tensors) {
      bytes += 1.0 * tensor.shape().elements() * SizeOf(tensor.dtype());
    }
    return bytes;
  }
  bool requires_grad() const {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const Tensor& x) { return x.requires_grad(); });
  }
  std::string Shapes() const {
    return absl::StrJoin(tensors, ", ",
                         [](std::string* out, const Tensor& tensor) {
                           out->append(tensor.shape().ToString());
                         });
  }
};

// The operator's slots for the operands' tensors, or for their gradients.
struct Slots {
  std::array<Operands::Part, 3> parts;
  std::array<int, 3> slots = {-1, -1, -1};

  char* operator()(const Pointers& pointers, int part) const {
    return pointers.as<char>(slots[parts[part].tensor]) +
           parts[part].offset_bytes;
  }
};

Slots Read(Op& op, const Operands& x) {
  Slots slots = {.parts = x.parts};
  for (size_t i = 0; i < x.tensors.size(); ++i) {
    slots.slots[i] = op.Read(x.tensors[i]);
  }
  return slots;
}

// Pairs of a query and a key that it sees, a triangle's corner counted as half.
double Pairs(const AttentionShape& shape) {
  const AttentionShape s = shape.Filled();
  const auto triangle = [](int64_t side) {
    return side <= 0 ? 0.0 : 0.5 * side * side;
  };
  const int64_t ahead = s.keys - s.positions;
  double pairs = 1.0 * s.positions * s.keys;
  pairs -= triangle(s.positions - s.mask.after);
  pairs -= triangle(s.keys - s.mask.before) - triangle(ahead - s.mask.before);
  return pairs;
}

double Flops(const AttentionShape& s, int products) {
  return 2.0 * products * s.batch * s.heads * Pairs(s) * s.head_size;
}

// The documents of a pass's samples; an empty tensor: each is one.
Tensor DocumentsOf(const Engine& engine) {
  return engine.documents() == nullptr ? Tensor() : engine.documents()->ranges;
}

// The slot of the documents; -1: there are none.
int ReadDocuments(Op& op, const Tensor& documents) {
  return documents ? op.Read(documents) : -1;
}
const DocumentRange* In(const Pointers& pointers, int documents) {
  return documents < 0 ? nullptr : pointers.as<const DocumentRange>(documents);
}

absl::Status Backward(Engine& engine, const AttentionShape& shape,
                      const Operands& x, const Tensor& documents,
                      const Tensor& out, const Tensor& lse, const Tensor& dy,
                      const std::string& name, GradientSink& sink) {
  Op op(engine, name);
  const Slots in = Read(op, x);
  const int in_documents = ReadDocuments(op, documents);
  const int in_out = op.Read(out);
  const int in_lse = op.Read(lse);
  const int in_dy = op.Read(dy);
  Slots gradients = {.parts = x.parts};
  for (size_t i = 0; i < x.tensors.size(); ++i) {
    gradients.slots[i] = op.Output(x.tensors[i].shape(), x.tensors[i].dtype());
  }
  const int workspace = op.Workspace(kernels::WorkspaceBytes(
      engine.gpu_sizes(), AttentionBackwardArgs{.shape = shape}));
  op.Cost(Flops(shape, 5), 2.0 * x.Bytes(), CostKind::kAttention);
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(
            context, AttentionBackwardArgs{.shape = shape,
                                           .q = in(p, 0),
                                           .k = in(p, 1),
                                           .v = in(p, 2),
                                           .documents = In(p, in_documents),
                                           .out = p[in_out],
                                           .lse = p.as<const float>(in_lse),
                                           .dout = p[in_dy],
                                           .dq = gradients(p, 0),
                                           .dk = gradients(p, 1),
                                           .dv = gradients(p, 2),
                                           .workspace = p[workspace]});
      }));
  for (size_t i = 0; i < x.tensors.size(); ++i) {
    if (!x.tensors[i].requires_grad()) continue;
    CASTOR_RETURN_IF_ERROR(
        sink.Add(engine, x.tensors[i].id(), op.output(gradients.slots[i])));
  }
  return absl::OkStatus();
}

// Checks in the dry pass what a kernel would refuse only at step 1, long after
// it.
absl::Status CheckShape(const Engine& engine, const AttentionShape& shape,
                        const Operands& x, absl::string_view site) {
  absl::Status status = kernels::CheckAttentionShape(shape);
  if (engine.gpu_sizes() != nullptr) {
    status.Update(kernels::CheckAttentionShapeOnGpu(shape));
  }
  if (engine.documents() != nullptr) {
    status.Update(kernels::CheckAttentionOfDocuments(shape));
    if (engine.documents()->ranges.shape() !=
        Shape{shape.batch, shape.positions, 2}) {
      status.Update(absl::InvalidArgumentError(
          absl::StrCat("the micro batch's documents are of shape ",
                       engine.documents()->ranges.shape().ToString())));
    }
  }
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat("\"", site, "\" over ", x.Shapes(), ": ", status.message()));
}

// Copies part `part` (1: k, 2: v) of `x` into the rows of `cached` that follow
// those of earlier passes.
absl::Status Keep(Engine& engine, const AttentionShape& shape,
                  const Operands& x, int part, const Tensor& cached,
                  absl::string_view site) {
  const int64_t width = cached.shape()[2];
  Op op(engine, absl::StrCat(site, part == 1 ? "/keep_keys" : "/keep_values"));
  const Slots in = Read(op, x);
  const int out = op.Write(cached);
  const int64_t row_bytes = width * SizeOf(shape.dtype);
  op.Cost(0, 2.0 * shape.positions * row_bytes);
  return op.Run([=, at = engine.first_position() * row_bytes](
                    const Pointers& p, const ExecContext& context) {
    return kernels::Run(
        context, kernels::CopyRowsArgs{
                     .dtype = shape.dtype,
                     .rows = shape.positions,
                     .columns = width,
                     .x_stride = shape.kv_stride == 0 ? width : shape.kv_stride,
                     .y_stride = width,
                     .x = in(p, part),
                     .y = p.as<char>(out) + at});
  });
}

// Puts the pass's keys and values into the engine's cache, and makes `shape`
// and `x` cover all that it has. Before the cache holds anything, the dry pass
// only makes it known.
absl::Status ReadThroughCache(Engine& engine, absl::string_view site,
                              AttentionShape* shape, Operands* x) {
  KeyValueCache& cache = *engine.cache();
  if (shape->batch != 1 || shape->mask.after != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", site, "\" over ", x->Shapes(),
        " with a key-value cache: it serves one sequence, read causally"));
  }
  const int64_t kv_heads =
      shape->kv_heads == 0 ? shape->heads : shape->kv_heads;
  CASTOR_ASSIGN_OR_RETURN(
      const KeyValueCache::Entry* const entry,
      cache.Meet(site, kv_heads * shape->head_size, shape->dtype));
  AttentionShape whole = *shape;
  whole.keys = whole.key_rows = cache.capacity();
  CASTOR_RETURN_IF_ERROR(CheckShape(engine, whole, *x, site));
  if (!cache.held()) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(Keep(engine, *shape, *x, 1, entry->keys, site));
  CASTOR_RETURN_IF_ERROR(Keep(engine, *shape, *x, 2, entry->values, site));
  shape->keys = engine.first_position() + shape->positions;
  shape->key_rows = cache.capacity();
  shape->kv_stride = 0;
  const Operands::Part q = x->parts[0];
  *x = {.tensors = {x->tensors[q.tensor], entry->keys, entry->values},
        .parts = {{{0, q.offset_bytes}, {1, 0}, {2, 0}}}};
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Run(Engine& engine, AttentionShape shape, Operands x,
                           absl::string_view site) {
  CASTOR_RETURN_IF_ERROR(CheckShape(engine, shape, x, site));
  if (engine.cache() != nullptr) {
    CASTOR_RETURN_IF_ERROR(ReadThroughCache(engine, site, &shape, &x));
  }
  const Tensor documents = DocumentsOf(engine);
  Op op(engine, absl::StrCat(site, "/forward"));
  const Slots in = Read(op, x);
  const int in_documents = ReadDocuments(op, documents);
  const int out =
      op.Output({shape.batch, shape.positions, shape.heads * shape.head_size},
                shape.dtype);
  const int lse =
      op.Output({shape.batch, shape.heads, shape.positions}, DType::kFloat32);
  const int workspace = op.Workspace(kernels::WorkspaceBytes(
      engine.gpu_sizes(), AttentionForwardArgs{.shape = shape}));
  op.Cost(Flops(shape, 2), x.Bytes(), CostKind::kAttention);
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(
            context, AttentionForwardArgs{.shape = shape,
                                          .q = in(p, 0),
                                          .k = in(p, 1),
                                          .v = in(p, 2),
                                          .documents = In(p, in_documents),
                                          .out = p[out],
                                          .lse = p.as<float>(lse),
                                          .workspace = p[workspace]});
      }));
  Tensor y = op.output(out);
  if (engine.grad_mode() == GradMode::kOff || !x.requires_grad()) return y;
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, shape, x = std::move(x), documents, saved = y,
       saved_lse = op.output(lse), name = absl::StrCat(site, "/backward")](
          Tensor dy, GradientSink& sink) -> absl::Status {
        return Backward(engine, shape, x, documents, saved, saved_lse, dy, name,
                        sink);
      });
  return y;
}

}  // namespace

absl::StatusOr<Tensor> Attention(Engine& engine, const Tensor& q,
                                 const Tensor& k, const Tensor& v,
                                 const AttentionOptions& options,
                                 absl::string_view site) {
  Operands x = {.tensors = {q, k, v}, .parts = {{{0, 0}, {1, 0}, {2, 0}}}};
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", site, "\" of ", options.heads, " heads over ",
                     options.kv_heads, " with a window of ", options.window,
                     " takes ", what, "; its operands are ", x.Shapes()));
  };
  const int64_t heads = options.heads;
  const int64_t kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    return bad("as many heads of keys as divide its own heads");
  }
  if (q.shape().rank() != 3 || q.shape()[2] % heads != 0) {
    return bad("a q [B, T, H D], H its heads");
  }
  const int64_t head_size = q.shape()[2] / heads;
  if (k.shape().rank() != 3 || k.shape()[0] != q.shape()[0] ||
      k.shape()[2] != kv_heads * head_size || v.shape() != k.shape()) {
    return bad("k and v [B, S, K D] for q [B, T, H D]");
  }
  if (k.dtype() != q.dtype() || v.dtype() != q.dtype()) {
    return bad("operands of one type");
  }
  if (options.window < 0 || (options.window > 0 && !options.causal)) {
    return bad("a window only of 1 or more keys, and only if it is causal");
  }
  if (options.keys < 0 || options.keys > k.shape()[1]) {
    return bad("no more keys than k has");
  }
  if (options.keys != 0 && options.keys < k.shape()[1] &&
      engine.grad_mode() != GradMode::kOff && x.requires_grad()) {
    return bad("all keys where gradients are wanted");
  }
  return Run(engine,
             {.batch = q.shape()[0],
              .positions = q.shape()[1],
              .keys = options.keys == 0 ? k.shape()[1] : options.keys,
              .heads = heads,
              .kv_heads = kv_heads,
              .head_size = head_size,
              .dtype = q.dtype(),
              .mask = options.causal ? AttentionMask::Causal(options.window)
                                     : AttentionMask::All(),
              .scale = static_cast<float>(options.scale),
              .softcap = static_cast<float>(options.softcap),
              .dropout = engine.training() ? options.dropout : 0.0f,
              .key = engine.DropoutKey(site),
              .key_rows = k.shape()[1]},
             std::move(x), site);
}

absl::StatusOr<Tensor> CausalAttention(Engine& engine, const Tensor& qkv,
                                       int64_t heads, float dropout,
                                       absl::string_view site) {
  if (qkv.shape().rank() != 3 || heads < 1 || heads > qkv.shape()[2] / 3 ||
      qkv.shape()[2] % (3 * heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", site, "\" of ", heads,
        " heads takes a qkv of shape [B, T, 3C], C a multiple of the heads, "
        "not one of shape ",
        qkv.shape().ToString()));
  }
  const int64_t channels = qkv.shape()[2] / 3;
  const int64_t bytes = channels * SizeOf(qkv.dtype());
  return Run(
      engine,
      {.batch = qkv.shape()[0],
       .positions = qkv.shape()[1],
       .heads = heads,
       .head_size = channels / heads,
       .dtype = qkv.dtype(),
       .dropout = engine.training() ? dropout : 0.0f,
       .key = engine.DropoutKey(site),
       .q_stride = 3 * channels,
       .kv_stride = 3 * channels},
      {.tensors = {qkv}, .parts = {{{0, 0}, {0, bytes}, {0, 2 * bytes}}}},
      site);
}

}  // namespace castor::ops
