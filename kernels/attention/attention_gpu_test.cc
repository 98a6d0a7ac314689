// Attention on the GPU against the host's, within what rounding explains, and
// the same bits in every order of threads.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/backward_program.h"
#include "kernels/attention/forward_program.h"
#include "kernels/attention/mma_backward_program.h"
#include "kernels/attention/mma_forward_program.h"
#include "kernels/attention/ranges_program.h"
#include "kernels/attention/trial.h"
#include "kernels/testing/gpu_operator_test.h"

namespace castor::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Layout = AttentionLayout;

struct Trial : AttentionTrial {
  using AttentionTrial::AttentionTrial;

  absl::Status RunOnDevice() {
    OnDevice on;
    const int64_t bytes =
        std::max(AttentionForwardArgs{.shape = shape}.GpuWorkspaceBytes(),
                 AttentionBackwardArgs{.shape = shape}.GpuWorkspaceBytes());
    const GuardedBuffer buffer = GuardedBuffer::Workspace(bytes);
    void* const workspace = on.CopyBytes(buffer.data(), bytes);
    std::vector<void*> px, pdx;
    for (GuardedBuffer& buffer : x.buffers()) px.push_back(on.Out(buffer));
    for (GuardedBuffer& buffer : dx.buffers()) pdx.push_back(on.Out(buffer));
    void* pout = on.Out(out);
    float* plse = on.OutFloats(lse);
    const DocumentRange* const where =
        documents.empty() ? nullptr : on.In(documents);
    absl::Status status = kernels::Run(
        on.context(), AttentionForwardArgs{.shape = shape,
                                           .q = x.In(px, 0),
                                           .k = x.In(px, 1),
                                           .v = x.In(px, 2),
                                           .documents = where,
                                           .out = pout,
                                           .lse = plse,
                                           .workspace = workspace});
    status.Update(kernels::Run(on.context(),
                               AttentionBackwardArgs{.shape = shape,
                                                     .q = x.In(px, 0),
                                                     .k = x.In(px, 1),
                                                     .v = x.In(px, 2),
                                                     .documents = where,
                                                     .out = pout,
                                                     .lse = plse,
                                                     .dout = on.In(dout),
                                                     .dq = dx.In(pdx, 0),
                                                     .dk = dx.In(pdx, 1),
                                                     .dv = dx.In(pdx, 2),
                                                     .workspace = workspace}));
    status.Update(on.Finish());
    return status;
  }
};

template <class Values>
void ExpectNear(const Values& got, const Values& expected, double tolerance,
                const testing::Message& what) {
  const int64_t size = static_cast<int64_t>(got.size());
  for (int64_t i = 0; i < size; ++i) {
    ASSERT_LE(std::abs(got[i] - expected[i]),
              tolerance * (1 + std::abs(expected[i])))
        << what << " at " << i << " of " << size << ": " << got[i]
        << " against " << expected[i];
  }
}

AttentionShape ShapeOf(int64_t batch, int64_t positions, int64_t heads,
                       int64_t head_size) {
  AttentionShape shape;
  shape.batch = batch;
  shape.positions = positions;
  shape.heads = heads;
  shape.head_size = head_size;
  return shape;
}

class AttentionOnGpu : public NearOperatorTest {
 protected:
  void ExpectHosts(const AttentionShape& shape,
                   AttentionTrial::Options options) {
    const auto what = testing::Message()
                      << DTypeName(shape.dtype) << " [" << shape.batch << ", "
                      << shape.positions << " of " << shape.keys << ", "
                      << shape.heads << " of " << shape.kv_heads << ", "
                      << shape.head_size << "] before " << shape.mask.before
                      << " after " << shape.mask.after << " cap "
                      << shape.softcap << " dropout " << shape.dropout
                      << " shift " << options.shift << " documents "
                      << options.documents.size();
    Trial got(shape, options);
    options.shift = 0;
    Trial expected(shape, options);
    ASSERT_TRUE(expected.Both(host_).ok()) << what;
    const absl::Status status = got.RunOnDevice();
    ASSERT_TRUE(status.ok()) << what << ": " << status;
    ASSERT_TRUE(got.GuardsIntact()) << what;
    // Elements that dropout keeps are made larger, and so are their roundings.
    const double unit =
        (shape.dtype == DType::kFloat32 ? 0x1p-17
                                        : 4 * UnitRoundoff(shape.dtype)) /
        (1 - shape.dropout);
    ExpectNear(got.lse, expected.lse, 0x1p-17, what);
    ExpectNear(got.out, expected.out, unit, what);
    for (int part = 0; part < 3; ++part) {
      ExpectNear(got.dx.Values(part), expected.dx.Values(part), 2 * unit,
                 testing::Message() << what << " part " << part);
    }
  }

  // In every order of threads.
  void ExpectOneResult(const AttentionShape& shape,
                       const AttentionTrial::Options& options) {
    Trial first(shape, options);
    ASSERT_TRUE(first.RunOnDevice().ok());
    TestDevice::Get()->InEveryOrder([&] {
      Trial again(shape, options);
      ASSERT_TRUE(again.RunOnDevice().ok());
      EXPECT_TRUE(again.SameResults(first));
    });
  }
};

TEST_F(AttentionOnGpu, AgreesWithTheHost) {
  struct Case {
    int64_t batch, positions, heads, head_size;
    int64_t shift = 0;
  };
  uint64_t seed = 0;
  for (DType dtype : kAllTypes) {
    for (const Case& c :
         {Case{1, 1, 1, 1}, Case{2, 7, 3, 16}, Case{1, 63, 1, 24},
          Case{1, 64, 2, 64}, Case{1, 65, 1, 65}, Case{1, 131, 1, 80},
          Case{1, 70, 1, 128}, Case{1, 200, 1, 64}, Case{1, 130, 2, 8, 3},
          Case{1, 40, 1, 72, 8}}) {
      for (bool causal : {true, false}) {
        for (float dropout : {0.0f, 0.2f}) {
          // Half of the grid on the host, where a thread is slow.
          if (TestDevice::Get()->emulated() && causal == (dropout > 0) &&
              c.positions > 64) {
            continue;
          }
          AttentionShape shape =
              ShapeOf(c.batch, c.positions, c.heads, c.head_size);
          shape.dtype = dtype;
          if (!causal) shape.mask = AttentionMask::All();
          shape.dropout = dropout;
          shape.key = {17, ++seed};
          ExpectHosts(
              shape,
              {.layout = Layout::kPacked, .shift = c.shift, .seed = seed});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Windows that begin and end within tiles, at their edges, and so that a tile's
// first keys are seen by some of its rows alone.
TEST_F(AttentionOnGpu, AgreesWithTheHostForGroupsWindowsAndCaches) {
  struct Case {
    int64_t positions, extra, heads, kv_heads, head_size, window;
    float softcap = 0;
  };
  uint64_t seed = 100;
  int drops = 0;  // which half of the grid runs where a thread is slow
  for (DType dtype : kAllTypes) {
    drops ^= 1;
    for (const Case& c :
         {Case{7, 0, 6, 2, 16, 3}, Case{1, 90, 2, 1, 16, 0},
          Case{5, 70, 2, 1, 24, 0}, Case{130, 0, 1, 1, 8, 1},
          Case{140, 0, 2, 1, 16, 64}, Case{150, 0, 1, 1, 72, 33},
          Case{70, 200, 2, 2, 8, 65}, Case{65, 0, 4, 1, 64, 0, 3},
          Case{66, 3, 2, 1, 80, 40, 2}, Case{260, 0, 1, 1, 8, 129}}) {
      drops ^= 1;
      for (float dropout : {0.0f, 0.2f}) {
        ++seed;
        if (TestDevice::Get()->emulated() && c.positions > 64 &&
            (drops == 1) != (dropout > 0)) {
          continue;
        }
        AttentionShape shape = ShapeOf(2, c.positions, c.heads, c.head_size);
        if (c.positions > 64) shape.batch = 1;
        shape.keys = c.positions + c.extra;
        shape.kv_heads = c.kv_heads;
        shape.dtype = dtype;
        shape.mask = AttentionMask::Causal(c.window);
        shape.softcap = c.softcap;
        if (c.softcap > 0) shape.scale = 0.4f;
        shape.dropout = dropout;
        shape.key = {17, seed};
        ExpectHosts(shape,
                    {.layout = seed % 3 ? Layout::kSeparate : Layout::kRoomy,
                     .shift = static_cast<int64_t>(seed) % 2,
                     .seed = seed});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Documents that begin and end within tiles and at their edges, so that a tile
// lies in one of them, at the edge of two, or has several.
TEST_F(AttentionOnGpu, AgreesWithTheHostWithinDocuments) {
  struct Case {
    std::vector<int64_t> lengths;
    int64_t batch, heads, kv_heads, head_size, window;
    float softcap = 0, dropout = 0;
    bool causal = true;
  };
  uint64_t seed = 400;
  for (DType dtype : kAllTypes) {
    int64_t cases = static_cast<int64_t>(dtype);
    for (const Case& c :
         {Case{{1}, 2, 1, 1, 16, 0}, Case{{3, 1, 5, 1}, 3, 6, 2, 16, 0},
          Case{{64, 32, 34}, 1, 2, 1, 8, 0, 0, 0.2f},
          Case{{31, 70, 1, 98}, 1, 1, 1, 64, 0},
          Case{{130, 5, 65}, 1, 2, 1, 24, 40, 2},
          Case{{20, 17, 30}, 2, 2, 1, 80, 0, 0, 0.2f},
          Case{{40, 33}, 1, 1, 1, 256, 0},
          Case{{3, 1, 5, 1}, 3, 6, 2, 16, 0, 0, 0, false},
          Case{{64, 32, 34}, 1, 2, 1, 8, 0, 2, 0, false},
          Case{{31, 70, 1, 98}, 1, 1, 1, 64, 0, 0, 0.2f, false},
          Case{{40, 90}, 1, 1, 1, 256, 0, 0, 0.2f, false}}) {
      ++seed;
      if (TestDevice::Get()->interpreted() &&
          ++cases % std::ssize(kAllTypes) != 0) {
        continue;  // each case in one type
      }
      int64_t positions = 0;
      for (const int64_t length : c.lengths) positions += length;
      AttentionShape shape = ShapeOf(c.batch, positions, c.heads, c.head_size);
      shape.kv_heads = c.kv_heads;
      shape.dtype = dtype;
      shape.mask =
          c.causal ? AttentionMask::Causal(c.window) : AttentionMask::All();
      shape.softcap = c.softcap;
      shape.dropout = c.dropout;
      shape.key = {17, seed};
      ExpectHosts(shape,
                  {.layout = seed % 2 ? Layout::kSeparate : Layout::kPacked,
                   .seed = seed,
                   .documents = DocumentsOfLengths(c.batch, c.lengths)});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(AttentionOnGpu, OrdersOfThreadsDoNotShowInDocuments) {
  for (DType dtype : kAllTypes) {
    if (TestDevice::Get()->interpreted() && dtype != DType::kBFloat16) continue;
    AttentionShape shape = ShapeOf(1, 290, 2, 16);
    shape.kv_heads = 1;
    shape.dtype = dtype;
    for (const bool causal : {true, false}) {
      if (causal && TestDevice::Get()->interpreted()) continue;
      shape.mask = causal ? AttentionMask::Causal() : AttentionMask::All();
      ExpectOneResult(
          shape,
          {.seed = 12, .documents = DocumentsOfLengths(1, {10, 150, 33, 97})});
    }
  }
}

TEST_F(AttentionOnGpu, DoesNotTouchTilesOfOtherDocuments) {
  for (DType dtype : kAllTypes) {
    AttentionShape shape = ShapeOf(1, 384, 1, 8);
    shape.dtype = dtype;
    for (const bool causal : {true, false}) {
      if (causal && TestDevice::Get()->interpreted()) continue;
      shape.mask = causal ? AttentionMask::Causal() : AttentionMask::All();
      Trial trial(shape, {.documents = DocumentsOfLengths(1, {128, 256})});
      trial.x.Set(1, 0, 0, kNan);
      trial.x.Set(2, 0, 0, kNan);
      ASSERT_TRUE(trial.RunOnDevice().ok());
      EXPECT_TRUE(std::isnan(trial.out[0]));
      EXPECT_TRUE(causal || std::isnan(trial.out[127 * 8]));
      for (int64_t row = 128; row < 384; ++row) {
        ASSERT_TRUE(std::isfinite(trial.out[row * 8])) << row;
        for (int part = 0; part < 3; ++part) {
          ASSERT_TRUE(std::isfinite(trial.dx.Get(part, row, 0))) << row;
        }
      }
    }
  }
}

// Heads of more than 128 channels have programs of their own; 256 with groups,
// a window and a soft cap are Gemma 2's.
TEST_F(AttentionOnGpu, AgreesWithTheHostForHeadsOfUpTo256) {
  struct Case {
    int64_t positions, heads, kv_heads, head_size, window, shift;
    float softcap, dropout;
  };
  uint64_t seed = 300;
  for (DType dtype : kAllTypes) {
    for (const Case& c :
         {Case{70, 1, 1, 256, 0, 0, 0, 0.2f}, Case{66, 2, 1, 256, 40, 0, 2, 0},
          Case{9, 2, 2, 200, 0, 0, 0, 0}, Case{35, 1, 1, 129, 3, 3, 0, 0.2f}}) {
      AttentionShape shape = ShapeOf(1, c.positions, c.heads, c.head_size);
      shape.kv_heads = c.kv_heads;
      shape.dtype = dtype;
      shape.mask = AttentionMask::Causal(c.window);
      shape.softcap = c.softcap;
      shape.dropout = c.dropout;
      shape.key = {17, ++seed};
      ExpectHosts(shape,
                  {.layout = Layout::kPacked, .shift = c.shift, .seed = seed});
      if (HasFatalFailure()) return;
      if (c.positions != 35) continue;  // orders take their time
      ExpectOneResult(shape, {.seed = seed});
    }
  }
}

// The keys of a single query are looked at in ranges: one or several, the last
// of them whole or not, all keys or those of a window.
TEST_F(AttentionOnGpu, AgreesWithTheHostForOneQueryOfMany) {
  struct Case {
    int64_t keys, heads, kv_heads, head_size, window;
    float softcap = 0;
  };
  uint64_t seed = 200;
  for (DType dtype : kAllTypes) {
    for (const Case& c :
         {Case{255, 2, 1, 8, 0}, Case{256, 1, 1, 24, 0}, Case{257, 3, 3, 7, 0},
          Case{512, 4, 2, 128, 0}, Case{300, 2, 1, 256, 0},
          Case{700, 2, 1, 72, 0, 2}, Case{800, 2, 2, 16, 300},
          Case{600, 1, 1, 64, 256}, Case{900, 2, 1, 16, 3}}) {
      AttentionShape shape = ShapeOf(2, 1, c.heads, c.head_size);
      shape.keys = c.keys;
      shape.kv_heads = c.kv_heads;
      shape.dtype = dtype;
      shape.mask = AttentionMask::Causal(c.window);
      shape.softcap = c.softcap;
      ++seed;
      // Each case in one type.
      if (TestDevice::Get()->interpreted() &&
          (seed + seed / std::size(kAllTypes)) % std::size(kAllTypes) != 0) {
        continue;
      }
      ExpectHosts(shape,
                  {.layout = seed % 2 ? Layout::kSeparate : Layout::kRoomy,
                   .shift = static_cast<int64_t>(seed) % 3,
                   .seed = seed});
      if (HasFatalFailure()) return;
    }
  }
}

// A key-value cache has room for more than its first passes fill, and they all
// must need the same workspace.
TEST_F(AttentionOnGpu, RoomForKeysDecidesHowASingleQueryLooksAtThem) {
  AttentionShape shape = ShapeOf(1, 1, 2, 16);
  shape.key_rows = 1000;
  const auto bytes = [&](int64_t keys) {
    shape.keys = keys;
    return AttentionForwardArgs{.shape = shape}.GpuWorkspaceBytes();
  };
  EXPECT_EQ(bytes(1), 2 * 4 * (16 + 2) * 4);
  for (int64_t keys : {2, 256, 257, 1000}) EXPECT_EQ(bytes(keys), bytes(1));
  shape.key_rows = cuda::kRangeKeys;
  EXPECT_EQ(bytes(1), 0);
}

// delta, the sums of dq where several tiles of keys add to them, and counters:
// for each head, and each step of 32 queries, those of four warps, or in fp32,
// where dq has the sums, of 64 and eight; and one more.
TEST_F(AttentionOnGpu, BackwardsWorkspaceHasSumsWhereSeveralTilesAdd) {
  AttentionShape shape = ShapeOf(1, 128, 2, 16);
  shape.dtype = DType::kBFloat16;
  const auto bytes = [&] {
    return AttentionBackwardArgs{.shape = shape}.GpuWorkspaceBytes();
  };
  EXPECT_EQ(bytes(), 2 * 128 * 4 + (2 * 4 * 4 + 1) * 4);
  shape.positions = 129;
  EXPECT_EQ(bytes(),
            (2 * 129 + 2) * 4 + 2 * 5 * 32 * 64 * 4 + (2 * 5 * 4 + 1) * 4);
  shape.dtype = DType::kFloat32;
  EXPECT_EQ(bytes(), (2 * 129 + 2) * 4 + (2 * 3 * 8 + 1) * 4);
}

TEST_F(AttentionOnGpu, AgreesWithTheHostAcrossTwoSequences) {
  for (DType dtype : kAllTypes) {
    for (int64_t keys : {3, 100}) {
      AttentionShape shape = ShapeOf(2, 70, 2, 16);
      shape.keys = keys;
      shape.kv_heads = 1;
      shape.dtype = dtype;
      shape.mask = AttentionMask::All();
      ExpectHosts(shape, {});
    }
  }
}

TEST_F(AttentionOnGpu, LayoutsAndWideWindowsDoNotShowInTheBits) {
  for (DType dtype : kAllTypes) {
    AttentionShape shape = ShapeOf(1, 70, 2, 16);
    shape.kv_heads = 1;
    shape.dtype = dtype;
    Trial packed(shape, {.layout = Layout::kPacked});
    ASSERT_TRUE(packed.RunOnDevice().ok());
    shape.mask = AttentionMask::Causal(70);
    for (Layout layout : {Layout::kSeparate, Layout::kRoomy}) {
      Trial other(shape, {.layout = layout});
      ASSERT_TRUE(other.RunOnDevice().ok());
      EXPECT_TRUE(other.SameResults(packed));
    }
  }
}

// A NaN would show in every row that is computed with it, even times 0.
TEST_F(AttentionOnGpu, DoesNotTouchTilesOutsideOfTheWindow) {
  for (DType dtype : kAllTypes) {
    AttentionShape shape = ShapeOf(1, 400, 1, 8);
    shape.dtype = dtype;
    shape.mask = AttentionMask::Causal(20);
    Trial trial(shape);
    trial.x.Set(1, 0, 0, kNan);
    trial.x.Set(2, 0, 0, kNan);
    ASSERT_TRUE(trial.RunOnDevice().ok());
    EXPECT_TRUE(std::isnan(trial.out[0]));
    // Tiles have at most 128 rows.
    for (int64_t row = 160; row < 400; ++row) {
      ASSERT_TRUE(std::isfinite(trial.out[row * 8])) << row;
      ASSERT_TRUE(std::isfinite(trial.dx.Get(0, row, 0))) << row;
    }
    for (int64_t row = 300; row < 400; ++row) {
      ASSERT_TRUE(std::isfinite(trial.dx.Get(1, row, 0))) << row;
    }
  }
}

TEST_F(AttentionOnGpu, DoesNotDependOnTheOrderOfThreads) {
  for (DType dtype : kAllTypes) {
    AttentionShape shape = ShapeOf(1, 100, 2, 40);
    shape.kv_heads = 1;
    shape.dtype = dtype;
    shape.mask = AttentionMask::Causal(50);
    shape.dropout = 0.1f;
    shape.key = {1, 2};
    AttentionShape single = ShapeOf(1, 1, 2, 40);
    single.keys = 600;
    single.dtype = dtype;
    for (const AttentionShape& each : {shape, single}) {
      ExpectOneResult(each, {.seed = 9});
    }
  }
}

// The blocks of backward's tiles of keys add to dq in turns: three tiles in 16
// bits and five in fp32, of all queries' keys or of those in a window, one head
// of keys for two of queries.
TEST_F(AttentionOnGpu, DoesNotDependOnHowManyBlocksRunAtOnce) {
  for (DType dtype : kAllTypes) {
    // Each type once where instructions are interpreted.
    int64_t masks = 0;
    for (const AttentionMask& mask :
         {AttentionMask::Causal(), AttentionMask::All(),
          AttentionMask::Causal(150)}) {
      if (TestDevice::Get()->interpreted() &&
          ++masks % std::ssize(kAllTypes) != static_cast<int64_t>(dtype) % 3) {
        continue;
      }
      AttentionShape shape = ShapeOf(1, 290, 2, 16);
      shape.kv_heads = 1;
      shape.dtype = dtype;
      shape.mask = mask;
      ExpectOneResult(shape, {.seed = 11});
      ExpectHosts(shape, {.seed = 11});
      if (HasFatalFailure()) return;
    }
  }
}

class AttentionOfTypeOnGpu : public AttentionOnGpu,
                             public testing::WithParamInterface<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, AttentionOfTypeOnGpu,
                         testing::ValuesIn(kAllTypes), [](const auto& info) {
                           return std::string(DTypeName(info.param));
                         });

TEST_P(AttentionOfTypeOnGpu, StaysFiniteAtLargeScoresAndShowsNans) {
  AttentionShape shape = ShapeOf(1, 70, 1, 16);
  shape.dtype = GetParam();
  const AttentionTrial::Options options = {.seed = 4, .scale = 100};
  Trial large(shape, options), expected(shape, options);
  ASSERT_TRUE(large.RunOnDevice().ok());
  ASSERT_TRUE(expected.Both(host_).ok());
  for (int part = 0; part < 3; ++part) {
    for (double v : large.dx.Values(part)) ASSERT_TRUE(std::isfinite(v));
  }
  for (int64_t i = 0; i < large.out.size(); ++i) {
    ASSERT_NEAR(large.out[i], expected.out[i],
                0.1 + 4 * UnitRoundoff(shape.dtype) * 100)
        << i;
  }
  // The key of position 68: rows before it are as they were.
  Trial nan(shape, options);
  nan.x.Set(1, 68, 0, kNan);
  ASSERT_TRUE(nan.RunOnDevice().ok());
  EXPECT_EQ(nan.out[67 * 16], large.out[67 * 16]);
  EXPECT_TRUE(std::isnan(nan.out[68 * 16]));
  EXPECT_TRUE(std::isnan(nan.out[69 * 16 + 15]));
}

// exp(-lse) overflows here: what is behind the end of a tile must not show it.
TEST_P(AttentionOfTypeOnGpu, StaysFiniteWhereAllScoresAreLow) {
  AttentionShape shape = ShapeOf(1, 70, 1, 16);
  shape.dtype = GetParam();
  shape.mask = AttentionMask::All();
  Trial got(shape), expected(shape);
  for (Trial* trial : {&got, &expected}) {
    for (int64_t row = 0; row < shape.positions; ++row) {
      for (int64_t d = 0; d < 16; ++d) {
        trial->x.Set(0, row, d, 10);
        trial->x.Set(1, row, d, d == row % 16 ? -11 : -10);
      }
    }
  }
  ASSERT_TRUE(got.RunOnDevice().ok());
  ASSERT_TRUE(expected.Both(host_).ok());
  const double unit =
      shape.dtype == DType::kFloat32 ? 0x1p-13 : 8 * UnitRoundoff(shape.dtype);
  ExpectNear(got.out, expected.out, unit, testing::Message() << "out");
  // Values are 10 times what they are in the other tests.
  for (int part = 0; part < 3; ++part) {
    ExpectNear(got.dx.Values(part), expected.dx.Values(part), 10 * unit,
               testing::Message() << "part " << part);
  }
}

// In 16 bits a row's sums are rescaled once its maximum has grown by a factor
// of 256: a tile of 64 keys makes it grow by less than that, by nothing, by
// more.
TEST_P(AttentionOfTypeOnGpu, AgreesWithTheHostWhereScoresRiseFromTileToTile) {
  for (const double rise : {0.04, -0.04, 0.2}) {
    for (const float dropout : {0.0f, 0.2f}) {
      AttentionShape shape = ShapeOf(1, 200, 1, 16);
      shape.dtype = GetParam();
      shape.dropout = dropout;
      Trial got(shape), expected(shape);
      for (Trial* trial : {&got, &expected}) {
        for (int64_t row = 0; row < shape.positions; ++row) {
          for (int64_t d = 0; d < 16; ++d) {
            trial->x.Set(0, row, d, 0.5);
            // Scores are twice this, and all types have it exactly.
            trial->x.Set(1, row, d, std::floor(row * rise * 2) / 2);
          }
        }
      }
      ASSERT_TRUE(got.RunOnDevice().ok());
      ASSERT_TRUE(expected.Both(host_).ok());
      const auto what = testing::Message()
                        << "rise " << rise << " dropout " << dropout << " ";
      const double unit =
          (shape.dtype == DType::kFloat32 ? 0x1p-16
                                          : 4 * UnitRoundoff(shape.dtype)) /
          (1 - dropout);
      ExpectNear(got.lse, expected.lse, 0x1p-17, testing::Message() << what);
      ExpectNear(got.out, expected.out, unit, testing::Message() << what);
      for (int part = 0; part < 3; ++part) {
        // Keys are up to 40, and queries' gradients as many times larger.
        ExpectNear(got.dx.Values(part), expected.dx.Values(part), 40 * unit,
                   testing::Message() << what << "part " << part);
      }
    }
  }
}

TEST_F(AttentionOnGpu, OfNothingDoesNothingAndRefusesBadShapes) {
  const ExecContext& gpu = TestDevice::Get()->context();
  for (const AttentionShape& empty :
       {ShapeOf(0, 4, 1, 8), ShapeOf(1, 0, 1, 8), ShapeOf(1, 4, 0, 8)}) {
    EXPECT_TRUE(kernels::Run(gpu, AttentionForwardArgs{.shape = empty}).ok());
    EXPECT_TRUE(kernels::Run(gpu, AttentionBackwardArgs{.shape = empty}).ok());
  }
  AttentionShape wide = ShapeOf(1, 4, 1, kMaxGpuHeadSize + 1);
  EXPECT_EQ(kernels::Run(gpu, AttentionForwardArgs{.shape = wide}).code(),
            absl::StatusCode::kInvalidArgument);
  wide.head_size = 0;
  EXPECT_EQ(kernels::Run(gpu, AttentionBackwardArgs{.shape = wide}).code(),
            absl::StatusCode::kInvalidArgument);
}

// Two blocks that use the matrix units run on one multiprocessor if their
// shared memory is no larger.
template <class Program>
constexpr bool kTwoFit = sizeof(typename Program::Shared) <= 81 * 1024;
static_assert(kTwoFit<cuda::AttentionMmaForwardProgram<BFloat16, 64, true>>);
static_assert(kTwoFit<cuda::AttentionMmaForwardProgram<BFloat16, 128, true>>);
static_assert(kTwoFit<cuda::AttentionMmaBackwardProgram<BFloat16, 64, true>>);
static_assert(kTwoFit<cuda::AttentionMmaBackwardProgram<BFloat16, 128, true>>);

}  // namespace
}  // namespace castor::kernels
