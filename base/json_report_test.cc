#include "base/json_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_list.h"

namespace castor {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Errors(const JsonReport& report) {
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  return ErrorsOf(report.status());
}

TEST(JsonReport, HasAllErrorsInTheirOrder) {
  JsonReport report("file");
  EXPECT_TRUE(report.status().ok());
  report.AddError("b", "is bad");
  report.AddMissing("a", "is required");
  report.AddUnknownKey("c", "d", {});
  report.AddErrorOf("--flag", "means nothing");
  EXPECT_THAT(Errors(report),
              ElementsAre("file: b: is bad",  //
                          "file: a: is required", "file: c.d: unknown key",
                          "--flag: means nothing"));
}

TEST(JsonReport, SaysOfEachErrorWhereItComesFrom) {
  JsonReport report("file");
  report.SetSource("a.b", "--set a.b=1");
  report.SetSource("c", "--set c={}");
  report.AddError("a", "is bad");
  report.AddError("c.d", "is bad");
  report.AddUnknownKey("c", "x", {});
  // "ab" is no part of "a".
  report.AddError("ab", "is bad");
  EXPECT_THAT(Errors(report),
              ElementsAre("file: a: is bad", "--set c={}: c.d: is bad",
                          "--set c={}: c.x: unknown key", "file: ab: is bad"));
  // The last one counts; what replaces a whole object replaces its keys.
  report.SetSource("a", "--set a={}");
  report.SetSource("a.e", "--set a.e=1");
  JsonReport again("file");
  again.SetSource("a.b", "first");
  again.SetSource("a", "second");
  again.SetSource("a.e", "third");
  again.AddError("a.b", "is bad");
  again.AddError("a.e", "is bad");
  EXPECT_THAT(Errors(again),
              ElementsAre("second: a.b: is bad", "third: a.e: is bad"));
}

TEST(JsonReport, NamesTheSourcesOfAllKeysThatAnErrorConcerns) {
  JsonReport report("file");
  report.SetSource("b", "--set b=1");
  report.AddError("a", "is less than b", {"b"});
  report.AddError("c", "is less than d", {"d"});
  EXPECT_THAT(Errors(report), ElementsAre("file, --set b=1: a: is less than b",
                                          "file: c: is less than d"));
}

TEST(JsonReport, LeavesOutWhatFollows) {
  JsonReport report("file");
  report.AddError("sum", "is not a + b", {"a", "b"});  // b is wrong, see below
  report.AddError("b", "is bad");
  report.AddError("b", "is worse");
  report.AddMissing("b.c", "is required");
  report.AddMissing("whole", "is required");
  report.AddMissing("whole.part", "is required");
  report.AddError("of_missing", "is more than whole", {"whole.part"});
  report.AddError("of_parts", "does not fit", {"d"});  // d.x is wrong
  report.AddError("d.x", "is bad");
  report.AddError("fine", "is not e", {"e"});
  EXPECT_THAT(Errors(report),
              ElementsAre("file: b: is bad", "file: whole: is required",
                          "file: d.x: is bad", "file: fine: is not e"));
  // Only the first of two that concern each other is told.
  JsonReport circle("file");
  circle.AddError("a", "is not b", {"b"});
  circle.AddError("b", "is not a", {"a"});
  EXPECT_THAT(Errors(circle), ElementsAre("file: a: is not b"));
}

TEST(JsonReport, AMissingKeyIsExplainedByTheUnknownOneThatMeansIt) {
  JsonReport report("file");
  report.AddKnownKey("", "steps");
  report.AddMissing("steps", "is required");
  report.AddError("total", "is required where there are no steps", {"steps"});
  report.AddUnknownKey("", "stpes", {"steps", "total"});
  report.AddMissing("data", "is required");
  EXPECT_THAT(Errors(report),
              ElementsAre("file: stpes: unknown key; the nearest known key is "
                          "steps",
                          "file: data: is required"));
  // A wrong value is none that is missing.
  JsonReport both("file");
  both.AddError("steps", "is bad");
  both.AddUnknownKey("", "step", {"steps"});
  EXPECT_THAT(Errors(both),
              ElementsAre("file: steps: is bad",
                          "file: step: unknown key; the nearest known key is "
                          "steps"));
}

TEST(JsonReport, NothingIsSaidOfADocumentThatIsNone) {
  JsonReport report("file");
  report.AddError("", "expected an object {...}, found 3");
  report.AddMissing("steps", "is required");
  EXPECT_THAT(Errors(report),
              ElementsAre("file: expected an object {...}, found 3"));
}

TEST(JsonReport, ListsNoMoreErrorsThanAnybodyReads) {
  JsonReport report("file");
  for (int i = 0; i < 100000; ++i)
    report.AddUnknownKey("", absl::StrCat(i), {});
  const std::vector<std::string> errors = Errors(report);
  ASSERT_EQ(errors.size(), 51u);
  EXPECT_EQ(errors[49], "file: 49: unknown key");
  EXPECT_EQ(errors[50], "file: 99950 more errors, which are not listed");
}

TEST(JsonReport, ErrorsHaveNoLineFeed) {
  JsonReport report("fi\nle");
  report.AddUnknownKey("", "\x1b[2J\n", {});
  report.AddError("a", "b\nc");
  EXPECT_THAT(Errors(report),
              ElementsAre("fi le: \\x1b[2J\\n: unknown key", "fi le: a: b c"));
}

// Returns the message's hint on `key` at `object`, after the words that it is
// unknown.
std::string HintOf(absl::string_view object, absl::string_view key,
                   absl::Span<const OtherName> names = {}) {
  JsonReport report("f", names);
  const std::vector<std::string> root = {"steps",
                                         "train_batch_size",
                                         "gradient_accumulation_steps",
                                         "model",
                                         "data",
                                         "checkpoint",
                                         "memory",
                                         "eval_interval",
                                         "steps_per_print",
                                         "network",
                                         "seed",
                                         "eval_batches"};
  const std::vector<std::string> memory = {"placement_policy", "device_memory",
                                           "host_memory", "chunk_size"};
  for (const std::string& known : root) report.AddKnownKey("", known);
  for (const std::string& known : memory) report.AddKnownKey("memory", known);
  for (const char* other : {"bf16", "fp16"})
    report.AddKnownKey(other, "enabled");
  report.AddUnknownKey(object, key, object.empty() ? root : memory);
  const std::vector<std::string> errors = Errors(report);
  EXPECT_EQ(errors.size(), 1u);
  const std::string before =
      absl::StrCat("f: ", JoinPath(object, key), ": unknown key");
  EXPECT_EQ(errors[0].substr(0, before.size()), before);
  return errors[0].substr(before.size());
}

TEST(Hints, SlipsOfThePen) {
  const char* const kCases[][3] = {
      {"", "step", "steps"},
      {"", "stpes", "steps"},
      {"", "Steps", "steps"},
      {"", "train-batch-size", "train_batch_size"},
      {"", "train_batchsize", "train_batch_size"},
      {"", "gradient_acumulation_step", "gradient_accumulation_steps"},
      {"", "sede", "seed"},
      {"memory", "device_memry", "memory.device_memory"},
      {"memory", "placment_policy", "memory.placement_policy"},
  };
  for (const auto& [object, key, meant] : kCases) {
    EXPECT_EQ(HintOf(object, key),
              absl::StrCat("; the nearest known key is ", meant));
  }
}

TEST(Hints, KeysOfOtherObjectsAndShorterNames) {
  EXPECT_EQ(HintOf("", "chunk_size"),
            "; the nearest known key is memory.chunk_size");
  EXPECT_EQ(HintOf("memory", "policy"),
            "; the nearest known key is memory.placement_policy");
  EXPECT_EQ(HintOf("", "accumulation_steps"),
            "; the nearest known key is gradient_accumulation_steps");
}

// Words that have a letter or a word in common with a key and another meaning.
TEST(Hints, NothingForUnrelatedWords) {
  for (const char* key :
       {"log_interval", "chunk_size_mb", "load_best_model_at_end",
        "communication_data_type", "checkpoint_activations", "lora",
        "date_format", "beta", "enabled", "models_dir",
        "interval_in_seconds"}) {
    EXPECT_EQ(HintOf("", key).rfind("; the known ones are steps, ", 0), 0u)
        << key << HintOf("", key);
  }
  EXPECT_EQ(HintOf("memory", "budget_of_device"),
            "; the known ones in memory are placement_policy, device_memory, "
            "host_memory, chunk_size");
}

TEST(Hints, KnownKeysAreListedOnce) {
  JsonReport report("f");
  report.AddUnknownKey("", "x", {"steps"});
  report.AddUnknownKey("", "y", {"steps"});
  report.AddUnknownKey("data", "y", {"train"});
  EXPECT_THAT(Errors(report),
              ElementsAre("f: x: unknown key; the known ones are steps",
                          "f: y: unknown key",
                          "f: data.y: unknown key; the known ones in data are "
                          "train"));
}

TEST(Hints, OtherProgramsNames) {
  const OtherName names[] = {{"epochs", "steps", "a number of updates"},
                             {"step", "seed"},
                             {"memory.amp", "", "there is none"}};
  EXPECT_EQ(HintOf("", "epochs", names),
            "; here steps takes its place: a number of updates");
  // A key in `names` has a known meaning, so its hint is no guess.
  EXPECT_EQ(HintOf("", "step", names), "; here seed takes its place");
  // A key's meaning in one object need not be its meaning in another.
  EXPECT_EQ(HintOf("memory", "amp", names), "; there is none: leave it out");
  EXPECT_EQ(HintOf("", "amp", names).rfind("; the known ones are ", 0), 0u);
}

TEST(EditDistance, CountsChanges) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("flaw", "lawn"), 2);
  EXPECT_EQ(EditDistance("stpes", "steps"), 1);
  EXPECT_EQ(EditDistance("ba", "ab"), 1);
  EXPECT_EQ(EditDistance(std::string(100000, 'a'), "a"), 99);
}

}  // namespace
}  // namespace castor
