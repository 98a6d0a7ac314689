#include "run/checkpoint/run_identity.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "run/config/test_models.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kData[] = "4000 tokens, checksum 1a";

Config Parsed(const std::vector<std::string>& overrides = {},
              int world_size = 1) {
  auto config = ParseConfig(TestModels(),
                            R"({"model": {"n_layer": 1, "n_positions": 8},
          "data": {"train": "a.txt", "sequence_length": 8}, "steps": 10,
          "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
          "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}})",
                            "", overrides, world_size);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

TEST(RunIdentity, IsThatOfWhatDeterminesTheBits) {
  const Settings then = SettingsOf(Parsed(), kData);
  for (const char* change :
       {"steps=20", "eval_batches=2", "checkpoint.dir=out", "data.train=b.txt",
        "memory.placement_policy=cpu", "memory.device_memory=1GiB",
        "memory.activation_checkpointing=block", "device.threads=1",
        "device.bus_gbps=1", "network.timeout_seconds=9", "steps_per_print=3",
        "fp16.min_loss_scale=2"}) {
    const Settings now = SettingsOf(Parsed({change}), kData);
    EXPECT_THAT(Differences(then, now), IsEmpty()) << change;
    EXPECT_EQ(DigestOf(then), DigestOf(now)) << change;
  }
  EXPECT_EQ(DigestOf(then), DigestOf(SettingsOf(Parsed({}, 4), kData)));
  for (const char* change :
       {"seed=1", "train_batch_size=4", "train_micro_batch_size_per_gpu=1",
        "gradient_clipping=1", "optimizer.params.lr=0.1",
        "optimizer.params.max_grad_norm=1",
        "optimizer.params.bias_correction=false",
        "optimizer.no_decay=[\"*.bias\"]", "scheduler.type=WarmupLR",
        "bf16.enabled=true", "fp16.enabled=true", "data.sequence_length=4",
        "data.shuffle=false", "model.dropout=0.5", "model.n_layer=2",
        "model.frozen=[\"*wte*\"]", "device.type=cuda"}) {
    const Settings now = SettingsOf(Parsed({change}), kData);
    EXPECT_FALSE(Differences(then, now).empty()) << change;
    EXPECT_NE(DigestOf(then), DigestOf(now)) << change;
  }
}

TEST(RunIdentity, NamesWhatDiffers) {
  const Settings then = SettingsOf(Parsed(), kData);
  const Settings now =
      SettingsOf(Parsed({"optimizer.params.lr=0.1", "seed=2"}), "other");
  EXPECT_THAT(Differences(then, now),
              ElementsAre("data.train: \"4000 tokens, checksum 1a\" then, "
                          "\"other\" now",
                          "optimizer.params.lr: 0.001 then, 0.1 now",
                          "seed: 1234 then, 2 now"));
  EXPECT_THAT(Differences({{"a", "1"}}, {{"b", "2"}}),
              ElementsAre("a: 1 then, absent now", "b: absent then, 2 now"));
}

}  // namespace
}  // namespace castor
