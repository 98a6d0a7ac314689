#include "kernels/checks.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/adam.h"
#include "kernels/head_loss.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"

namespace castor::kernels {

absl::Status CheckSize(absl::string_view what, int64_t size) {
  if (size >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": size is ", size, "; give 0 or more elements"));
}

absl::Status CheckDropout(int64_t size, float p) {
  if (absl::Status s = CheckSize("Dropout", size); !s.ok()) return s;
  if (p >= 0.0f && p < 1.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Dropout: probability is ", p, "; give one in [0, 1)"));
}

absl::Status CheckAdam(const AdamArgs& args) {
  if (args.payload == nullptr || args.master == nullptr || args.m == nullptr ||
      args.v == nullptr || args.grad_scale == nullptr) {
    return absl::InvalidArgumentError(
        "AdamUpdate: a null pointer among payload, master, m, v, grad_scale; "
        "only gradient_sum may be null");
  }
  for (int64_t r = 0; r < args.num_ranges; ++r) {
    const AdamRange& range = args.ranges[r];
    if (range.begin < 0 || range.end < range.begin || range.hyper.step < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("AdamUpdate: range ", r, " is [", range.begin, ", ",
                       range.end, ") at step ", range.hyper.step,
                       "; give 0 <= begin <= end and a step from 1"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMatmul(const MatmulArgs& args) {
  const auto bad = [&](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("Matmul [", args.m, ", ", args.k, "] x [", args.k, ", ",
                     args.n, "] with lda ", args.lda, ", ldb ", args.ldb,
                     ", ldc ", args.ldc, ": ", what));
  };
  if (args.m < 0 || args.n < 0 || args.k < 0) return bad("a size is negative");
  if (args.lda < (args.transpose_a ? args.m : args.k) ||
      args.ldb < (args.transpose_b ? args.k : args.n) || args.ldc < args.n) {
    return bad("a row is longer than the distance between rows");
  }
  return absl::OkStatus();
}

absl::Status CheckLayerNorm(absl::string_view what,
                            const LayerNormShape& shape) {
  if (shape.rows >= 0 && shape.channels >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": shape is [", shape.rows, ", ", shape.channels,
                   "]; give at least 0 rows and at least 1 channel"));
}

absl::Status CheckHeadLoss(const HeadLossShape& shape) {
  if (shape.rows >= 0 && shape.channels >= 1 && shape.vocabulary >= 1 &&
      shape.vocabulary <= std::numeric_limits<int32_t>::max()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("head loss of ", shape.rows, " rows, ", shape.channels,
                   " channels and a vocabulary of ", shape.vocabulary,
                   ": sizes must be positive, and the vocabulary fit 31 bits"));
}

absl::Status CheckHeadLossBackward(const HeadLossBackwardArgs& args) {
  if (absl::Status s = CheckHeadLoss(args.shape); !s.ok()) return s;
  if (args.accumulate_dw && args.dw == args.w && args.dw != nullptr) {
    return absl::InvalidArgumentError(
        "head loss: dw cannot be added to what is there and take over the "
        "place of w; give dw a place of its own");
  }
  return absl::OkStatus();
}

absl::Status CheckEmbedding(absl::string_view what, int64_t rows,
                            int64_t channels, int64_t vocabulary) {
  if (rows >= 0 && channels >= 1 && vocabulary >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": [", rows, ", ", channels, "] from a table of ", vocabulary,
      " rows; give sizes of at least 0 and at least 1 channel"));
}

absl::Status BadIndex(absl::string_view what, int64_t index, int64_t position,
                      int64_t vocabulary) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": index ", index, " at position ", position,
                   " is outside the table's ", vocabulary,
                   " rows; check the tokens against the vocabulary's size"));
}

absl::Status BadTarget(int64_t target, int64_t row, int64_t vocabulary) {
  return absl::InvalidArgumentError(
      absl::StrCat("the target of row ", row, " is token ", target,
                   ", outside the vocabulary [0, ", vocabulary,
                   "): check that the data and the model use one tokenizer"));
}

}  // namespace castor::kernels
