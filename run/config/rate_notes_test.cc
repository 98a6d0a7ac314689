#include "run/config/rate_notes.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> NotesOf(
    const std::string& sections,
    const std::string& model = R"({"n_layer": 2, "n_positions": 16})") {
  const auto config = ParseConfig(TestModels(),
                                  R"({"model": )" + model +
                                      R"(, "data": {"train": "a.txt"},
                                          "steps": 20, "train_batch_size": 4)" +
                                      sections + "}",
                                  /*base_dir=*/"");
  EXPECT_TRUE(config.ok()) << config.status();
  return RateNotes(*config);
}

std::string Scheduler(const std::string& type, const std::string& params) {
  return R"(, "optimizer": {"params": {"lr": 1}}, "scheduler": {"type": ")" +
         type + R"(", "params": {)" + params + "}}";
}

TEST(RateNotes, AreNoneWhereScheduleAndRunEndTogether) {
  EXPECT_THAT(NotesOf(""), IsEmpty());
  for (const char* type :
       {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "WarmupInverseSqrtLR"}) {
    EXPECT_THAT(NotesOf(Scheduler(type, R"("warmup_num_steps": 20)")),
                IsEmpty());
    EXPECT_THAT(NotesOf(Scheduler(type, R"("warmup_num_steps": 0)")),
                IsEmpty());
  }
}

// A linear warm-up of 38 steps has come to 19 / 38 at step 20.
TEST(RateNotes, SayWhereAWarmUpIsLongerThanTheRun) {
  for (const char* type :
       {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "WarmupInverseSqrtLR"}) {
    EXPECT_THAT(
        NotesOf(Scheduler(
            type, R"("warmup_num_steps": 38, "warmup_type": "linear")")),
        ElementsAre(AllOf(HasSubstr("warmup_num_steps"), HasSubstr("38 steps"),
                          HasSubstr("ends at 0.5,"), HasSubstr("way to 1,"))));
  }
}

// A line from 1 at step 1 to 0 after `total` steps.
TEST(RateNotes, SayWhereTheScheduleEndsElsewhere) {
  EXPECT_THAT(
      NotesOf(Scheduler("WarmupDecayLR",
                        R"("warmup_num_steps": 0, "total_num_steps": 76)")),
      ElementsAre(AllOf(HasSubstr("step 76"), HasSubstr("step 20"),
                        HasSubstr("come to 0.75 by then"))));
  EXPECT_THAT(
      NotesOf(Scheduler("WarmupDecayLR",
                        R"("warmup_num_steps": 0, "total_num_steps": 5)")),
      ElementsAre(AllOf(HasSubstr("step 5"), HasSubstr("stays at 0"))));
}

TEST(RateNotes, SayWhatATrainedModelsRateIsWhereNoneIsGiven) {
  const std::string pretrained = R"({"pretrained": "hf"})";
  EXPECT_THAT(
      NotesOf("", pretrained),
      ElementsAre(AllOf(HasSubstr("optimizer.params.lr"), HasSubstr("2e-05"))));
  EXPECT_THAT(NotesOf(R"(, "optimizer": {"params": {"lr": 1e-3}})", pretrained),
              IsEmpty());
  EXPECT_THAT(NotesOf("", R"({"from_config": "hf"})"), IsEmpty());
}

}  // namespace
}  // namespace castor
