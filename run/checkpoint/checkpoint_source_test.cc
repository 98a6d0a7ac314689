#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/test_files.h"
#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/layout/margins.h"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A checkpoint of one parameter of 1,000 values and one state of it.
class CheckpointSourceTest : public ::testing::Test {
 protected:
  CheckpointSourceTest() {
    auto parameter = std::make_unique<Parameter>();
    parameter->id = ParamId(0);
    parameter->name = "w";
    parameter->shape = Shape({10, 100});
    parameters_.push_back(std::move(parameter));
  }
  absl::Status Write(const std::vector<float>& master,
                     const std::vector<float>& state,
                     const std::vector<float>& margins = {}) const {
    auto writer = CheckpointWriter::Create(path(), 512);
    if (!writer.ok()) return writer.status();
    const StatePart parts[] = {StatePart::kMaster, StatePart::Slot(0)};
    const std::vector<float>* values[] = {&master, &state};
    for (int i = 0; i < 2; ++i) {
      absl::Status status =
          (*writer)->BeginPiece({"w", parts[i], 0, 1000, 1000});
      if (status.ok()) status = (*writer)->Append(*values[i]);
      if (status.ok()) status = (*writer)->EndPiece();
      if (!status.ok()) return status;
    }
    if (const int64_t count = static_cast<int64_t>(margins.size()); count > 0) {
      absl::Status status =
          (*writer)->BeginPiece({"w", StatePart::kMargins, 0, count, count});
      if (status.ok()) status = (*writer)->Append(margins);
      if (status.ok()) status = (*writer)->EndPiece();
      if (!status.ok()) return status;
    }
    return (*writer)->Commit("{}");
  }
  // `margins`: those of the parameter, if the optimizer keeps any.
  absl::Status Read(StatePart part, int64_t begin, int64_t end,
                    const Margins& margins = {}) const {
    auto reader = CheckpointReader::Open(path());
    if (!reader.ok()) return reader.status();
    ChunkLayout layout;
    layout.states = {.slots = {{"m"}}, .margins = margins.count() > 0};
    layout.parameters = {{.name = "w", .elements = 1000, .margins = margins}};
    auto source =
        CheckpointSource::Create(*std::move(reader), parameters_, layout);
    if (!source.ok()) return source.status();
    std::vector<float> out(end - begin);
    return (*source)->Read(*parameters_[0], part, begin, end, out.data());
  }
  std::string path() const { return directory_.path() + "/a.castor"; }

  TemporaryDirectory directory_;
  Parameters parameters_;
};

TEST_F(CheckpointSourceTest, RefusesValuesAndStatesThatAreNoNumbers) {
  std::vector<float> good(1000, 1), bad = good;
  bad[777] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(Write(bad, good).ok());
  EXPECT_TRUE(Read(StatePart::kMaster, 0, 777).ok());
  EXPECT_TRUE(Read(StatePart::Slot(0), 0, 1000).ok());
  const absl::Status value = Read(StatePart::kMaster, 500, 1000);
  EXPECT_EQ(value.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(value.message()),
              AllOf(HasSubstr(path()), HasSubstr("\"w\""),
                    HasSubstr("holds nan at element 777")));
  bad[777] = -std::numeric_limits<float>::infinity();
  ASSERT_TRUE(Write(good, bad).ok());
  EXPECT_TRUE(Read(StatePart::kMaster, 0, 1000).ok());
  EXPECT_THAT(std::string(Read(StatePart::Slot(0), 0, 1000).message()),
              HasSubstr("holds -inf at element 777"));
}

TEST_F(CheckpointSourceTest, ReadsTheMarginsOfTheSameModelAlone) {
  const std::vector<float> values(1000, 1);
  ASSERT_TRUE(Write(values, values, std::vector<float>(110, 2)).ok());
  EXPECT_TRUE(Read(StatePart::kMargins, 0, 110, {1, 10, 100}).ok());
  // It is refused before anything is read of it.
  EXPECT_THAT(
      std::string(Read(StatePart::kMaster, 0, 1000, {1, 20, 50}).message()),
      HasSubstr("is of another model: \"w\" has 110 rows and columns, not 70"));
  EXPECT_THAT(std::string(Read(StatePart::kMaster, 0, 1000).message()),
              HasSubstr("none of its rows and columns"));
}

}  // namespace
}  // namespace castor
