#include "models/rope/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/rope/rope_fixture_for_test.h"
#include "nlohmann/json.hpp"
#include "runtime/backend/backend.h"

namespace castor::models {
namespace {

// Where both have the same frequency they have the same angle, and PyTorch's
// cosine is off by one unit in the last place at most (ours by half of one),
// before the product with the factor is rounded. Other frequencies differ in
// their angles too, and in these angles' roundings.
TEST(RopeTable, HasTheCosinesAndSinesOfTransformers) {
  for (const RopeCase& c : RopeCases()) {
    SCOPED_TRACE(c.name);
    Rope rope;
    ASSERT_TRUE(c.Read(&rope).ok());
    for (const Json& of : c.lengths) {
      const int64_t length = of["length"];
      SCOPED_TRACE(length);
      const std::vector<float> values = RopeTableValues(rope, 0, length);
      const std::vector<float> own = rope.InverseFrequencies(length);
      const int64_t pairs = static_cast<int64_t>(own.size());
      ASSERT_EQ(static_cast<int64_t>(values.size()), 2 * length * pairs);
      const float* const cos = values.data();
      const float* const sin = cos + length * pairs;
      size_t at = 0;
      for (const int64_t t : of["positions"]) {
        for (int64_t i = 0; i < pairs; ++i, ++at) {
          const float theirs = of["inverse_frequencies"][i];
          const double angle = static_cast<double>(t) * theirs;
          double tolerance = 3 * 0x1p-24;
          if (own[i] != theirs) {
            tolerance += static_cast<double>(t) * std::abs(own[i] - theirs) +
                         2 * 0x1p-24 * angle;
          }
          tolerance *= rope.attention_factor();
          EXPECT_NEAR(cos[t * pairs + i], of["cos"][at].get<float>(), tolerance)
              << t << " " << i;
          EXPECT_NEAR(sin[t * pairs + i], of["sin"][at].get<float>(), tolerance)
              << t << " " << i;
        }
      }
    }
  }
}

TEST(RopeTable, LaterPositionsAreRowsOfTheWholeTable) {
  const Json json =
      Json::parse(R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})");
  JsonReport report("f");
  JsonReader reader(json, report);
  Rope rope;
  rope.Read(reader, {.head_size = 8, .positions = 4});
  ASSERT_TRUE(report.status().ok());
  // `last` has the last 3 positions of a sequence of 9.
  const std::vector<float> all = RopeTableValues(rope, 0, 9);
  const std::vector<float> last = RopeTableValues(rope, 6, 9);
  ASSERT_EQ(last.size(), 2u * 3 * 4);
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(last[half * 12 + i], all[half * 36 + 24 + i]);
    }
  }
}

// Keeps what it was given last.
class UploadRecorder final : public Backend {
 public:
  absl::StatusOr<absl::InlinedVector<int64_t, 4>> Run(BackendOp op) override {
    return absl::InlinedVector<int64_t, 4>(op.outputs.size(), 0);
  }
  absl::StatusOr<int64_t> Upload(std::string, HostData data) override {
    elements = data.elements();
    values = data.Get();
    return 0;
  }
  absl::StatusOr<int64_t> Hold(std::string, int64_t) override { return 0; }
  absl::Status Reduce(ChunkReduce) override { return absl::OkStatus(); }
  absl::Status Update(ChunkUpdate) override { return absl::OkStatus(); }
  void Release(int64_t) override {}

  int64_t elements = 0;
  std::shared_ptr<const void> values;
};

TEST(RopeTable, MakesNewValuesOnlyForOtherPositions) {
  const Json json = Json::object();
  JsonReport report("f");
  JsonReader reader(json, report);
  Rope rope;
  rope.Read(reader, {.head_size = 8, .positions = 4});
  RopeTable table(rope);
  UploadRecorder backend;
  Engine engine(DType::kFloat32, 1);
  engine.SetBackend(&backend);
  const auto upload = [&](int64_t begin, int64_t end) {
    const auto uploaded = table(engine, begin, end, "rope");
    EXPECT_TRUE(uploaded.ok()) << uploaded.status();
    EXPECT_EQ(uploaded->values.shape(), (Shape{2, end - begin, 4}));
    EXPECT_EQ(uploaded->begin, 0);
    EXPECT_EQ(backend.elements, 8 * (end - begin));
    const float* first = static_cast<const float*>(backend.values.get());
    EXPECT_EQ(std::vector<float>(first, first + backend.elements),
              RopeTableValues(rope, begin, end));
    return backend.values;
  };
  const auto first = upload(0, 3);
  EXPECT_EQ(upload(0, 3), first);
  EXPECT_NE(upload(0, 4), first);
  EXPECT_NE(upload(1, 4), first);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{-1, 2},
                                   {2, 2},
                                   {0, (int64_t{1} << 24) + 1}}) {
    const auto refused = table(engine, begin, end, "model.rope");
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
    EXPECT_NE(refused.status().message().find("\"model.rope\""),
              std::string::npos);
  }
  engine.SetBackend(nullptr);
}

}  // namespace
}  // namespace castor::models
