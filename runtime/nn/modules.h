// The modules that models are made of: named parameters and the operators that
// use them. Made inside a ZeroInit scope. Names are Hugging Face's.
#ifndef CASTOR_RUNTIME_NN_MODULES_H_
#define CASTOR_RUNTIME_NN_MODULES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/document_range.h"
#include "runtime/autograd/engine.h"
#include "runtime/nn/zero_init.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/rms_norm.h"

namespace castor::nn {

// y [.., O] = x [.., I] w + b.
class Linear {
 public:
  // `name`.weight and, with `bias`, `name`.bias. Weights are normal with
  // `stddev`, biases 0.
  Linear(absl::string_view name, int64_t in, int64_t out, float stddev = 0.02f,
         bool bias = true, ops::WeightLayout layout = ops::WeightLayout::kOutIn)
      : layout_(layout),
        weight_(MakeParameter(absl::StrCat(name, ".weight"),
                              layout == ops::WeightLayout::kOutIn
                                  ? Shape{out, in}
                                  : Shape{in, out},
                              {.stddev = stddev})),
        bias_(bias ? &MakeParameter(absl::StrCat(name, ".bias"), {out}, {})
                   : nullptr) {}

  absl::StatusOr<Tensor> operator()(Engine& engine, const Tensor& x) const {
    return ops::Linear(engine, x, weight_, bias_, layout_);
  }
  Parameter& weight() const { return weight_; }

 private:
  ops::WeightLayout layout_;
  Parameter& weight_;
  Parameter* bias_;
};

class LayerNorm {
 public:
  LayerNorm(absl::string_view name, int64_t channels, float epsilon = 1e-5f)
      : gamma_(MakeParameter(absl::StrCat(name, ".weight"), {channels},
                             {.mean = 1})),
        beta_(MakeParameter(absl::StrCat(name, ".bias"), {channels}, {})),
        epsilon_(epsilon) {}

  absl::StatusOr<Tensor> operator()(Engine& engine, const Tensor& x) const {
    return ops::LayerNorm(engine, x, gamma_, beta_, epsilon_);
  }

 private:
  Parameter& gamma_;
  Parameter& beta_;
  float epsilon_;
};

// Normalises each group of `channels` in its input's rows.
class RmsNorm {
 public:
  // `name`.weight, which begins at 1 with an offset of 0 and at 0 with one
  // of 1.
  RmsNorm(absl::string_view name, int64_t channels, float epsilon,
          float offset = 0)
      : gamma_(MakeParameter(absl::StrCat(name, ".weight"), {channels},
                             {.mean = 1 - offset})),
        epsilon_(epsilon),
        offset_(offset) {}

  absl::StatusOr<Tensor> operator()(Engine& engine, const Tensor& x) const {
    return ops::RmsNorm(engine, x, gamma_, epsilon_, offset_);
  }

 private:
  Parameter& gamma_;
  float epsilon_;
  float offset_;
};

class Embedding {
 public:
  Embedding(absl::string_view name, int64_t vocabulary, int64_t channels,
            float stddev = 0.02f)
      : weight_(MakeParameter(absl::StrCat(name, ".weight"),
                              {vocabulary, channels}, {.stddev = stddev})) {}

  // [B, T] indexes to [B, T, C], added to `addend` unless that is empty.
  absl::StatusOr<Tensor> operator()(Engine& engine, const Tensor& indices,
                                    Tensor addend = Tensor()) const {
    return ops::Embedding(engine, indices, weight_, std::move(addend));
  }
  Parameter& weight() const { return weight_; }

 private:
  Parameter& weight_;
};

// Learned positions: row first + t of a table [rows, C] is added at position t.
class PositionEmbedding {
 public:
  PositionEmbedding(absl::string_view name, int64_t rows, int64_t channels,
                    float stddev = 0.02f, int64_t first = 0)
      : table_(name, rows, channels, stddev), first_(first) {}

  // x [B, T, C], whose first token is at Engine::first_position of its
  // sequence, which the table's rows must reach to the end of. Where documents
  // share rows, positions are those within them. Moved in, x
  // gives its storage to the sum.
  absl::StatusOr<Tensor> operator()(Engine& engine, Tensor x) const {
    const int64_t batch = x.shape()[0], length = x.shape()[1];
    const int64_t end = engine.first_position() + length;
    const int64_t first = first_ + engine.first_position();
    if (first + length > table_.weight().shape[0]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a sequence of ", end, " is longer than \"", table_.weight().name,
          "\" of shape ", table_.weight().shape.ToString()));
    }
    std::vector<int32_t> positions(batch * length);
    const RowDocuments* const documents = engine.documents();
    for (int64_t i = 0; i < batch * length; ++i) {
      positions[i] = static_cast<int32_t>(first + i % length);
      if (documents != nullptr) positions[i] -= documents->of[i].begin;
    }
    auto indices = engine.Upload(absl::StrCat(table_.weight().name, "/input"),
                                 {batch, length}, std::move(positions));
    if (!indices.ok()) return indices.status();
    return table_(engine, *indices, std::move(x));
  }
  Parameter& weight() const { return table_.weight(); }

 private:
  Embedding table_;
  int64_t first_;
};

}  // namespace castor::nn

#endif  // CASTOR_RUNTIME_NN_MODULES_H_
