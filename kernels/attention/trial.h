// Trials for the tests of attention: random operands in the layouts that
// callers use, and both passes over them.
#ifndef CASTOR_KERNELS_ATTENTION_TRIAL_H_
#define CASTOR_KERNELS_ATTENTION_TRIAL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "base/document_range.h"
#include "kernels/attention/attention.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {

// Layouts of q, k and v.
enum class AttentionLayout {
  kSeparate,  // three arrays
  kPacked,    // parts of one array [B, T, (H + 2 K) D]; T == S
  kRoomy,     // three arrays; k and v have room for two more positions
};

// q, k and v, or their gradients. Part 0 is q [B T, H D], parts 1 and 2 are k
// and v [B S, K D].
class AttentionParts {
 public:
  // Arrays begin `shift` elements after a multiple of 64 bytes. `shape` is
  // filled.
  AttentionParts(const AttentionShape& shape, AttentionLayout layout,
                 int64_t shift)
      : shape_(shape), packed_(layout == AttentionLayout::kPacked) {
    for (int part = 0; part < (packed_ ? 1 : 3); ++part) {
      buffers_.emplace_back(shape.dtype,
                            shape.batch *
                                (part == 0 ? shape.positions : shape.key_rows) *
                                Stride(part),
                            shift);
    }
  }

  int64_t rows(int part) const {
    return shape_.batch * (part == 0 ? shape_.positions : shape_.keys);
  }
  int64_t width(int part) const {
    return (part == 0 ? shape_.heads : shape_.kv_heads) * shape_.head_size;
  }
  double Get(int part, int64_t row, int64_t channel) const {
    return buffers_[Buffer(part)][At(part, row, channel)];
  }
  void Set(int part, int64_t row, int64_t channel, double value) {
    buffers_[Buffer(part)].Set(At(part, row, channel), value);
  }
  // Returns all elements of a part, row by row.
  std::vector<double> Values(int part) const {
    std::vector<double> values;
    for (int64_t row = 0; row < rows(part); ++row) {
      for (int64_t c = 0; c < width(part); ++c) {
        values.push_back(Get(part, row, c));
      }
    }
    return values;
  }
  // Fills with random numbers, the same in every layout.
  void FillNormal(std::mt19937_64& random, double scale) {
    std::normal_distribution<double> normal(0, scale);
    for (int part = 0; part < 3; ++part) {
      for (int64_t row = 0; row < rows(part); ++row) {
        for (int64_t c = 0; c < width(part); ++c) {
          Set(part, row, c, normal(random));
        }
      }
    }
  }
  void CopyFrom(const AttentionParts& other) {
    for (int part = 0; part < 3; ++part) {
      for (int64_t row = 0; row < rows(part); ++row) {
        for (int64_t c = 0; c < width(part); ++c) {
          Set(part, row, c, other.Get(part, row, c));
        }
      }
    }
  }
  // Returns true for equal bits; all NaNs are equal, -0 differs from 0.
  bool SameBits(const AttentionParts& other) const {
    for (int part = 0; part < 3; ++part) {
      for (int64_t row = 0; row < rows(part); ++row) {
        for (int64_t c = 0; c < width(part); ++c) {
          const double a = Get(part, row, c), b = other.Get(part, row, c);
          if (std::isnan(a) && std::isnan(b)) continue;
          if (a != b || std::signbit(a) != std::signbit(b)) return false;
        }
      }
    }
    return true;
  }
  double Largest() const {
    double largest = 0;
    for (int part = 0; part < 3; ++part) {
      for (double x : Values(part)) largest = std::max(largest, std::abs(x));
    }
    return largest;
  }
  bool GuardsIntact() const {
    return std::all_of(buffers_.begin(), buffers_.end(),
                       [](const GuardedBuffer& x) { return x.GuardsIntact(); });
  }

  std::vector<GuardedBuffer>& buffers() { return buffers_; }
  // Returns the address of a part's first element, if buffer i begins at
  // pointers[i].
  void* In(const std::vector<void*>& pointers, int part) const {
    return static_cast<char*>(pointers[Buffer(part)]) +
           At(part, 0, 0) * SizeOf(shape_.dtype);
  }
  void* data(int part) {
    std::vector<void*> pointers;
    for (GuardedBuffer& x : buffers_) pointers.push_back(x.data());
    return In(pointers, part);
  }

 private:
  int Buffer(int part) const { return packed_ ? 0 : part; }
  int64_t Stride(int part) const {
    return part == 0 ? shape_.q_stride : shape_.kv_stride;
  }
  int64_t At(int part, int64_t row, int64_t channel) const {
    const int64_t first =
        packed_ && part > 0 ? width(0) + (part - 1) * width(1) : 0;
    if (part > 0) {
      const int64_t keys = std::max<int64_t>(1, shape_.keys);
      row = row / keys * shape_.key_rows + row % keys;
    }
    return first + row * Stride(part) + channel;
  }

  AttentionShape shape_;
  bool packed_;
  std::vector<GuardedBuffer> buffers_;
};

// The documents of `batch` samples, [B, T]: of the first one they have these
// lengths, whose sum is T, and each other one has them in an order that begins
// one length further on.
inline std::vector<DocumentRange> DocumentsOfLengths(
    int64_t batch, const std::vector<int64_t>& lengths) {
  std::vector<DocumentRange> documents;
  for (int64_t b = 0; b < batch; ++b) {
    int32_t begin = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto length = static_cast<int32_t>(
          lengths[(i + static_cast<size_t>(b)) % lengths.size()]);
      documents.insert(documents.end(), static_cast<size_t>(length),
                       {begin, begin + length});
      begin += length;
    }
  }
  return documents;
}

struct AttentionTrial {
  struct Options {
    AttentionLayout layout = AttentionLayout::kSeparate;
    int64_t shift = 0;
    uint64_t seed = 5;
    double scale = 1;  // of q, k and v
    // As in AttentionForwardArgs; none: each sample is one.
    std::vector<DocumentRange> documents = {};
  };

  AttentionTrial(const AttentionShape& s, const Options& options)
      : shape(LaidOut(s, options.layout)),
        documents(options.documents),
        x(shape, options.layout, options.shift),
        dx(shape, options.layout, options.shift),
        out(s.dtype, Elements(), options.shift),
        dout(s.dtype, Elements(), options.shift),
        lse(DType::kFloat32, s.batch * s.heads * s.positions, options.shift) {
    std::mt19937_64 random(options.seed);
    x.FillNormal(random, options.scale);
    dout.FillNormal(random);
  }
  explicit AttentionTrial(const AttentionShape& s)
      : AttentionTrial(s, Options()) {}

  // Both passes run on the host.
  absl::Status Forward(const ExecContext& context) {
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        AttentionForwardArgs{.shape = shape}.CpuWorkspaceBytes());
    const absl::Status status = kernels::Run(
        context, AttentionForwardArgs{.shape = shape,
                                      .q = x.data(0),
                                      .k = x.data(1),
                                      .v = x.data(2),
                                      .documents = documents_or_null(),
                                      .out = out.data(),
                                      .lse = lse.floats(),
                                      .workspace = workspace.data()});
    return Guarded(status, workspace);
  }
  absl::Status Backward(const ExecContext& context) {
    GuardedBuffer workspace = GuardedBuffer::Workspace(
        AttentionBackwardArgs{.shape = shape}.CpuWorkspaceBytes());
    const absl::Status status = kernels::Run(
        context, AttentionBackwardArgs{.shape = shape,
                                       .q = x.data(0),
                                       .k = x.data(1),
                                       .v = x.data(2),
                                       .documents = documents_or_null(),
                                       .out = out.data(),
                                       .lse = lse.floats(),
                                       .dout = dout.data(),
                                       .dq = dx.data(0),
                                       .dk = dx.data(1),
                                       .dv = dx.data(2),
                                       .workspace = workspace.data()});
    return Guarded(status, workspace);
  }
  absl::Status Both(const ExecContext& context) {
    const absl::Status status = Forward(context);
    return status.ok() ? Backward(context) : status;
  }

  bool GuardsIntact() const {
    return x.GuardsIntact() && dx.GuardsIntact() && out.GuardsIntact() &&
           dout.GuardsIntact() && lse.GuardsIntact();
  }
  bool SameResults(const AttentionTrial& other) const {
    return out.SameBits(other.out) && lse.SameBits(other.lse) &&
           dx.SameBits(other.dx);
  }

  // Null if there are none.
  const DocumentRange* documents_or_null() const {
    return documents.empty() ? nullptr : documents.data();
  }

  AttentionShape shape;
  std::vector<DocumentRange> documents;
  AttentionParts x, dx;
  GuardedBuffer out, dout, lse;

 private:
  static AttentionShape LaidOut(AttentionShape s, AttentionLayout layout) {
    s = s.Filled();
    if (layout == AttentionLayout::kPacked) {
      s.q_stride = s.kv_stride = (s.heads + 2 * s.kv_heads) * s.head_size;
    }
    if (layout == AttentionLayout::kRoomy) s.key_rows = s.keys + 2;
    return s;
  }
  int64_t Elements() const {
    return shape.batch * shape.positions * shape.heads * shape.head_size;
  }
  absl::Status Guarded(const absl::Status& status,
                       const GuardedBuffer& workspace) const {
    if (!status.ok() || (GuardsIntact() && workspace.GuardsIntact())) {
      return status;
    }
    return absl::InternalError("bytes outside of the arrays were written");
  }
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ATTENTION_TRIAL_H_
