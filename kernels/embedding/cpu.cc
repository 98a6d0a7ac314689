#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/cpu/targets.h"
#include "kernels/cpu/tiles.h"
#include "kernels/embedding/bad_index.h"
#include "kernels/embedding/embedding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

struct AddRowOp {
  HWY_INLINE VF32 operator()(VF32 a, VF32 b) const { return hn::Add(a, b); }
};

// y += row, each read from its own element on.
void AddRowImpl(DType dtype, int64_t channels, const void* row,
                int64_t row_begin, void* y, int64_t y_begin) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    T* to = At<T>(y, y_begin);
    Map(AddRowOp(), channels, to, to, At<T>(row, row_begin));
  });
}

// out [columns] (+)= the sum of the rows dy[positions[i]], in this order, for
// up to kColumnTile columns.
template <class T>
HWY_INLINE void SumRows(int64_t count, const int32_t* positions,
                        int64_t columns, int64_t stride, const T* dy, T* out,
                        bool accumulate) {
  constexpr int64_t kVectors = kColumnTile / kLanes;
  const F32 d;
  VF32 sum[kVectors];
  for (VF32& v : sum) v = hn::Zero(d);
  for (int64_t i = 0; i < count; ++i) {
    const T* row = dy + positions[i] * stride;
    if (columns == kColumnTile) {
      for (int64_t v = 0; v < kVectors; ++v) {
        sum[v] = hn::Add(sum[v], Load(row + v * kLanes));
      }
    } else {
      for (int64_t v = 0; v * kLanes < columns; ++v) {
        sum[v] =
            hn::Add(sum[v], LoadPart(row + v * kLanes, columns - v * kLanes));
      }
    }
  }
  for (int64_t v = 0; v * kLanes < columns; ++v) {
    const int64_t left = columns - v * kLanes;
    T* to = out + v * kLanes;
    if (accumulate) sum[v] = hn::Add(LoadPart(to, left), sum[v]);
    StorePart(sum[v], to, left);
  }
}
// The same for columns from `begin` on, into `out` from element `to` on.
void SumRowsImpl(DType dtype, int64_t count, const int32_t* positions,
                 int64_t begin, int64_t columns, int64_t stride, const void* dy,
                 void* out, int64_t to, bool accumulate) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    SumRows(count, positions, columns, stride, At<T>(dy, begin), At<T>(out, to),
            accumulate);
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(AddRowImpl);
HWY_EXPORT(SumRowsImpl);
}  // namespace cpu

namespace {

absl::Status CheckIndices(absl::string_view what, int64_t rows,
                          int64_t vocabulary, const int32_t* indices) {
  for (int64_t n = 0; n < rows; ++n) {
    if (indices[n] < 0 || indices[n] >= vocabulary) {
      return BadIndex(what, indices[n], n, vocabulary);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EmbeddingForwardArgs::RunOnCpu(const ExecContext& context) const {
  if (absl::Status s =
          CheckIndices("EmbeddingForward", rows, vocabulary, indices);
      !s.ok()) {
    return s;
  }
  const int64_t element = SizeOf(dtype);
  cpu::ParallelTiles(
      context, rows, cpu::RowTile(channels), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t from = indices[n] * channels;
          const int64_t to = n * channels;
          if (accumulate) {
            CASTOR_CPU_DISPATCH(AddRowImpl)
            (dtype, channels, table, from, y, to);
          } else {
            std::memcpy(static_cast<char*>(y) + to * element,
                        static_cast<const char*>(table) + from * element,
                        channels * element);
          }
        }
      });
  return absl::OkStatus();
}

int64_t EmbeddingBackwardArgs::CpuWorkspaceBytes() const { return 0; }

absl::Status EmbeddingBackwardArgs::RunOnCpu(const ExecContext& context) const {
  if (absl::Status s =
          CheckIndices("EmbeddingBackward", rows, vocabulary, indices);
      !s.ok()) {
    return s;
  }
  const int64_t element = SizeOf(dtype);
  if (!accumulate) {
    cpu::ParallelTiles(
        context, vocabulary, cpu::RowTile(channels),
        [&](int64_t begin, int64_t end) {
          std::memset(static_cast<char*>(dtable) + begin * channels * element,
                      0, (end - begin) * channels * element);
        });
  }
  // Positions of equal index side by side, in the order of n.
  std::vector<int32_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return indices[a] < indices[b];
  });
  // Tasks: whole groups of equal index, at least kElementTile elements of them,
  // times slices of columns, so that one frequent token is not one task.
  std::vector<int64_t> group_begin;  // of each group, and the end
  std::vector<int64_t> task_group;   // first group of each task, and the end
  const int64_t task_rows = cpu::RowTile(channels);
  for (int64_t i = 0, task_begin = 0; i < rows; ++i) {
    if (i > 0 && indices[order[i]] == indices[order[i - 1]]) continue;
    if (i == 0 || i - task_begin >= task_rows) {
      task_group.push_back(static_cast<int64_t>(group_begin.size()));
      task_begin = i;
    }
    group_begin.push_back(i);
  }
  task_group.push_back(static_cast<int64_t>(group_begin.size()));
  group_begin.push_back(rows);
  const int64_t slice = 4 * cpu::kColumnTile;
  const int64_t slices = (channels + slice - 1) / slice;
  const int64_t tasks = (static_cast<int64_t>(task_group.size()) - 1) * slices;
  cpu::ParallelTiles(context, tasks, 1, [&](int64_t task, int64_t /*end*/) {
    const int64_t first = task % slices * slice;
    const int64_t last = std::min(channels, first + slice);
    for (int64_t g = task_group[task / slices];
         g < task_group[task / slices + 1]; ++g) {
      const int32_t* positions = order.data() + group_begin[g];
      const int64_t count = group_begin[g + 1] - group_begin[g];
      const int64_t row = indices[positions[0]];
      for (int64_t c = first; c < last; c += cpu::kColumnTile) {
        const int64_t columns = std::min(cpu::kColumnTile, last - c);
        CASTOR_CPU_DISPATCH(SumRowsImpl)
        (dtype, count, positions, c, columns, channels, dy, dtable,
         row * channels + c, accumulate);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
