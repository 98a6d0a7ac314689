// A budget that follows what others leave of a card, and the emulated card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "run/config/config.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::HasSubstr;

std::string Error(const std::vector<std::string>& overrides) {
  const auto config =
      ParseConfig(TestModels(),
                  R"({"model": {"n_layer": 2, "n_positions": 16},
                      "data": {"train": "a.txt"}, "steps": 3,
                      "train_batch_size": 4})",
                  "/base", overrides);
  EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << config.status();
  return std::string(config.status().message());
}

TEST(MemorySettings, FollowACardThatHasAsMuch) {
  for (const auto& [overrides, message] :
       {std::pair<std::vector<std::string>, std::string>{
            {"memory.device_memory=follow"},
            "memory.device_memory: \"follow\" needs a card of which others "
            "take"},
        {{"memory.device_memory=follow", "device.memory=1GiB",
          "memory.device_memory_floor=2GiB"},
         "memory.device_memory_floor: 2.00 GiB is more than device.memory, "
         "1.00 GiB"},
        {{"memory.device_memory_floor=1GiB"},
         "memory.device_memory_floor: has a meaning only beside"},
        {{"device.memory=0"}, "device.memory: a card needs more than 0 bytes"},
        {{"device.memory_dir=card"}, "device.memory_dir: needs device.memory"},
        {{"device.type=cuda", "device.memory=1GiB"},
         "device.memory: is of a card that the host emulates"}}) {
    EXPECT_THAT(Error(overrides), HasSubstr(message));
  }
}

TEST(MemorySettings, AClientFollowsNothing) {
  const auto message = [](const char* text) {
    return std::string(ParseClientConfig(text).status().message());
  };
  EXPECT_THAT(message(R"({"device": {"type": "cuda"},
                          "memory": {"device_memory": "follow"}})"),
              HasSubstr("memory.device_memory: \"follow\" is castor train's"));
  EXPECT_THAT(message(R"({"device": {"memory": "1GiB"}})"),
              HasSubstr("device.memory: is castor train's"));
}

}  // namespace
}  // namespace castor
