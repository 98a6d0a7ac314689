// docs/configuration.md has a row for each key that a configuration may have,
// and for no other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/test_files.h"
#include "run/config/config.h"
#include "run/config/test_models.h"
#include "run/optim/optimizers.h"

namespace castor {
namespace {

// The keys of the table, as they stand in backquotes in its first column.
std::set<std::string> KeysOfThePage() {
  const std::string page = ReadFile("docs/configuration.md");
  const size_t begin = page.find("\n## All keys\n");
  const size_t end = page.find("\n## ", begin + 1);
  std::set<std::string> keys;
  for (const absl::string_view line :
       absl::StrSplit(page.substr(begin, end - begin), '\n')) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, '`');
    EXPECT_TRUE(keys.insert(parts[1]).second) << parts[1] << " is there twice";
  }
  return keys;
}

// The keys of one object: what the message about a key that is like none says.
// `sets` lead to the object.
std::vector<std::string> KnownKeys(const std::string& object,
                                   std::vector<std::string> sets) {
  const std::string prefix = object.empty() ? "" : object + ".";
  sets.push_back(prefix + "qqqqqqqqqqqqqqqq=1");
  const absl::Status status =
      ParseConfig(TestModels(),
                  R"({"model": {"n_layer": 2, "n_positions": 16},
                      "data": {"train": "a.txt"}, "steps": 3,
                      "train_batch_size": 4})",
                  /*base_dir=*/"", sets)
          .status();
  const std::vector<std::string> parts =
      absl::StrSplit(std::string(status.message()), " are ");
  EXPECT_EQ(parts.size(), 2u) << status;
  std::vector<std::string> keys;
  for (const absl::string_view key : absl::StrSplit(parts.back(), ", ")) {
    keys.push_back(absl::StrCat(prefix, key));
  }
  return keys;
}

TEST(ConfigPage, HasARowForEachKeyAndForNoOther) {
  std::set<std::string> known;
  const auto add = [&](const std::string& object,
                       const std::vector<std::string>& sets = {}) {
    for (std::string& key : KnownKeys(object, sets)) known.insert(key);
  };
  for (const char* object :
       {"", "data", "checkpoint", "optimizer", "optimizer.state_format",
        "scheduler", "scheduler.params", "bf16", "fp16", "device", "memory",
        "network"}) {
    add(object);
  }
  for (const absl::string_view type : OptimizerNames()) {
    add("optimizer.params", {absl::StrCat("optimizer.type=", type)});
  }
  EXPECT_THAT(KeysOfThePage(), ::testing::ContainerEq(known));
}

}  // namespace
}  // namespace castor
