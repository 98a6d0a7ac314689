#include "run/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json_reader.h"
#include "base/test_files.h"
#include "base/thread_pool.h"
#include "run/config/other_names.h"
#include "run/config/test_models.h"
#include "run/optim/optimizers.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The smallest configuration.
constexpr char kMinimal[] = R"({
  "model": {"n_layer": 2, "n_positions": 16},
  "data": {"train": "a.txt"}, "steps": 3, "train_batch_size": 4})";

// Every key of the documentation's example.
constexpr char kFull[] = R"({
  // a comment
  "model": {"type": "test", "n_layer": 6, "n_positions": 256,
            "dropout": 0.1, "frozen": ["wte.*"]},
  "data": {"train": "text.txt", "validation": "val.txt",
           "tokenizer": "tokenizer", "cache": "tokens",
           "validation_fraction": 0.05, "token_type": "uint16",
           "sequence_length": 128, "shuffle": false},
  "steps": 200, "seed": 7, "eval_interval": 50, "eval_batches": 4,
  "checkpoint": {"dir": "out", "save_interval": 100, "keep": 3,
                 "on_error": "continue", "lock": false},
  "train_batch_size": 16, "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 4, "gradient_clipping": 1.0,
  "optimizer": {"type": "AdamW",
                "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8,
                           "weight_decay": 0.1},
                "no_decay": ["*.bias", "*ln_*"]},
  "scheduler": {"type": "WarmupCosineLR",
                "params": {"warmup_num_steps": 20, "total_num_steps": 200,
                           "cos_min_ratio": 0.1}},
  "bf16": {"enabled": true},
  "fp16": {"enabled": false, "loss_scale": 0, "initial_scale_power": 16,
           "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1},
  "device": {"type": "host", "threads": 2, "bus_gbps": 8.0},
  "memory": {"placement_policy": "cpu", "device_memory": "48MiB",
             "host_memory": "unlimited", "pinned_memory": "512MiB",
             "chunk_size": "1MiB", "gpu_margin_mem_ratio": 0.5,
             "warmup_steps": 2, "prefetch": false,
             "activation_checkpointing": "block"},  /* the end */
  "steps_per_print": 5
})";

absl::StatusOr<Config> Parse(absl::string_view text,
                             const std::vector<std::string>& overrides = {},
                             int world_size = 1) {
  return ParseConfig(TestModels(), text, "/base", overrides, world_size);
}

std::string Error(const std::vector<std::string>& overrides,
                  absl::string_view text = kMinimal, int world_size = 1) {
  const auto config = Parse(text, overrides, world_size);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument)
      << testing::PrintToString(overrides);
  return std::string(config.status().message());
}

TEST(Config, ReadsEveryKey) {
  const auto config = Parse(kFull);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.type, "test");
  EXPECT_EQ(config->model.architecture->positions(), 256);
  EXPECT_THAT(config->model.frozen, ElementsAre("wte.*"));
  EXPECT_EQ(NamesOf(config->data.train), "/base/text.txt");
  EXPECT_EQ(NamesOf(config->data.validation), "/base/val.txt");
  EXPECT_EQ(config->data.tokenizer, "/base/tokenizer");
  EXPECT_EQ(config->data.cache, "/base/tokens");
  EXPECT_EQ(config->data.validation_fraction, 0.05);
  EXPECT_EQ(config->data.sequence_length, 128);
  EXPECT_FALSE(config->data.shuffle);
  EXPECT_EQ(config->steps, 200);
  EXPECT_EQ(config->seed, 7);
  EXPECT_EQ(config->eval_interval, 50);
  EXPECT_EQ(config->eval_batches, 4);
  EXPECT_EQ(config->checkpoint.dir, "/base/out");
  EXPECT_EQ(config->checkpoint.save_interval, 100);
  EXPECT_EQ(config->checkpoint.keep, 3);
  EXPECT_EQ(config->checkpoint.on_error, OnSaveError::kContinue);
  EXPECT_FALSE(config->checkpoint.lock);
  EXPECT_EQ(config->gradient_accumulation_steps, 4);
  EXPECT_EQ(config->gradient_clipping, 1);
  EXPECT_EQ(config->optimizer.lr, 3e-4);
  EXPECT_EQ(config->optimizer.rule->name(), "AdamW");
  EXPECT_EQ(config->optimizer.rule->Params().dump(),
            R"({"betas":[0.9,0.95],"eps":1e-08,"adam_w_mode":true})");
  EXPECT_EQ(config->optimizer.weight_decay, 0.1);
  EXPECT_THAT(config->optimizer.no_decay, ElementsAre("*.bias", "*ln_*"));
  EXPECT_EQ(config->scheduler.row().name, "WarmupCosineLR");
  EXPECT_EQ(config->scheduler["warmup_num_steps"], 20);
  EXPECT_EQ(config->scheduler["total_num_steps"], 200);
  EXPECT_EQ(config->scheduler["cos_min_ratio"], 0.1);
  EXPECT_EQ(config->dtype(), DType::kBFloat16);
  EXPECT_EQ(config->device.threads, 2);
  EXPECT_EQ(ThreadsOf(config->device), 2);
  EXPECT_EQ(config->device.bus_gbps, 8);
  EXPECT_EQ(config->memory.placement_policy, FindPolicy("cpu"));
  EXPECT_EQ(config->memory.device_memory, 48 << 20);
  EXPECT_EQ(config->memory.host_memory, kUnlimitedBytes);
  EXPECT_EQ(config->memory.chunk_size, 1 << 20);
  EXPECT_EQ(config->memory.gpu_margin_mem_ratio, 0.5);
  EXPECT_EQ(config->memory.warmup_steps, 2);
  EXPECT_FALSE(config->memory.prefetch);
  EXPECT_EQ(config->memory.activation_checkpointing,
            ActivationCheckpointing::kBlock);
  EXPECT_EQ(config->steps_per_print, 5);
}

TEST(Config, LeavesProcessorsToThoseWhoIssueWorkToAGpu) {
  EXPECT_EQ(ThreadsOn(DeviceType::kHost, 2), 2);
  EXPECT_EQ(ThreadsOn(DeviceType::kCuda, 16), 13);
  EXPECT_EQ(ThreadsOn(DeviceType::kCuda, 3), 1);
  DeviceConfig device = {.type = DeviceType::kCuda};
  EXPECT_EQ(ThreadsOf(device), std::max(1, AvailableProcessors() - 3));
  device.threads = 5;
  EXPECT_EQ(ThreadsOf(device), 5);
}

TEST(Config, DefaultsAreThoseOfTheHeader) {
  const auto config = Parse(kMinimal);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.sequence_length, 16);  // n_positions
  EXPECT_EQ(config->device.threads, 0);
  EXPECT_EQ(ThreadsOf(config->device), AvailableProcessors());
  EXPECT_EQ(config->train_micro_batch_size_per_gpu, 4);
  EXPECT_EQ(config->scheduler.row().name, "none");
  EXPECT_EQ(config->dtype(), DType::kFloat32);
  EXPECT_EQ(config->memory, MemoryConfig());
  EXPECT_EQ(config->optimizer, OptimizerConfig());
  EXPECT_EQ(config->checkpoint, CheckpointConfig());
}

TEST(Config, SurvivesItsOwnJson) {
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{
           {},
           {"memory.chunk_size=auto", "memory.pinned_memory=auto",
            "memory.device_memory=0"},
           {"memory.device_memory=follow", "memory.device_memory_floor=1GiB",
            "device.memory=2GiB", "device.memory_dir=card"},
           {"memory.device_memory=follow", "device={\"type\":\"cuda\"}"},
           {"scheduler={\"type\":\"WarmupInverseSqrtLR\"}"},
           {"scheduler=null", "optimizer.type=Adam"},
           {"scheduler={\"type\":\"WarmupDecayLR\"}", "steps=2000"},
           {"model={\"pretrained\":\"hf\",\"dropout\":0}",
            "data.sequence_length=null"},
           {"device.threads=null"},
           {"device={\"type\":\"cuda\"}", "bf16=null", "data.validation=null"},
           {"optimizer.params.lr=0.1", "gradient_clipping=0.3333333333333333"},
           {"on_nonfinite=skip", "max_skipped_steps=3"},
           {"gradient_clipping=0", "on_nonfinite_undo=true"},
           {"steps=null", "num_train_epochs=2.5", "scheduler.type=linear",
            "scheduler.params={\"warmup_ratio\": 0.1}"},
           {"eval_strategy=epoch", "eval_interval=null", "data.seed=5",
            "early_stopping_patience=3", "early_stopping_threshold=0.01",
            "checkpoint.load_best=true",
            "checkpoint.best_metric=token_accuracy"},
           {"scheduler={\"type\":\"Noam\",\"params\":{\"warmup_iter\":9}}"},
       }) {
    const auto config = Parse(kFull, overrides);
    ASSERT_TRUE(config.ok()) << config.status();
    const std::string json = ConfigToJson(*config);
    const auto again = ParseConfig(TestModels(), json, "/elsewhere");
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << json;
    EXPECT_EQ(*again, *config) << json;
    EXPECT_EQ(ConfigToJson(*again), json);
  }
}

TEST(Config, NamesTheNearestKey) {
  EXPECT_THAT(Error({"memory.device_memry=1"}),
              AllOf(HasSubstr("memory.device_memry: unknown key"),
                    HasSubstr("memory.device_memory")));
  EXPECT_THAT(Error({"lr=1"}), HasSubstr("optimizer.params.lr"));
  EXPECT_THAT(Error({"optimiser.type=Adam"}), HasSubstr("is optimizer"));
}

TEST(Config, KnowsWhatOtherTrainersCallItsKeys) {
  for (const OtherName& name : OtherNames()) {
    const std::string error = Error({absl::StrCat(name.theirs, "=1")});
    if (name.ours.empty()) {
      EXPECT_FALSE(name.says.empty()) << name.theirs;
      EXPECT_THAT(error, HasSubstr(absl::StrCat(name.theirs, ": unknown key; ",
                                                name.says, ": leave it out")));
      continue;
    }
    EXPECT_THAT(error, HasSubstr(absl::StrCat(
                           name.theirs, ": unknown key; here ", name.ours,
                           " takes its place", name.says.empty() ? "" : ": ",
                           name.says)));
    // Nothing takes a list of lists, so that the key itself is refused; one
    // optimizer at least knows it.
    bool known = false;
    for (const absl::string_view type : OptimizerNames()) {
      known |= !absl::StrContains(Error({absl::StrCat("optimizer.type=", type),
                                         absl::StrCat(name.ours, "=[[]]")}),
                                  "unknown key");
    }
    EXPECT_TRUE(known) << name.ours;
  }
  EXPECT_THAT(Error({"memory.policy=cpu"}),
              HasSubstr("nearest known key is memory.placement_policy"));
  EXPECT_THAT(Error({"memory.checkpointing=auto"}),
              HasSubstr("is memory.activation_checkpointing"));
  EXPECT_THAT(Error({"lora=8"}), HasSubstr("the known ones are model, data"));
}

TEST(Config, SaysAllThatIsWrong) {
  // An error that keys of two sections make together names these keys alone.
  EXPECT_EQ(Error({"train_batch_size=7", "gradient_accumulation_steps=2",
                   "data.sequence_length=17", "eval_interval=5"}),
            "--set train_batch_size=7, --set gradient_accumulation_steps=2: "
            "train_batch_size: 7 is no multiple of 2, which accumulation 2 x "
            "world size 1 make (the rule: train_batch_size = "
            "train_micro_batch_size_per_gpu x gradient_accumulation_steps x "
            "world size 1)\n"
            "--set data.sequence_length=17: data.sequence_length: 17 is more "
            "than the model's n_positions (16)\n"
            "--set eval_interval=5: eval_interval: needs data.validation or "
            "data.validation_fraction");
  EXPECT_EQ(Error({"model.n_positions=none", "data.sequence_length=5000",
                   "data.validation_file=v.txt", "eval_interval=5"}),
            "--set model.n_positions=none: model.n_positions: expected an "
            "integer of at least 1, found the string \"none\"\n"
            "--set data.validation_file=v.txt: data.validation_file: unknown "
            "key; here data.validation takes its place");
  EXPECT_EQ(Error({"scheduler.type=OneCycle", "scheduler.params.pct_start=0.3",
                   "scheduler.params.cos_min_ratio=2"})
                .find("has no meaning"),
            std::string::npos);
}

TEST(ClientConfig, SaysAllThatIsWrong) {
  const auto config = ParseClientConfig(
      R"({"model": {}, "memory": {"activation_checkpointing": "block"},
          "train_batch_size": "auto", "zero_optimization": {"stage": 3}})",
      "ds.json");
  EXPECT_EQ(
      config.status().message(),
      "ds.json: model: belongs to castor train; the program that trains its "
      "own "
      "model has it: leave it out\n"
      "ds.json: memory.activation_checkpointing: a client's activations are "
      "its "
      "own; use its checkpointing");
}

TEST(Config, NamesThePathOfAWrongValue) {
  const char* const kCases[][2] = {
      {"steps=0", "steps: expected an integer of at least 1"},
      {"steps=many", "steps: expected an integer"},
      {"seed=-1", "seed: expected"},
      {"model.n_layer=0", "model.n_layer: expected"},
      {"model.n_layer=1000000000000",
       "train_micro_batch_size_per_gpu: 4 samples of 16 tokens are more than "
       "can be counted"},
      {"data.sequence_length=17", "data.sequence_length: 17 is more than"},
      {"data.validation_fraction=1", "data.validation_fraction: expected"},
      {"data.token_type=int8", "data.token_type: expected one of \"uint16\""},
      {"data.tokenizer=3", "data.tokenizer: expected a string, found 3"},
      {"data.tokeniser=x", "data.tokeniser: unknown key"},
      {"data={\"train\": \"a.bin\", \"tokenizer\": \"bytes\"}",
       "data.tokenizer: a .bin or .npy file has tokens already"},
      {"data.cache=[]", "data.cache: expected a string"},
      {"data.train=3", "data.train: expected the name of a file, {\"path\""},
      {"data.train=", "data.train: expected the name of a file"},
      {"data={}", "data.train: is required"},
      {"model=null", "model: is required"},
      {"gradient_clipping=-1", "gradient_clipping: expected"},
      {"gradient_clipping=nan", "gradient_clipping: expected"},
      {"on_nonfinite=warn", "on_nonfinite: expected one of \"error\""},
      {"max_skipped_steps=3", "max_skipped_steps: has a meaning only beside"},
      {"max_skipped_steps=0", "max_skipped_steps: expected"},
      {"optimizer.params.betas=[0.9]", "optimizer.params.betas: expected"},
      {"optimizer.params.betas=[0.9,1]", "optimizer.params.betas: expected"},
      {"optimizer.params.lr=-1", "optimizer.params.lr: expected"},
      {"optimizer.params.eps=0", "optimizer.params.eps: expected"},
      {"optimizer.params.adam_w_mode=false", "optimizer.params.adam_w_mode"},
      {"optimizer.type=Muon", "optimizer.type: expected one of \"AdamW\""},
      {"optimizer.no_decay=bias", "optimizer.no_decay: expected a list"},
      {"scheduler.type=OneCycle", "scheduler.type: expected one of \"none\""},
      {"scheduler.params.total_num_steps=3", "has no meaning"},
      {"memory.device_memory=-4", "memory.device_memory: expected a size"},
      {"memory.device_memory=4 hogsheads", "memory.device_memory: expected"},
      {"memory.pinned_memory=unlimited", "memory.pinned_memory: expected"},
      {"memory.chunk_size=big", "memory.chunk_size: expected a size"},
      {"memory.placement_policy=gpu", "memory.placement_policy: expected"},
      {"memory.placement_policy=lru",
       "memory.placement_policy: expected one of \"cuda\", \"cpu\", \"auto\", "
       "as other policies are baselines for benchmarks and castor replay, "
       "found "
       "the string \"lru\""},
      {"memory.gpu_margin_mem_ratio=1.1", "memory.gpu_margin_mem_ratio"},
      {"memory.warmup_steps=0", "memory.warmup_steps: expected"},
      {"memory.prefetch=1", "memory.prefetch: expected true or false"},
      {"memory.activation_checkpointing=all", "expected one of \"none\""},
      {"memory=1", "memory: expected an object"},
      {"device.threads=0", "device.threads: expected"},
      {"device.bus_gbps=-1", "device.bus_gbps: expected"},
      {"device.type=tpu", "device.type: expected one of \"host\""},
      {"checkpoint.keep=0", "checkpoint.keep: expected"},
      {"checkpoint.on_error=retry",
       "checkpoint.on_error: expected one of \"stop\""},
      {"checkpoint.dir=", "checkpoint.dir: expected the name of a directory"},
      {"checkpoint=true", R"(expected an object, like {"dir": "out"}, or )"
                          "false"},
      {"checkpoint.keep_aside=0", "checkpoint.keep_aside: expected"},
      {"eval_interval=5", "eval_interval: needs data.validation"},
      {"train_micro_batch_size_per_gpu=1048577", "expected an integer from"},
  };
  for (const auto& [override_text, message] : kCases) {
    EXPECT_THAT(Error({override_text}), HasSubstr(message));
  }
}

TEST(Config, BytesAreNoDirectory) {
  EXPECT_EQ(Parse(kMinimal, {"data.tokenizer=bytes"})->data.tokenizer,
            kBytesTokenizer);
  EXPECT_EQ(Parse(kMinimal, {"data.tokenizer=./bytes"})->data.tokenizer,
            "/base/bytes");
  EXPECT_EQ(Parse(kMinimal, {"data.tokenizer=null"})->data.tokenizer, "");
  // A file of tokens may train a model that text validates.
  EXPECT_TRUE(Parse(kMinimal, {"data.tokenizer=t", "data.train=a.bin",
                               "data.validation=v.txt"})
                  .ok());
}

TEST(Config, PrecisionIsOneOfThree) {
  EXPECT_EQ(Parse(kMinimal, {"fp16.enabled=false"})->dtype(), DType::kFloat32);
  EXPECT_EQ(Parse(kMinimal, {"fp16.enabled=true"})->dtype(), DType::kFloat16);
  EXPECT_THAT(Error({"fp16.enabled=true", "bf16.enabled=true"}),
              HasSubstr("fp16.enabled: cannot be true beside bf16.enabled"));
}

TEST(Config, ALossScaleMustBeOne) {
  const auto error = [](const char* override_text) {
    return Error({"fp16.enabled=true", override_text});
  };
  EXPECT_THAT(error("fp16.min_loss_scale=0"),
              HasSubstr("fp16.min_loss_scale: must be more than 0"));
  EXPECT_THAT(error("fp16.min_loss_scale=65537"),
              AllOf(HasSubstr("fp16.min_loss_scale: 65537 is more than"),
                    HasSubstr("2^fp16.initial_scale_power = 65536")));
  EXPECT_THAT(error("fp16.loss_scale=1e-40"), HasSubstr("fp16.loss_scale:"));
  EXPECT_THAT(error("fp16.loss_scale=1e40"), HasSubstr("fp16.loss_scale:"));
  EXPECT_THAT(error("fp16.loss_scale=-1"), HasSubstr("fp16.loss_scale:"));
  EXPECT_THAT(error("fp16.initial_scale_power=101"),
              HasSubstr("fp16.initial_scale_power:"));
  EXPECT_THAT(error("fp16.loss_scale_window=0"),
              HasSubstr("fp16.loss_scale_window:"));
  EXPECT_THAT(error("fp16.hysteresis=0"), HasSubstr("fp16.hysteresis:"));
  // One that is not dynamic has no minimum.
  EXPECT_TRUE(Parse(kMinimal, {"fp16.enabled=true", "fp16.loss_scale=128",
                               "fp16.min_loss_scale=1e6"})
                  .ok());
}

struct Batch {
  int64_t batch, micro, accumulation;
};

TEST(BatchRule, InfersWhatIsLeftOut) {
  const struct {
    std::vector<std::string> keys;
    int world_size;
    Batch expected;
  } kCases[] = {
      {{"train_batch_size=12"}, 1, {12, 12, 1}},
      {{"train_batch_size=12"}, 3, {12, 4, 1}},
      {{"train_batch_size=12", "train_micro_batch_size_per_gpu=2"},
       1,
       {12, 2, 6}},
      {{"train_batch_size=12", "train_micro_batch_size_per_gpu=2"},
       2,
       {12, 2, 3}},
      {{"train_batch_size=12", "gradient_accumulation_steps=3"}, 2, {12, 2, 3}},
      {{"train_batch_size=null", "train_micro_batch_size_per_gpu=5"},
       2,
       {10, 5, 1}},
      {{"train_batch_size=null", "train_micro_batch_size_per_gpu=5",
        "gradient_accumulation_steps=3"},
       2,
       {30, 5, 3}},
      {{"train_batch_size=30", "train_micro_batch_size_per_gpu=5",
        "gradient_accumulation_steps=3"},
       2,
       {30, 5, 3}},
  };
  for (const auto& test : kCases) {
    const auto config = Parse(kMinimal, test.keys, test.world_size);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->train_batch_size, test.expected.batch);
    EXPECT_EQ(config->train_micro_batch_size_per_gpu, test.expected.micro);
    EXPECT_EQ(config->gradient_accumulation_steps, test.expected.accumulation);
  }
}

TEST(BatchRule, RefusesWhatDoesNotHold) {
  EXPECT_THAT(Error({"train_batch_size=12", "train_micro_batch_size_per_gpu=5",
                     "gradient_accumulation_steps=3"}),
              HasSubstr("train_batch_size: 12 is not 15"));
  EXPECT_THAT(
      Error({"train_batch_size=12", "train_micro_batch_size_per_gpu=5"}),
      HasSubstr("12 is no multiple of 5"));
  EXPECT_THAT(Error({"train_batch_size=12", "gradient_accumulation_steps=24"}),
              HasSubstr("12 is no multiple of 24"));
  EXPECT_THAT(Error({"train_batch_size=12"}, kMinimal, 5),
              HasSubstr("no multiple of 5"));
  EXPECT_THAT(Error({"train_batch_size=null"}), HasSubstr("is required"));
  EXPECT_THAT(Error({"train_batch_size=null", "gradient_accumulation_steps=2"}),
              HasSubstr("is required"));
  EXPECT_THAT(Error({"train_batch_size=1000000000"}), HasSubstr("too many"));
}

TEST(Overrides, ReplaceAddAndTakeStringsAsTheyAre) {
  const auto config =
      Parse(kMinimal, {"steps=10", "steps=11", "memory.placement_policy=cpu",
                       "data.train=sub/b.txt", "device.bus_gbps=2.5",
                       "optimizer.no_decay=[\"*.bias\"]", "checkpoint.dir=a=b",
                       "data.validation=\"/abs/v\""});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->steps, 11);
  EXPECT_EQ(config->memory.placement_policy, FindPolicy("cpu"));
  EXPECT_EQ(NamesOf(config->data.train), "/base/sub/b.txt");
  EXPECT_EQ(NamesOf(config->data.validation), "/abs/v");
  EXPECT_EQ(config->device.bus_gbps, 2.5);
  EXPECT_THAT(config->optimizer.no_decay, ElementsAre("*.bias"));
  EXPECT_EQ(config->checkpoint.dir, "/base/a=b");
}

TEST(Overrides, RefuseWhatLeadsNowhere) {
  EXPECT_THAT(Error({"steps"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(Error({"=3"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(Error({"memory..x=3"}), HasSubstr("empty part"));
  EXPECT_THAT(Error({"steps.x=3"}), HasSubstr("steps is 3, which has no keys"));
  EXPECT_THAT(Error({"model.frozen.0=3"}, kFull),
              HasSubstr("set the list as a whole"));
  EXPECT_THAT(Error({"memory.x.y=3"}), HasSubstr("memory.x: unknown key"));
}

TEST(Config, RefusesTextThatIsNoConfig) {
  for (const char* text : {"", "[]", "3", "{", "{\"steps\": 1e999}", "nul",
                           "{\"steps\": NaN}", "{\"steps\": 1} x", "\xff",
                           "{\"steps\": 1, \"steps\": 2}", "/* open"}) {
    Error({}, text);
  }
  EXPECT_THAT(Error({}, std::string(100000, '[')), HasSubstr("nested deeper"));
  EXPECT_EQ(Parse(kMinimal, {}, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LoadConfig, ResolvesPathsAgainstTheFile) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/c.json";
  WriteFile(path, kFull);
  const auto config =
      LoadConfig(TestModels(), path, {"model={\"pretrained\":\"../hf\"}"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(NamesOf(config->data.train), directory.path() + "/text.txt");
  const auto sizes =
      LoadConfig(TestModels(), path, {"model={\"from_config\":\"../hf\"}"});
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->model.from_config, config->model.pretrained);
  EXPECT_EQ(config->model.pretrained,
            directory.path().substr(0, directory.path().rfind('/')) + "/hf");
}

TEST(LoadConfig, PutsCheckpointsBesideTheFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/run.json";
  WriteFile(path, kMinimal);
  auto config = LoadConfig(TestModels(), path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->checkpoint.dir, directory.path() + "/run.castor");
  EXPECT_EQ(config->checkpoint.dir, DefaultCheckpointDir(path));
  config = LoadConfig(TestModels(), path, {"checkpoint=false"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->checkpoint.wanted);
  EXPECT_EQ(config->checkpoint.dir, "");
  // The later setting on the command line counts.
  config = LoadConfig(TestModels(), path,
                      {"checkpoint=false", "checkpoint.dir=out"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->checkpoint.wanted);
  EXPECT_EQ(config->checkpoint.dir, directory.path() + "/out");
  for (const bool wanted : {true, false}) {
    if (!wanted) config->checkpoint = CheckpointConfig();
    config->checkpoint.wanted = wanted;
    const auto again = ParseConfig(TestModels(), ConfigToJson(*config), "");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *config);
  }
}

TEST(LoadConfig, GivesTrainedWeightsAGentlerRate) {
  const auto rate = [](const std::string& model) {
    const auto config =
        ParseConfig(TestModels(), kMinimal, "", {"model=" + model});
    EXPECT_TRUE(config.ok()) << config.status();
    return config->optimizer.lr;
  };
  EXPECT_EQ(rate(R"({"pretrained": "hf"})"), 2e-5);
  EXPECT_EQ(rate(R"({"from_config": "hf"})"), 1e-3);
}

TEST(LoadConfig, NamesTheFile) {
  EXPECT_EQ(LoadConfig(TestModels(), "/no/such.json").status().code(),
            absl::StatusCode::kNotFound);
  TemporaryDirectory directory;
  EXPECT_FALSE(LoadConfig(TestModels(), directory.path()).ok());
  const std::string path = directory.path() + "/c.json";
  WriteFile(path, "{\"stepz\": 1}");
  EXPECT_THAT(std::string(LoadConfig(TestModels(), path).status().message()),
              AllOf(HasSubstr("c.json: stepz"), HasSubstr("steps")));
  WriteFile(path, std::string((1 << 20) + 1, ' '));
  EXPECT_THAT(std::string(LoadConfig(TestModels(), path).status().message()),
              HasSubstr("more than"));
}

}  // namespace
}  // namespace castor
