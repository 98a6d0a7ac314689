#include "kernels/attention/attention.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/attention/oracle.h"
#include "kernels/attention/trial.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"

namespace castor::kernels {
namespace {

using Layout = AttentionLayout;
using Oracle = AttentionOracle;
using Spec = AttentionSpec;
using Doubles = std::vector<double>;

TEST(AttentionBand, RangesAreWhatIsSeen) {
  for (int64_t queries = 1; queries <= 6; ++queries) {
    for (int64_t keys = queries; keys <= 9; ++keys) {
      for (int64_t before : {int64_t{0}, int64_t{1}, int64_t{4}, int64_t{8},
                             AttentionMask::kUnbounded}) {
        for (int64_t after :
             {int64_t{0}, int64_t{2}, AttentionMask::kUnbounded}) {
          const AttentionBand band = {queries, keys, {before, after}};
          for (int64_t i = 0; i < queries; ++i) {
            for (int64_t j = 0; j < keys; ++j) {
              const int64_t place = keys - queries + i;
              const bool sees = place - before <= j && j <= place + after;
              ASSERT_EQ(band.Sees(i, j), sees);
              ASSERT_EQ(band.FirstKey(i) <= j && j < band.EndKey(i), sees);
              ASSERT_EQ(band.FirstQuery(j) <= i && i < band.EndQuery(j), sees);
            }
          }
        }
      }
    }
  }
}

TEST(AttentionBand, RangesAreWhatIsSeenWithinDocuments) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{9}, {1, 8}, {3, 1, 5}, {4, 4, 1}}) {
    const auto documents = DocumentsOfLengths(1, lengths);
    for (int64_t window : {0, 1, 3}) {
      const AttentionBand band = {9, 9, AttentionMask::Causal(window),
                                  documents.data()};
      for (int64_t i = 0; i < 9; ++i) {
        for (int64_t j = 0; j < 9; ++j) {
          const bool sees = j <= i && (window == 0 || j > i - window) &&
                            documents[i] == documents[j];
          ASSERT_EQ(band.Sees(i, j), sees);
          ASSERT_EQ(band.FirstQuery(j) <= i && i < band.EndQuery(j), sees);
        }
      }
    }
    const AttentionBand all = {9, 9, AttentionMask::All(), documents.data()};
    for (int64_t i = 0; i < 9; ++i) {
      for (int64_t j = 0; j < 9; ++j) {
        const bool sees = documents[i] == documents[j];
        ASSERT_EQ(all.Sees(i, j), sees);
        ASSERT_EQ(all.FirstQuery(j) <= i && i < all.EndQuery(j), sees);
      }
    }
  }
}

TEST(AttentionOracle, AgreesWithFiniteDifferences) {
  std::vector<Spec> specs;
  for (bool causal : {true, false}) {
    for (float dropout : {0.0f, 0.3f}) {
      specs.push_back(SpecOf(2, 5, 2, 3, causal, dropout));
    }
  }
  specs.push_back(SpecOf(2, 4, 4, 3, true, 0.3f).With(2, 2, 3));
  specs.back().shape.softcap = 1.5f;
  specs.back().shape.scale = 0.7f;
  specs.push_back(SpecOf(2, 6, 2, 3));
  specs.back().lengths = {2, 1, 3};
  for (const Spec& spec : specs) {
    Oracle oracle(spec);
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    Doubles x[3] = {
        Doubles(oracle.rows * 3),
        Doubles(oracle.s.batch * oracle.s.keys * oracle.s.kv_heads * 3),
        Doubles(oracle.s.batch * oracle.s.keys * oracle.s.kv_heads * 3)};
    Doubles dout(x[0].size());
    for (Doubles& part : x) {
      for (double& v : part) v = normal(random);
    }
    for (double& v : dout) v = normal(random);
    oracle.Forward(x);
    oracle.Backward(x, Doubles(oracle.out), dout);
    const auto objective = [&](double& v, double step) {
      const double before = v;
      v += step;
      oracle.Forward(x);
      v = before;
      double sum = 0;
      for (size_t n = 0; n < dout.size(); ++n) sum += oracle.out[n] * dout[n];
      return sum;
    };
    for (int part = 0; part < 3; ++part) {
      for (size_t i = 0; i < x[part].size(); ++i) {
        // Error of a central difference: step^2 / 6 times a third derivative
        // of order 1 to 10, plus 1e-16 / step.
        constexpr double kStep = 1e-4;
        double& v = x[part][i];
        ASSERT_NEAR((objective(v, kStep) - objective(v, -kStep)) / (2 * kStep),
                    oracle.dx[part][i], 1e-6)
            << Name(spec) << " part " << part << " element " << i;
      }
    }
  }
}

ThreadPool& Pool() {
  static ThreadPool* const pool = new ThreadPool(2);
  return *pool;
}

void ExpectOracle(const Spec& spec, AttentionTrial::Options options = {}) {
  options.documents = DocumentsOfLengths(spec.shape.batch, spec.lengths);
  AttentionTrial run(spec.Shape(), options);
  const absl::Status status = run.Both(ExecContext{&Pool()});
  ASSERT_TRUE(status.ok()) << Name(spec) << ": " << status;
  ASSERT_EQ(Disagreement(run, spec), "") << Name(spec);
}

TEST(Attention, AgreesWithDoubleAtSmallAndOddSizes) {
  for (DType dtype : kAllTypes) {
    for (bool causal : {true, false}) {
      for (float dropout : {0.0f, 0.25f}) {
        for (int64_t positions : {1, 2, 3, 17, 33}) {
          for (int64_t size : {1, 5, 16}) {
            Spec spec = SpecOf(2, positions, 3, size, causal, dropout);
            spec.shape.dtype = dtype;
            ExpectOracle(spec,
                         {.layout = Layout::kPacked, .shift = positions % 5});
          }
        }
      }
    }
  }
}

TEST(Attention, AgreesWithDoubleForGroupsWindowsAndCaches) {
  int64_t n = 0;
  for (DType dtype : kAllTypes) {
    for (int64_t kv_heads : {6, 3, 2, 1}) {
      for (int64_t window : {0, 1, 2, 5, 16, 17}) {
        for (int64_t positions : {1, 5, 17, 20}) {
          for (int64_t extra : {0, 3, 40}) {
            ++n;
            Spec spec = SpecOf(1 + n / 2 % 2, positions, 6, 1 + n % 7, true,
                               n % 3 == 0 ? 0.25f : 0.0f)
                            .With(kv_heads, extra, window);
            spec.shape.dtype = dtype;
            if (n % 4 == 0) spec.shape.softcap = 2;
            if (n % 5 == 0) spec.shape.scale = 0.3f;
            ExpectOracle(spec,
                         {.layout = n % 2 ? Layout::kSeparate : Layout::kRoomy,
                          .shift = n % 4});
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// More queries than keys, and fewer, where all see all.
TEST(Attention, AgreesWithDoubleAcrossTwoSequences) {
  for (DType dtype : kAllTypes) {
    for (int64_t keys : {1, 7, 270}) {
      for (int64_t positions : {1, 5, 130}) {
        Spec spec = SpecOf(2, positions, 4, 8, false, 0.1f);
        spec.shape.dtype = dtype;
        ExpectOracle(spec.With(2, keys - positions, 0));
      }
    }
  }
}

// Tiles are 64 queries forward, blocks 128 x 256 backward.
TEST(Attention, AgreesWithDoubleAcrossTiles) {
  for (DType dtype : kAllTypes) {
    for (int64_t positions : {64, 65, 128, 257, 300}) {
      // Only the conversions of fp16 are others than those of bf16.
      if (dtype == DType::kFloat16 && positions % 2 == 0) continue;
      Spec spec = SpecOf(1, positions, 2, 64, true, positions % 2 ? 0.1f : 0);
      spec.shape.dtype = dtype;
      ExpectOracle(spec);
      ExpectOracle(spec.With(1, 0, 70), {.layout = Layout::kPacked});
      spec.causal = false;
      ExpectOracle(spec, {.shift = 3});
    }
  }
}

TEST(Attention, AgreesWithDoubleForWindowsAcrossTiles) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t window : {1, 64, 65, 129, 255, 256, 257, 400}) {
      Spec spec = SpecOf(1, 390, 2, 6);
      spec.shape.dtype = dtype;
      ExpectOracle(spec.With(1, window % 3 * 100, window));
    }
  }
}

TEST(Attention, AgreesWithDoubleWhereScratchShrinksTheTiles) {
  ExpectOracle(SpecOf(1, 20, 1, 4099, true, 0.5f));
  ExpectOracle(SpecOf(1, 20, 2, 4099).With(1, 4, 6));
  ExpectOracle(SpecOf(1, 700, 2, 200).With(1, 0, 333));
  ExpectOracle(SpecOf(1, 2300, 1, 2));
  ExpectOracle(SpecOf(1, 2300, 1, 2).With(1, 0, 2200));
}

// Documents that begin and end within tiles and at their edges, and some of a
// single token.
TEST(Attention, AgreesWithDoubleWithinDocuments) {
  const std::vector<std::vector<int64_t>> all_lengths = {
      {1},          {5},           {1, 1, 3},       {2, 7, 1, 10, 13},
      {64, 64, 2},  {63, 1, 66},   {100, 150, 140}, {256, 1, 43},
      {1, 1, 1, 1}, {128, 20, 108}};
  int64_t n = 0;
  for (DType dtype : kAllTypes) {
    for (const std::vector<int64_t>& lengths : all_lengths) {
      for (int64_t window : {0, 4}) {
        ++n;
        const int64_t positions =
            std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
        // Every second one without a window is an encoder's.
        const bool causal = window > 0 || n % 4 != 1;
        Spec spec = SpecOf(1 + n % 2, positions, 4, 1 + n % 7, causal,
                           n % 3 == 0 ? 0.25f : 0.0f)
                        .With(n % 4 < 2 ? 4 : 2, 0, window);
        spec.lengths = lengths;
        spec.shape.dtype = dtype;
        if (n % 4 == 0) spec.shape.softcap = 2;
        ExpectOracle(spec,
                     {.layout = n % 2 ? Layout::kSeparate : Layout::kPacked,
                      .shift = n % 4});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Values in another document do not matter at all.
TEST(Attention, DocumentsDoNotSeeEachOther) {
  Spec spec = SpecOf(1, 300, 2, 8).With(1, 0, 0);
  spec.lengths = {90, 130, 80};
  const auto documents = DocumentsOfLengths(1, spec.lengths);
  AttentionTrial run(spec.Shape(), {.documents = documents});
  AttentionTrial other(spec.Shape(), {.documents = documents});
  for (int part = 0; part < 3; ++part) {
    for (int64_t row = 90; row < 220; ++row) other.x.Set(part, row, 0, 1000);
  }
  ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  ASSERT_TRUE(other.Both(ExecContext{&Pool()}).ok());
  bool differs = false;
  for (int part = 0; part < 3; ++part) {
    for (int64_t row = 0; row < 300; ++row) {
      const bool same = run.dx.Get(part, row, 1) == other.dx.Get(part, row, 1);
      if (row < 90 || row >= 220) {
        ASSERT_TRUE(same) << part << " " << row;
        ASSERT_EQ(run.out[row * 16], other.out[row * 16]);
      } else {
        differs |= !same;
      }
    }
  }
  EXPECT_TRUE(differs);
}

// A row of one document is a row without documents.
TEST(Attention, OneDocumentIsNone) {
  for (DType dtype : kAllTypes) {
    AttentionShape shape = SpecOf(2, 150, 6, 20, true, 0.1f).Shape();
    shape.dtype = dtype;
    AttentionTrial none(shape);
    AttentionTrial one(shape, {.documents = DocumentsOfLengths(2, {150})});
    ASSERT_TRUE(none.Forward(ExecContext{&Pool()}).ok());
    ASSERT_TRUE(one.Forward(ExecContext{&Pool()}).ok());
    EXPECT_TRUE(one.out.SameBits(none.out));
  }
}

// A fixture of a model with such operators must notice these mistakes.
TEST(Attention, MistakesAreLargerThanRounding) {
  for (DType dtype : kAllTypes) {
    Spec spec = SpecOf(2, 33, 6, 8).With(2, 0, 7);
    spec.shape.dtype = dtype;
    spec.shape.scale = 0.25f;
    spec.shape.softcap = 3;
    AttentionTrial run(spec.Shape());
    ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
    ASSERT_EQ(Disagreement(run, spec), "");
    const auto wrong = [&](auto change) {
      Spec other = spec;
      change(other);
      return Disagreement(run, other);
    };
    EXPECT_NE(wrong([](Spec& s) { s.window = 8; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.window = 6; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.window = 0; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.causal = false; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.lengths = {20, 13}; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.lengths = {32, 1}; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.interleave_heads = true; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.shape.scale = 0; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.shape.scale = 1; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.shape.softcap = 0; }), "");
    EXPECT_NE(wrong([](Spec& s) { s.shape.dropout = 0.1f; }), "");
  }
}

TEST(Attention, BitsDependNeitherOnThreadsNorOnAlignmentNorOnLayout) {
  for (DType dtype : kAllTypes) {
    for (int64_t window : {0, 37}) {
      Spec spec = SpecOf(2, 150, 6, 20, true, 0.1f).With(2, 0, window);
      spec.shape.dtype = dtype;
      ThreadPool one(1);
      AttentionTrial reference(spec.Shape());
      ASSERT_TRUE(reference.Both(ExecContext{&one}).ok());
      const Layout layouts[] = {Layout::kSeparate, Layout::kPacked,
                                Layout::kRoomy};
      const int64_t shifts[] = {7, 0, 1};
      for (int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        for (int n : {0, 1, 2}) {
          AttentionTrial other(
              spec.Shape(),
              {.layout = layouts[n], .shift = shifts[(n + threads) % 3]});
          ASSERT_TRUE(other.Both(ExecContext{&pool}).ok());
          EXPECT_TRUE(other.SameResults(reference));
        }
      }
    }
  }
}

TEST(Attention, WindowAsWideAsTheSequenceIsNone) {
  for (int64_t extra : {0, 10}) {
    const Spec spec = SpecOf(1, 150, 2, 8).With(1, extra, 0);
    AttentionTrial none(spec.Shape());
    ASSERT_TRUE(none.Both(ExecContext{&Pool()}).ok());
    for (int64_t window : {150 + extra, int64_t{4096}}) {
      AttentionTrial wide(spec.With(1, extra, window).Shape());
      ASSERT_TRUE(wide.Both(ExecContext{&Pool()}).ok());
      EXPECT_TRUE(wide.SameResults(none));
    }
  }
}

TEST(Attention, RoundsFloatResultToNearestEvenForSixteenBits) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (int64_t window : {0, 50}) {
      Spec spec = SpecOf(1, 300, 2, 33, true, 0.1f).With(1, 0, window);
      AttentionTrial whole(spec.Shape());
      spec.shape.dtype = dtype;
      AttentionTrial half(spec.Shape()), rounded(spec.Shape());
      whole.x.CopyFrom(half.x);
      whole.dout.CopyFrom(half.dout);
      ASSERT_TRUE(half.Forward(ExecContext{&Pool()}).ok());
      ASSERT_TRUE(whole.Forward(ExecContext{&Pool()}).ok());
      rounded.out.CopyFrom(whole.out);
      EXPECT_TRUE(half.out.SameBits(rounded.out));
      EXPECT_TRUE(half.lse.SameBits(whole.lse));

      whole.out.CopyFrom(half.out);
      ASSERT_TRUE(half.Backward(ExecContext{&Pool()}).ok());
      ASSERT_TRUE(whole.Backward(ExecContext{&Pool()}).ok());
      rounded.dx.CopyFrom(whole.dx);
      EXPECT_TRUE(half.dx.SameBits(rounded.dx));
    }
  }
}

TEST(Attention, IgnoresLaterPositionsWhenCausal) {
  const AttentionShape shape = SpecOf(1, 100, 2, 8).Shape();
  AttentionTrial run(shape), later(shape);
  for (int part = 0; part < 3; ++part) {
    for (int64_t c = 0; c < 16; ++c) later.x.Set(part, 99, c, 1000);
  }
  ASSERT_TRUE(run.Forward(ExecContext{&Pool()}).ok());
  ASSERT_TRUE(later.Forward(ExecContext{&Pool()}).ok());
  for (int64_t i = 0; i < 99 * 16; ++i) ASSERT_EQ(run.out[i], later.out[i]);
}

// A NaN would show in every row that is computed with it, even times 0.
TEST(Attention, DoesNotTouchTilesOutsideOfTheWindow) {
  AttentionTrial run(SpecOf(1, 1000, 2, 4).With(1, 0, 32).Shape());
  for (int64_t c = 0; c < 4; ++c) {
    run.x.Set(1, 0, c, NAN);
    run.x.Set(2, 0, c, NAN);
  }
  ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  const Doubles dq = run.dx.Values(0), dk = run.dx.Values(1);
  EXPECT_TRUE(std::isnan(run.out[0]));
  EXPECT_TRUE(std::isnan(dq[0]));
  // Tiles of queries have 64 and 128 rows, those of keys 256.
  for (size_t i = 8 * (128 + 32); i < dq.size(); ++i) {
    ASSERT_TRUE(std::isfinite(run.out[static_cast<int64_t>(i)])) << i;
  }
  for (size_t i = 8 * (256 + 128); i < dq.size(); ++i) {
    ASSERT_TRUE(std::isfinite(dq[i])) << i;
  }
  for (size_t i = 4 * (256 + 128); i < dk.size(); ++i) {
    ASSERT_TRUE(std::isfinite(dk[i])) << i;
  }
}

TEST(Attention, LeavesTheRoomBehindTheKeysAlone) {
  const Spec spec = SpecOf(2, 10, 2, 4).With(1, 0, 3);
  AttentionTrial run(spec.Shape(), {.layout = Layout::kRoomy});
  ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  const GuardedBuffer& dk = run.dx.buffers()[1];
  ASSERT_EQ(dk.size(), 2 * 12 * 4);
  for (int64_t i = 0; i < dk.size(); ++i) {
    EXPECT_EQ(std::isnan(dk[i]), i / 4 % 12 >= 10) << i;
  }
}

TEST(Attention, KeysThatNobodySeesHaveNoGradient) {
  AttentionTrial run(SpecOf(1, 4, 2, 4).With(1, 300, 3).Shape());
  ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  for (int part : {1, 2}) {
    const Doubles dx = run.dx.Values(part);
    for (size_t i = 0; i < dx.size(); ++i) {
      ASSERT_EQ(dx[i] == 0, i < 4 * 298) << i;
    }
  }
}

TEST(Attention, StaysFiniteAtLargeScoresAndShowsNaNs) {
  for (float softcap : {0.0f, 5.0f}) {
    Spec spec = SpecOf(1, 40, 1, 16);
    spec.shape.softcap = softcap;
    AttentionTrial run(spec.Shape(), {.scale = 50});
    ASSERT_TRUE(run.Both(ExecContext{&Pool()}).ok());
    for (double v : run.dx.Values(0)) ASSERT_TRUE(std::isfinite(v));
    for (double v : run.dx.Values(1)) ASSERT_TRUE(std::isfinite(v));
    run.x.Set(0, 20, 0, NAN);
    ASSERT_TRUE(run.Forward(ExecContext{&Pool()}).ok());
    EXPECT_TRUE(std::isfinite(run.out[16 * 19]));
    EXPECT_TRUE(std::isnan(run.out[16 * 20]));
  }
}

TEST(Attention, OfNothingDoesNothing) {
  for (const Spec& spec :
       {SpecOf(0, 5, 2, 4), SpecOf(2, 0, 2, 4), SpecOf(2, 5, 0, 4)}) {
    AttentionTrial run(spec.Shape());
    EXPECT_TRUE(run.Both(ExecContext{&Pool()}).ok());
  }
}

TEST(Attention, RefusesBadShapes) {
  const AttentionShape good = SpecOf(1, 2, 4, 4).Shape();
  EXPECT_TRUE(CheckAttentionShape(good).ok());
  const auto refuses = [&](const char* what, auto change) {
    AttentionShape shape = good;
    change(shape);
    ThreadPool pool(1);
    const absl::Status forward =
        kernels::Run(ExecContext{&pool}, AttentionForwardArgs{.shape = shape});
    EXPECT_EQ(forward.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(forward.message().find(what), absl::string_view::npos) << forward;
    EXPECT_EQ(
        kernels::Run(ExecContext{&pool}, AttentionBackwardArgs{.shape = shape}),
        forward);
  };
  using Shape = AttentionShape;
  refuses("size", [](Shape& s) { s.head_size = 0; });
  refuses("size", [](Shape& s) { s.batch = -1; });
  refuses("size", [](Shape& s) { s.keys = -1; });
  refuses("dropout", [](Shape& s) { s.dropout = 1; });
  refuses("dropout", [](Shape& s) { s.dropout = -0.1f; });
  refuses("dropout", [](Shape& s) { s.dropout = NAN; });
  refuses("multiple", [](Shape& s) { s.kv_heads = 3; });
  refuses("multiple", [](Shape& s) { s.kv_heads = 8; });
  refuses("own place", [](Shape& s) { s.mask.after = -1; });
  refuses("own key", [](Shape& s) { s.keys = 1; });
  refuses("positive", [](Shape& s) { s.scale = -1; });
  refuses("positive", [](Shape& s) { s.scale = NAN; });
  refuses("positive", [](Shape& s) { s.softcap = -1; });
  refuses("strides", [](Shape& s) { s.q_stride = 15; });
  refuses("strides", [](Shape& s) { s.kv_stride = 15; });
  refuses("strides", [](Shape& s) { s.key_rows = 1; });
  refuses("131072", [](Shape& s) { s.keys = 131073; });

  // Documents want as many keys as queries, seen causally or all of them.
  const std::vector<DocumentRange> documents(3);
  for (int bad = 0; bad < 3; ++bad) {
    AttentionShape shape = good;
    if (bad == 0) shape.keys = 3;
    if (bad == 1) shape.key_rows = 3;
    if (bad == 2) shape.mask = {.before = 0, .after = 1};
    ThreadPool pool(1);
    EXPECT_EQ(kernels::Run(ExecContext{&pool},
                           AttentionForwardArgs{.shape = shape,
                                                .documents = documents.data()})
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace castor::kernels
