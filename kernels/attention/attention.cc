#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace castor::kernels {

AttentionShape AttentionShape::Filled() const {
  AttentionShape s = *this;
  if (s.keys == 0) s.keys = s.positions;
  if (s.kv_heads == 0) s.kv_heads = s.heads;
  if (s.scale == 0) {
    s.scale = 1.0f / std::sqrt(static_cast<float>(s.head_size));
  }
  if (s.q_stride == 0) s.q_stride = s.heads * s.head_size;
  if (s.kv_stride == 0) s.kv_stride = s.kv_heads * s.head_size;
  if (s.key_rows == 0) s.key_rows = s.keys;
  constexpr int64_t kUnbounded = AttentionMask::kUnbounded;
  if (s.mask.before >= s.keys - 1) s.mask.before = kUnbounded;
  if (s.mask.after >= s.keys - 1 && s.mask.after > 0) s.mask.after = kUnbounded;
  return s;
}

absl::Status CheckAttentionShape(const AttentionShape& shape) {
  const AttentionShape s = shape.Filled();
  const auto bad = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attention of ", s.batch, " x ", s.positions, " positions over ",
        s.keys, " keys, ", s.heads, " heads over ", s.kv_heads, " of ",
        s.head_size, ", dropout ", s.dropout, ": ", what));
  };
  if (s.batch < 0 || s.positions < 0 || s.keys < 0 || s.heads < 0 ||
      s.kv_heads < 0 || s.head_size < 1) {
    return bad("a size is negative or the head size is not positive");
  }
  if (std::max(s.positions, s.keys) > kMaxAttentionPositions ||
      s.head_size > kMaxAttentionHeadSize) {
    return bad("use at most 131072 positions and a head size of 32768");
  }
  if (s.heads > 0 && (s.kv_heads < 1 || s.heads % s.kv_heads != 0)) {
    return bad("the heads must be a multiple of those of keys and values");
  }
  if (s.mask.before < 0 || s.mask.after < 0) {
    return bad("a query must see the key at its own place");
  }
  if (s.mask.bounded() && s.keys < s.positions) {
    return bad("under a causal mask or a window each query needs its own key");
  }
  if (!(s.scale > 0 && std::isfinite(s.scale) && s.softcap >= 0 &&
        std::isfinite(s.softcap))) {
    return bad("scale and soft cap must be positive and finite");
  }
  if (!(s.dropout >= 0 && s.dropout < 1)) {
    return bad("dropout must lie in [0, 1)");
  }
  if (s.q_stride < s.heads * s.head_size ||
      s.kv_stride < s.kv_heads * s.head_size || s.key_rows < s.keys) {
    return bad("the strides are less than what a position holds");
  }
  return absl::OkStatus();
}

absl::Status CheckAttentionShapeOnGpu(const AttentionShape& shape) {
  if (shape.head_size <= kMaxGpuHeadSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "attention with heads of ", shape.head_size,
      ": on a GPU a head has at most ", kMaxGpuHeadSize, " channels"));
}

absl::Status CheckAttentionOfDocuments(const AttentionShape& shape) {
  const AttentionShape s = shape.Filled();
  const bool whole = !s.mask.bounded();
  if ((s.mask.after == 0 || whole) && s.keys == s.positions &&
      s.key_rows == s.positions) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "attention within documents of ", s.positions, " positions over ", s.keys,
      " keys of ", s.key_rows,
      ": each position needs one query and one key, and a mask that is causal "
      "or admits all keys"));
}

namespace {

absl::Status CheckArgs(const AttentionShape& shape,
                       const DocumentRange* documents) {
  absl::Status status = CheckAttentionShape(shape);
  if (status.ok() && documents != nullptr) {
    status = CheckAttentionOfDocuments(shape);
  }
  return status;
}

}  // namespace

absl::Status AttentionForwardArgs::Check() const {
  return CheckArgs(shape, documents);
}

absl::Status AttentionBackwardArgs::Check() const {
  return CheckArgs(shape, documents);
}

}  // namespace castor::kernels
