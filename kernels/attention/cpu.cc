#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "kernels/attention/attention.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/dropout/dropout.h"

namespace castor::kernels {
namespace {

using cpu::AsFloat;
using cpu::FloatView;
using cpu::Gemm;
using cpu::kScratchFloats;

// Forward: a tile of query rows with whole rows of scores, whose products are
// cut over keys into panels. Backward: blocks of queries x keys. The scratch of
// a thread holds what a task needs; tiles shrink with T and D to fit.
constexpr int64_t kForwardQueries = 64;
constexpr int64_t kForwardKeys = 256;
constexpr int64_t kBackwardQueries = 128;
constexpr int64_t kBackwardKeys = 256;
static_assert(kMaxAttentionPositions <= kScratchFloats / 2);
static_assert(kMaxAttentionHeadSize <= kScratchFloats / 8);

// One head of one sample: where it lies, and its dropout.
class Head {
 public:
  Head(const AttentionShape& shape, int64_t index)
      : shape_(shape),
        index_(index),
        b_(index / shape.heads),
        h_(index % shape.heads),
        scale_(1.0f / std::sqrt(static_cast<float>(shape.head_size))),
        threshold_(DropoutThreshold(shape.dropout)),
        kept_(DropoutScale(shape.dropout)) {}

  DType dtype() const { return shape_.dtype; }
  int64_t size() const { return shape_.head_size; }
  int64_t channels() const { return shape_.heads * shape_.head_size; }
  float scale() const { return scale_; }
  bool drops() const { return shape_.dropout > 0; }

  // The number of elements before row `position` of part 0 (q), 1 (k) or 2 (v)
  // of [B, T, 3C].
  int64_t InQkv(int part, int64_t position) const {
    return (b_ * shape_.positions + position) * 3 * channels() +
           part * channels() + h_ * size();
  }
  // The same in [B, T, C] and in [B, H, T].
  int64_t InOut(int64_t position) const {
    return (b_ * shape_.positions + position) * channels() + h_ * size();
  }
  int64_t InRows(int64_t position) const {
    return index_ * shape_.positions + position;
  }
  // The number of keys that query i sees.
  int64_t KeysOf(int64_t i) const {
    return shape_.causal ? i + 1 : shape_.positions;
  }
  void Factors(int64_t i, int64_t j, int64_t size, float* factors) const {
    cpu::DropoutMask(shape_.key,
                     static_cast<uint64_t>(InRows(i)) *
                             static_cast<uint64_t>(shape_.positions) +
                         static_cast<uint64_t>(j),
                     size, threshold_, kept_, factors);
  }

  // Rows [begin, begin + rows) of a part as fp32.
  FloatView Rows(const void* qkv, int part, int64_t begin, int64_t rows,
                 float* buffer) const {
    return AsFloat(dtype(), cpu::Offset(dtype(), qkv, InQkv(part, begin)),
                   3 * channels(), rows, size(), buffer);
  }
  FloatView OutRows(const void* out, int64_t begin, int64_t rows,
                    float* buffer) const {
    return AsFloat(dtype(), cpu::Offset(dtype(), out, InOut(begin)), channels(),
                   rows, size(), buffer);
  }

 private:
  const AttentionShape& shape_;
  const int64_t index_, b_, h_;
  const float scale_;
  const uint32_t threshold_;
  const float kept_;
};

int64_t ForwardQueries(const AttentionShape& shape) {
  return std::max<int64_t>(
      1, std::min({kForwardQueries, shape.positions,
                   kScratchFloats / 2 / std::max<int64_t>(1, shape.positions),
                   kScratchFloats / 8 / shape.head_size}));
}

absl::Status ForwardTile(const AttentionForwardArgs& args, const Head& head,
                         int64_t begin, int64_t rows) {
  const AttentionShape& shape = args.shape;
  const int64_t d = shape.head_size;
  const int64_t panel = std::min(kForwardKeys, kScratchFloats / 4 / d);
  const int64_t keys = head.KeysOf(begin + rows - 1);

  float* s = cpu::Scratch(kScratchFloats);  // [rows, keys]
  float* q_buffer = s + kScratchFloats / 2;
  float* o_buffer = q_buffer + kScratchFloats / 8;
  float* kv_buffer = o_buffer + kScratchFloats / 8;

  const FloatView q = head.Rows(args.qkv, 0, begin, rows, q_buffer);
  for (int64_t j = 0; j < keys; j += panel) {
    const int64_t width = std::min(panel, keys - j);
    const FloatView k = head.Rows(args.qkv, 1, j, width, kv_buffer);
    const absl::Status status =
        Gemm(false, true, rows, width, d, head.scale(), q.data, q.ld, k.data,
             k.ld, 0.0f, s + j, keys);
    if (!status.ok()) return status;
  }
  float* lse = args.lse + head.InRows(begin);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = s + r * keys;
    const int64_t seen = head.KeysOf(begin + r);
    lse[r] = cpu::Softmax(row, seen);
    std::fill(row + seen, row + keys, 0.0f);
    for (int64_t j = 0; head.drops() && j < seen; j += panel) {
      const int64_t width = std::min(panel, seen - j);
      head.Factors(begin + r, j, width, kv_buffer);
      cpu::MultiplyInto(kv_buffer, width, row + j);
    }
  }
  void* out = cpu::Offset(shape.dtype, args.out, head.InOut(begin));
  const bool in_place = shape.dtype == DType::kFloat32;
  float* o = in_place ? static_cast<float*>(out) : o_buffer;
  const int64_t ldo = in_place ? head.channels() : d;
  for (int64_t j = 0; j < keys; j += panel) {
    const int64_t width = std::min(panel, keys - j);
    const FloatView v = head.Rows(args.qkv, 2, j, width, kv_buffer);
    const absl::Status status =
        Gemm(false, false, rows, d, width, 1.0f, s + j, keys, v.data, v.ld,
             j > 0 ? 1.0f : 0.0f, o, ldo);
    if (!status.ok()) return status;
  }
  if (!in_place) {
    cpu::StoreTile(shape.dtype, o, ldo, rows, d, out, head.channels());
  }
  return absl::OkStatus();
}

// The workspace of the backward pass: delta [B, H, T], and where the type has
// 16 bits the sums of dq in fp32, [B, H, T, D].
int64_t Rows(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.positions;
}

class BackwardHead {
 public:
  BackwardHead(const AttentionBackwardArgs& args, int64_t index)
      : args_(args),
        head_(args.shape, index),
        d_(args.shape.head_size),
        positions_(args.shape.positions),
        query_tile_(std::min(kBackwardQueries, kScratchFloats / 8 / d_)),
        key_tile_(std::min(kBackwardKeys, kScratchFloats / 8 / d_)),
        in_place_(args.shape.dtype == DType::kFloat32),
        // q [Q, D], dout [Q, D], k, v, dk, dv [K, D], s, dp [Q, K].
        q_buffer_(cpu::Scratch(kScratchFloats)),
        dout_buffer_(q_buffer_ + query_tile_ * d_),
        k_buffer_(dout_buffer_ + query_tile_ * d_),
        v_buffer_(k_buffer_ + key_tile_ * d_),
        dk_buffer_(v_buffer_ + key_tile_ * d_),
        dv_buffer_(dk_buffer_ + key_tile_ * d_),
        s_(dv_buffer_ + key_tile_ * d_),
        dp_(s_ + kBackwardQueries * kBackwardKeys),
        delta_(static_cast<float*>(args.workspace) + head_.InRows(0)) {
    if (in_place_) {
      dq_ = static_cast<float*>(args.dqkv) + head_.InQkv(0, 0);
      dk_ = static_cast<float*>(args.dqkv) + head_.InQkv(1, 0);
      dv_ = static_cast<float*>(args.dqkv) + head_.InQkv(2, 0);
      ld_ = 3 * head_.channels();
    } else {
      dq_ = static_cast<float*>(args.workspace) + Rows(args.shape) +
            head_.InRows(0) * d_;
      ld_ = d_;
    }
  }

  absl::Status Run() {
    for (int64_t i = 0; i < positions_; i += query_tile_) {
      Delta(i, std::min(query_tile_, positions_ - i));
    }
    for (int64_t j = 0; j < positions_; j += key_tile_) {
      const absl::Status status =
          KeyTile(j, std::min(key_tile_, positions_ - j));
      if (!status.ok()) return status;
    }
    if (!in_place_) Store(0, 0, positions_, dq_);
    return absl::OkStatus();
  }

 private:
  // delta_i = sum_j p_ij dp_ij = out_i . dout_i (Dao et al., equation 4).
  void Delta(int64_t begin, int64_t rows) {
    const FloatView out = head_.OutRows(args_.out, begin, rows, q_buffer_);
    const FloatView dout = head_.OutRows(args_.dout, begin, rows, dout_buffer_);
    for (int64_t r = 0; r < rows; ++r) {
      delta_[begin + r] =
          cpu::Dot(out.data + r * out.ld, dout.data + r * dout.ld, d_);
    }
  }

  // Adds all that keys [j, j + keys) contribute: their dk and dv, and a part of
  // dq.
  absl::Status KeyTile(int64_t j, int64_t keys) {
    const FloatView k = head_.Rows(args_.qkv, 1, j, keys, k_buffer_);
    const FloatView v = head_.Rows(args_.qkv, 2, j, keys, v_buffer_);
    float* dk = in_place_ ? dk_ + j * ld_ : dk_buffer_;
    float* dv = in_place_ ? dv_ + j * ld_ : dv_buffer_;
    // The first query that sees one of the keys.
    const int64_t first = args_.shape.causal ? j : 0;
    for (int64_t i = first; i < positions_; i += query_tile_) {
      const int64_t rows = std::min(query_tile_, positions_ - i);
      // The keys that some query of the tile sees.
      const int64_t width = std::min(keys, head_.KeysOf(i + rows - 1) - j);
      const absl::Status status =
          Block(i, rows, j, width, keys, i == first, k, v, dk, dv);
      if (!status.ok()) return status;
    }
    if (!in_place_) {
      Store(1, j, keys, dk);
      Store(2, j, keys, dv);
    }
    return absl::OkStatus();
  }

  absl::Status Block(int64_t i, int64_t rows, int64_t j, int64_t width,
                     int64_t keys, bool first, const FloatView& k,
                     const FloatView& v, float* dk, float* dv) {
    const FloatView q = head_.Rows(args_.qkv, 0, i, rows, q_buffer_);
    const FloatView dout = head_.OutRows(args_.dout, i, rows, dout_buffer_);
    absl::Status status;
    status.Update(Gemm(false, true, rows, width, d_, head_.scale(), q.data,
                       q.ld, k.data, k.ld, 0.0f, s_, width));
    status.Update(Gemm(false, true, rows, width, d_, 1.0f, dout.data, dout.ld,
                       v.data, v.ld, 0.0f, dp_, width));
    float factors[kBackwardKeys];
    const float* lse = args_.lse + head_.InRows(0);
    for (int64_t r = 0; r < rows; ++r) {
      float* s = s_ + r * width;
      float* dp = dp_ + r * width;
      const int64_t seen =
          std::clamp<int64_t>(head_.KeysOf(i + r) - j, 0, width);
      if (head_.drops()) head_.Factors(i + r, j, seen, factors);
      cpu::AttentionGradient(s, dp, seen, lse[i + r], delta_[i + r],
                             head_.scale(), head_.drops() ? factors : nullptr);
      std::fill(s + seen, s + width, 0.0f);
      std::fill(dp + seen, dp + width, 0.0f);
    }
    // The first block of queries sets the sums; keys that it does not see start
    // from zero.
    const float beta = first ? 0.0f : 1.0f;
    if (first) {
      for (int64_t r = width; r < keys; ++r) {
        std::fill_n(dk + r * ld_, d_, 0.0f);
        std::fill_n(dv + r * ld_, d_, 0.0f);
      }
    }
    status.Update(Gemm(true, false, width, d_, rows, 1.0f, s_, width, dout.data,
                       dout.ld, beta, dv, ld_));
    status.Update(Gemm(true, false, width, d_, rows, 1.0f, dp_, width, q.data,
                       q.ld, beta, dk, ld_));
    status.Update(Gemm(false, false, rows, d_, width, 1.0f, dp_, width, k.data,
                       k.ld, j > 0 ? 1.0f : 0.0f, dq_ + i * ld_, ld_));
    return status;
  }

  void Store(int part, int64_t begin, int64_t rows, const float* x) {
    const DType dtype = args_.shape.dtype;
    cpu::StoreTile(dtype, x, d_, rows, d_,
                   cpu::Offset(dtype, args_.dqkv, head_.InQkv(part, begin)),
                   3 * head_.channels());
  }

  const AttentionBackwardArgs& args_;
  const Head head_;
  const int64_t d_, positions_, query_tile_, key_tile_;
  const bool in_place_;  // fp32: sums are formed in dqkv itself
  float *const q_buffer_,
      *const dout_buffer_, *const k_buffer_,
                               *const v_buffer_,
                                   *const dk_buffer_,
                                       *const dv_buffer_,
                                           *const s_, *const dp_, *const delta_;
  float *dq_ = nullptr, *dk_ = nullptr, *dv_ = nullptr;
  int64_t ld_ = 0;
};

}  // namespace

int64_t AttentionForwardArgs::CpuWorkspaceBytes() const { return 0; }

absl::Status AttentionForwardArgs::RunOnCpu(const ExecContext& context) const {
  const int64_t positions = shape.positions;
  const int64_t queries = ForwardQueries(shape);
  const int64_t heads = shape.batch * shape.heads;
  const int64_t tiles = CeilDiv(positions, queries);
  cpu::FirstError error;
  context.pool->ParallelFor(heads * tiles, [&](int64_t task, int) {
    // The last rows are the longest and come first, so that the loop ends with
    // short tasks.
    const int64_t begin = (tiles - 1 - task / heads) * queries;
    error.Update(ForwardTile(*this, Head(shape, task % heads), begin,
                             std::min(queries, positions - begin)));
  });
  return error.status();
}

int64_t AttentionBackwardArgs::CpuWorkspaceBytes() const {
  const int64_t sums =
      shape.dtype == DType::kFloat32 ? 0 : Rows(shape) * shape.head_size;
  return (Rows(shape) + sums) * static_cast<int64_t>(sizeof(float));
}

absl::Status AttentionBackwardArgs::RunOnCpu(const ExecContext& context) const {
  if (shape.positions == 0) return absl::OkStatus();
  cpu::FirstError error;
  context.pool->ParallelFor(shape.batch * shape.heads, [&](int64_t task, int) {
    error.Update(BackwardHead(*this, task).Run());
  });
  return error.status();
}

}  // namespace castor::kernels
