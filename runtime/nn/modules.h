// The modules that models are made of: named parameters and the operators that
// use them. Made inside a ZeroInit scope. Names are Hugging Face's.
#ifndef CASTOR_RUNTIME_NN_MODULES_H_
#define CASTOR_RUNTIME_NN_MODULES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/engine.h"
#include "runtime/nn/zero_init.h"
#include "runtime/ops/embedding.h"
#include "runtime/ops/layer_norm.h"
#include "runtime/ops/linear.h"

namespace castor::nn {

// y [.., O] = x [.., I] w + b.
class Linear {
 public:
  // `name`.weight and, with `bias`, `name`.bias. Weights are normal with
  // `stddev`, biases 0.
  Linear(absl::string_view name, int64_t in, int64_t out, float stddev = 0.02f,
         bool bias = true,
         ops::WeightLayout layout = ops::WeightLayout::kOutIn)
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

}  // namespace castor::nn

#endif  // CASTOR_RUNTIME_NN_MODULES_H_
