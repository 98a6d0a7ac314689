#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/cpu_head.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/row_ops.h"

namespace castor::kernels {
namespace {

using cpu::FloatView;
using cpu::Gemm;
using cpu::Head;
using cpu::kScratchFloats;

// Forward: a tile of query rows with whole rows of scores, whose products are
// cut over keys into panels. Backward: blocks of queries x keys. The scratch of
// a thread holds what a task needs; tiles shrink with S and D to fit.
constexpr int64_t kForwardQueries = 64;
constexpr int64_t kForwardKeys = 256;
constexpr int64_t kBackwardQueries = 128;
constexpr int64_t kBackwardKeys = 256;
static_assert(kMaxAttentionPositions <= kScratchFloats / 2);
static_assert(kMaxAttentionHeadSize <= kScratchFloats / 8);

int64_t ForwardQueries(const AttentionShape& shape) {
  // The most keys that a tile sees.
  const int64_t keys = std::min(
      shape.keys, shape.mask.before + shape.mask.after + kForwardQueries);
  return std::max<int64_t>(
      1, std::min({kForwardQueries, shape.positions,
                   kScratchFloats / 2 / std::max<int64_t>(1, keys),
                   kScratchFloats / 8 / shape.head_size}));
}

// Queries [begin, begin + rows) of a head. `shape` is args', filled.
absl::Status ForwardTile(const AttentionForwardArgs& args,
                         const AttentionShape& shape, const Head& head,
                         int64_t begin, int64_t rows) {
  const int64_t d = shape.head_size;
  const int64_t panel = std::min(kForwardKeys, kScratchFloats / 4 / d);
  const int64_t first = head.band().FirstKey(begin);
  const int64_t end = head.band().EndKey(begin + rows - 1);
  const int64_t keys = end - first;

  float* s = cpu::Scratch(kScratchFloats);  // [rows, keys]
  float* q_buffer = s + kScratchFloats / 2;
  float* o_buffer = q_buffer + kScratchFloats / 8;
  float* kv_buffer = o_buffer + kScratchFloats / 8;

  const FloatView q = head.InQ(args.q).Load(begin, rows, q_buffer);
  for (int64_t j = 0; j < keys; j += panel) {
    const int64_t width = std::min(panel, keys - j);
    const FloatView k = head.InK(args.k).Load(first + j, width, kv_buffer);
    const absl::Status status =
        Gemm(false, true, rows, width, d, shape.scale, q.data, q.ld, k.data,
             k.ld, 0.0f, s + j, keys);
    if (!status.ok()) return status;
  }
  float* lse = args.lse + head.InRows(begin);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = s + r * keys;
    const int64_t from = head.band().FirstKey(begin + r) - first;
    const int64_t to = head.band().EndKey(begin + r) - first;
    if (shape.softcap > 0) {
      cpu::SoftCap(row + from, to - from, shape.softcap, nullptr);
    }
    lse[r] = cpu::Softmax(row + from, to - from);
    std::fill(row, row + from, 0.0f);
    std::fill(row + to, row + keys, 0.0f);
    for (int64_t j = from; head.drops() && j < to; j += panel) {
      const int64_t width = std::min(panel, to - j);
      head.Factors(begin + r, first + j, width, kv_buffer);
      cpu::MultiplyInto(kv_buffer, width, row + j);
    }
  }
  const cpu::HeadRows<void*> out = head.InOut(args.out);
  const bool in_place = shape.dtype == DType::kFloat32;
  float* o = in_place ? static_cast<float*>(out.at(begin)) : o_buffer;
  const int64_t ldo = in_place ? out.stride : d;
  for (int64_t j = 0; j < keys; j += panel) {
    const int64_t width = std::min(panel, keys - j);
    const FloatView v = head.InK(args.v).Load(first + j, width, kv_buffer);
    const absl::Status status =
        Gemm(false, false, rows, d, width, 1.0f, s + j, keys, v.data, v.ld,
             j > 0 ? 1.0f : 0.0f, o, ldo);
    if (!status.ok()) return status;
  }
  if (!in_place) out.Store(begin, rows, o, ldo);
  return absl::OkStatus();
}

// The backward pass has a task for each head of keys in each sample. If these
// are fewer than kEnoughTasks, the query heads that share one are cut into
// parts, each a task with sums of its own, which are added in order at the end.
constexpr int64_t kEnoughTasks = 8;

int64_t PartsOfGroup(const AttentionShape& shape) {
  const int64_t tasks = std::max<int64_t>(1, shape.batch * shape.kv_heads);
  return std::clamp<int64_t>(CeilDiv(kEnoughTasks, tasks), 1,
                             std::max<int64_t>(1, shape.group()));
}

// The workspace of the backward pass, all fp32: delta [B, H, T]; where the type
// has 16 bits the sums of dq, [B, H, T, D]; where groups are cut into P > 1
// parts their sums of dk and dv, [B, K, P, 2, S, D].
struct Workspace {
  explicit Workspace(const AttentionShape& s)
      : rows(s.batch * s.heads * s.positions),
        dq(s.dtype == DType::kFloat32 ? 0 : rows * s.head_size),
        part(s.keys * s.head_size),
        parts(PartsOfGroup(s) == 1
                  ? 0
                  : s.batch * s.kv_heads * PartsOfGroup(s) * 2 * part) {}

  int64_t floats() const { return rows + dq + parts; }

  // All in elements.
  int64_t rows, dq, part, parts;
};

// fp32 sums [.., D] of gradients, their rows `stride` apart.
struct Sums {
  float* first;
  int64_t stride;

  float* at(int64_t row) const { return first + row * stride; }
  void Clear(int64_t begin, int64_t end, int64_t columns) const {
    for (int64_t r = begin; r < end; ++r) {
      std::fill_n(at(r), columns, 0.0f);
    }
  }
};

// The sums of dk (which = 0) or dv (1) of a part of the group of b K + the head
// of keys.
Sums SumsOfPart(const AttentionBackwardArgs& args, const AttentionShape& shape,
                int64_t kv_head, int64_t part, int64_t which) {
  const Workspace workspace(shape);
  return {
      static_cast<float*>(args.workspace) + workspace.rows + workspace.dq +
          ((kv_head * PartsOfGroup(shape) + part) * 2 + which) * workspace.part,
      shape.head_size};
}

// The gradients of one head of keys and values in one sample, as far as a part
// of its query heads makes them, and of these heads: a tile of keys after the
// other, for each of them the query heads in order, for each of these its
// queries in order.
class BackwardGroup {
 public:
  // `shape` is args', filled; `kv_head` is b K + the head of keys.
  BackwardGroup(const AttentionBackwardArgs& args, const AttentionShape& shape,
                int64_t kv_head, int64_t part)
      : args_(args),
        shape_(shape),
        parts_(PartsOfGroup(shape)),
        part_(part),
        kv_head_(kv_head),
        first_head_(kv_head * shape.group() + part * shape.group() / parts_),
        end_head_(kv_head * shape.group() +
                  (part + 1) * shape.group() / parts_),
        d_(shape.head_size),
        query_tile_(std::min(kBackwardQueries, kScratchFloats / 8 / d_)),
        key_tile_(std::min(kBackwardKeys, kScratchFloats / 8 / d_)),
        in_place_(shape.dtype == DType::kFloat32),
        // q [Q, D], dout [Q, D], k, v, dk, dv [K, D], s, dp [Q, K].
        q_buffer_(cpu::Scratch(kScratchFloats)),
        dout_buffer_(q_buffer_ + query_tile_ * d_),
        k_buffer_(dout_buffer_ + query_tile_ * d_),
        v_buffer_(k_buffer_ + key_tile_ * d_),
        dk_buffer_(v_buffer_ + key_tile_ * d_),
        dv_buffer_(dk_buffer_ + key_tile_ * d_),
        s_(dv_buffer_ + key_tile_ * d_),
        dp_(s_ + kBackwardQueries * kBackwardKeys) {}

  absl::Status Run() {
    for (int64_t h = first_head_; h < end_head_; ++h) {
      const Head head = HeadOf(h);
      for (int64_t i = 0; i < shape_.positions; i += query_tile_) {
        Delta(head, i, std::min(query_tile_, shape_.positions - i));
      }
      // Otherwise the first keys meet all queries and set their sums.
      if (bounded_before()) Dq(head).Clear(0, shape_.positions, d_);
    }
    for (int64_t j = 0; j < shape_.keys; j += key_tile_) {
      const absl::Status status =
          KeyTile(j, std::min(key_tile_, shape_.keys - j));
      if (!status.ok()) return status;
    }
    for (int64_t h = first_head_; h < end_head_ && !in_place_; ++h) {
      const Head head = HeadOf(h);
      head.InQ(args_.dq).Store(0, shape_.positions, Dq(head).first, d_);
    }
    return absl::OkStatus();
  }

 private:
  // Keys [begin, end) as fp32 and the sums of their gradients.
  struct Keys {
    int64_t begin, end;
    FloatView k, v;
    Sums dk, dv;
  };

  Head HeadOf(int64_t index) const {
    return Head(shape_, args_.documents, index);
  }
  // Returns true if there may be queries that do not see the first key.
  bool bounded_before() const {
    return shape_.mask.before < AttentionMask::kUnbounded ||
           args_.documents != nullptr;
  }
  float* DeltaOf(const Head& head) const {
    return static_cast<float*>(args_.workspace) + head.InRows(0);
  }
  // Where dq is summed: in fp32 in dq itself.
  Sums Dq(const Head& head) const {
    if (!in_place_) {
      return {static_cast<float*>(args_.workspace) + Workspace(shape_).rows +
                  head.InRows(0) * d_,
              d_};
    }
    return {static_cast<float*>(head.InQ(args_.dq).first), shape_.q_stride};
  }

  // delta_i = sum_j p_ij dp_ij = out_i . dout_i (Dao et al., equation 4).
  void Delta(const Head& head, int64_t begin, int64_t rows) const {
    const FloatView out = head.InOut(args_.out).Load(begin, rows, q_buffer_);
    const FloatView dout =
        head.InOut(args_.dout).Load(begin, rows, dout_buffer_);
    for (int64_t r = 0; r < rows; ++r) {
      DeltaOf(head)[begin + r] =
          cpu::Dot(out.data + r * out.ld, dout.data + r * dout.ld, d_);
    }
  }

  // Adds all that keys [j, j + count) contribute: their dk and dv, and a part
  // of dq.
  absl::Status KeyTile(int64_t j, int64_t count) const {
    const Head any = HeadOf(first_head_);
    const auto sums = [&](void* x, float* buffer, int which) -> Sums {
      if (parts_ > 1) {
        const Sums all = SumsOfPart(args_, shape_, kv_head_, part_, which);
        return {all.at(j), all.stride};
      }
      if (!in_place_) return {buffer, d_};
      return {static_cast<float*>(any.InK(x).at(j)), shape_.kv_stride};
    };
    const Keys keys = {.begin = j,
                       .end = j + count,
                       .k = any.InK(args_.k).Load(j, count, k_buffer_),
                       .v = any.InK(args_.v).Load(j, count, v_buffer_),
                       .dk = sums(args_.dk, dk_buffer_, 0),
                       .dv = sums(args_.dv, dv_buffer_, 1)};
    const AttentionBand band = any.band();
    const int64_t first = band.FirstQuery(j);
    const int64_t end = band.EndQuery(j + count - 1);
    for (int64_t h = first_head_; h < end_head_; ++h) {
      const Head head = HeadOf(h);
      for (int64_t i = first; i < end; i += query_tile_) {
        const absl::Status status =
            Block(head, i, std::min(query_tile_, end - i), keys,
                  h == first_head_ && i == first);
        if (!status.ok()) return status;
      }
    }
    if (first >= end) {  // nobody sees them
      keys.dk.Clear(0, count, d_);
      keys.dv.Clear(0, count, d_);
    }
    if (!in_place_ && parts_ == 1) {
      any.InK(args_.dk).Store(j, count, dk_buffer_, d_);
      any.InK(args_.dv).Store(j, count, dv_buffer_, d_);
    }
    return absl::OkStatus();
  }

  // Queries [i, i + rows) of a head with the keys of the tile that one of them
  // sees. The tile's first block sets the sums.
  absl::Status Block(const Head& head, int64_t i, int64_t rows,
                     const Keys& keys, bool sets) const {
    const FloatView q = head.InQ(args_.q).Load(i, rows, q_buffer_);
    const FloatView dout = head.InOut(args_.dout).Load(i, rows, dout_buffer_);
    const int64_t begin = std::max(keys.begin, head.band().FirstKey(i));
    const int64_t end = std::min(keys.end, head.band().EndKey(i + rows - 1));
    const int64_t width = end - begin;
    const int64_t from = begin - keys.begin;  // in the tile
    const float* k = keys.k.data + from * keys.k.ld;
    const float* v = keys.v.data + from * keys.v.ld;
    absl::Status status;
    status.Update(Gemm(false, true, rows, width, d_, shape_.scale, q.data, q.ld,
                       k, keys.k.ld, 0.0f, s_, width));
    status.Update(Gemm(false, true, rows, width, d_, 1.0f, dout.data, dout.ld,
                       v, keys.v.ld, 0.0f, dp_, width));
    for (int64_t r = 0; r < rows; ++r) Row(head, i + r, begin, end, r * width);
    // Keys that the first block does not see start from zero.
    const float beta = sets ? 0.0f : 1.0f;
    if (sets) {
      for (const Sums& sums : {keys.dk, keys.dv}) {
        sums.Clear(0, from, d_);
        sums.Clear(from + width, keys.end - keys.begin, d_);
      }
    }
    status.Update(Gemm(true, false, width, d_, rows, 1.0f, s_, width, dout.data,
                       dout.ld, beta, keys.dv.at(from), keys.dv.stride));
    status.Update(Gemm(true, false, width, d_, rows, 1.0f, dp_, width, q.data,
                       q.ld, beta, keys.dk.at(from), keys.dk.stride));
    const Sums dq = Dq(head);
    const bool sets_dq = keys.begin == 0 && !bounded_before();
    status.Update(Gemm(false, false, rows, d_, width, 1.0f, dp_, width, k,
                       keys.k.ld, sets_dq ? 0.0f : 1.0f, dq.at(i), dq.stride));
    return status;
  }

  // Query i's row of a block, over keys [begin, end): scores and gradients of
  // the dropped p become the dropped p and the scores' gradients.
  void Row(const Head& head, int64_t i, int64_t begin, int64_t end,
           int64_t place) const {
    const int64_t first = std::clamp(head.band().FirstKey(i), begin, end);
    const int64_t size = std::clamp(head.band().EndKey(i), first, end) - first;
    float* const s = s_ + place;
    float* const dp = dp_ + place;
    float* const seen_s = s + (first - begin);
    float* const seen_dp = dp + (first - begin);
    float factors[kBackwardKeys], slopes[kBackwardKeys];
    if (head.drops()) head.Factors(i, first, size, factors);
    if (shape_.softcap > 0) {
      cpu::SoftCap(seen_s, size, shape_.softcap, slopes);
    }
    cpu::AttentionGradient(seen_s, seen_dp, size, args_.lse[head.InRows(i)],
                           DeltaOf(head)[i], shape_.scale,
                           head.drops() ? factors : nullptr);
    if (shape_.softcap > 0) cpu::MultiplyInto(slopes, size, seen_dp);
    std::fill(s, seen_s, 0.0f);
    std::fill(seen_s + size, s + (end - begin), 0.0f);
    std::fill(dp, seen_dp, 0.0f);
    std::fill(seen_dp + size, dp + (end - begin), 0.0f);
  }

  const AttentionBackwardArgs& args_;
  const AttentionShape& shape_;
  const int64_t parts_, part_, kv_head_, first_head_, end_head_;
  const int64_t d_, query_tile_, key_tile_;
  const bool in_place_;  // fp32: sums are formed in the gradients themselves
  float* const q_buffer_;
  float* const dout_buffer_;
  float* const k_buffer_;
  float* const v_buffer_;
  float* const dk_buffer_;
  float* const dv_buffer_;
  float* const s_;
  float* const dp_;
};

// dk (which = 0) or dv (1) of a head of keys = the sum of its parts, in order.
void AddParts(const AttentionBackwardArgs& args, const AttentionShape& shape,
              int64_t kv_head, int64_t which) {
  const int64_t size = Workspace(shape).part;
  const Sums sums = SumsOfPart(args, shape, kv_head, 0, which);
  for (int64_t part = 1; part < PartsOfGroup(shape); ++part) {
    cpu::AddInto(SumsOfPart(args, shape, kv_head, part, which).first, size,
                 sums.first);
  }
  const Head head(shape, args.documents, kv_head * shape.group());
  head.InK(which == 0 ? args.dk : args.dv)
      .Store(0, shape.keys, sums.first, sums.stride);
}

}  // namespace

int64_t AttentionForwardArgs::CpuWorkspaceBytes() const { return 0; }

absl::Status AttentionForwardArgs::RunOnCpu(const ExecContext& context) const {
  const AttentionShape filled = shape.Filled();
  const int64_t positions = filled.positions;
  const int64_t queries = ForwardQueries(filled);
  const int64_t heads = filled.batch * filled.heads;
  const int64_t tiles = CeilDiv(positions, queries);
  cpu::FirstError error;
  context.pool->ParallelFor(heads * tiles, [&](int64_t task, int) {
    // The last rows are the longest and come first, so that the loop ends with
    // short tasks.
    const int64_t begin = (tiles - 1 - task / heads) * queries;
    error.Update(ForwardTile(*this, filled,
                             Head(filled, documents, task % heads), begin,
                             std::min(queries, positions - begin)));
  });
  return error.status();
}

int64_t AttentionBackwardArgs::CpuWorkspaceBytes() const {
  return Workspace(shape.Filled()).floats() *
         static_cast<int64_t>(sizeof(float));
}

absl::Status AttentionBackwardArgs::RunOnCpu(const ExecContext& context) const {
  const AttentionShape filled = shape.Filled();
  if (filled.keys == 0) return absl::OkStatus();
  const int64_t kv_heads = filled.batch * filled.kv_heads;
  const int64_t parts = PartsOfGroup(filled);
  cpu::FirstError error;
  context.pool->ParallelFor(kv_heads * parts, [&](int64_t task, int) {
    error.Update(
        BackwardGroup(*this, filled, task / parts, task % parts).Run());
  });
  if (parts > 1) {
    context.pool->ParallelFor(kv_heads * 2, [&](int64_t task, int) {
      AddParts(*this, filled, task / 2, task % 2);
    });
  }
  return error.status();
}

}  // namespace castor::kernels
