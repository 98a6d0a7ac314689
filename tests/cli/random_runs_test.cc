// Promise P1 over whole runs as people configure them: several files, epochs or
// steps, data that are streamed or kept, batches by length, rows, evaluations,
// the best checkpoint, an early end. A run has the same bits under another
// placement, on another number of ranks, and when it goes on in the middle from
// a checkpoint.
//
// CASTOR_CASES=N runs N configurations, CASTOR_SEED=S takes others.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/cli/cli_test_base.h"
#include "tests/from_environment.h"
#include "tests/random.h"

namespace castor::testing {
namespace {

class RandomRuns : public CliTest {
 protected:
  void WriteFiles(Random& random) {
    for (const char* name : {"a.txt", "b.txt", "valid.txt"}) {
      WriteFile(Path(name), SmallText(random.Uniform(300, 1'500)));
    }
    for (const char* name : {"l.jsonl", "m.jsonl"}) {
      std::string lines;
      const int64_t count = random.Uniform(5, 60);
      for (int64_t i = 0; i < count; ++i) {
        std::vector<int64_t> ids, labels;
        const int64_t length =
            random.Chance(0.7) ? random.Uniform(3, 12) : random.Uniform(3, 40);
        for (int64_t t = 0; t < length; ++t) {
          ids.push_back(random.Uniform(0, 127));
          labels.push_back(t > 1 && random.Chance(0.3) ? -100 : ids.back());
        }
        absl::StrAppend(
            &lines, Json{{"input_ids", ids}, {"labels", labels}}.dump(), "\n");
      }
      WriteFile(Path(name), lines);
    }
  }

  // Draws the settings on which a run's bits may depend.
  static Json RandomRun(Random& random) {
    Json config = SmallConfig();
    const bool streaming = random.Chance(0.5);
    Json train = Json::array();
    for (const char* name : {"a.txt", "b.txt", "l.jsonl", "m.jsonl"}) {
      if (random.Chance(0.4)) continue;
      if (random.Chance(0.25)) {
        train.push_back({{"path", name}, {"weight", random.Pick({0.5, 2.0})}});
      } else {
        train.push_back(name);
      }
    }
    if (train.empty()) train.push_back("a.txt");
    const bool rows = !streaming && random.Chance(0.35);
    if (rows || random.Chance(0.3)) train = {"l.jsonl", "m.jsonl"};
    const int64_t length = random.Pick({16, 32});
    config["model"]["n_positions"] = length;
    Json& data = config["data"];
    data = {{"train", train},
            {"sequence_length", length},
            {"shuffle", random.Chance(0.7)}};
    if (rows) data["packing"] = "rows";
    if (random.Chance(0.3)) data["seed"] = random.Uniform(0, 99);
    if (streaming) {
      data["streaming"] = true;
      data["shuffle_window"] = random.Pick({1, 5, 16, 40, 1000});
    }
    const bool fraction = !streaming && random.Chance(0.3);
    const bool evaluates = random.Chance(0.7);
    if (fraction) {
      data["validation_fraction"] = 0.2;
    } else if (evaluates) {
      data["validation"] = rows ? "m.jsonl" : "valid.txt";
    }
    config.erase("steps");
    if (!streaming && random.Chance(0.5)) {
      config["num_train_epochs"] = random.Pick({0.3, 0.5, 1.0});
    } else {
      config["steps"] = random.Uniform(6, 24);
    }
    config["checkpoint"] = {{"dir", "out"},
                            {"keep", 1000},
                            {"save_interval", random.Uniform(1, 3)}};
    if (evaluates) {
      config["eval_batches"] = random.Pick({1, 1000});
      if (!streaming && random.Chance(0.3)) {
        config["eval_strategy"] = "epoch";
      } else {
        config["eval_interval"] = random.Uniform(1, 3);
      }
      config["checkpoint"]["load_best"] = random.Chance(0.5);
      if (random.Chance(0.7)) {
        config["early_stopping_patience"] = random.Uniform(1, 3);
        config["early_stopping_threshold"] = random.Pick({0.0, 9.0});
      }
    }
    if (random.Chance(0.3)) config["bf16"] = {{"enabled", true}};
    config["optimizer"]["params"]["lr"] = random.Pick({1e-3, 3e-2});
    config["optimizer"]["type"] = random.Pick(
        {"AdamW", "AdamW", "AdamW8bit", "AdamW16bit", "Lion8bit", "SGD"});
    if (config["optimizer"]["type"] == "SGD") {
      config["optimizer"]["params"]["momentum"] = random.Pick({0.0, 0.9});
    }
    const std::string type = config["optimizer"]["type"];
    if (config.contains("bf16") && !absl::StrContains(type, "bit")) {
      config["optimizer"]["state_format"] = {
          {"master", type == "SGD" ? "split" : "bf16"}};
    }
    return config;
  }

  // Makes the run's model an encoder, and its data records with labels. They
  // are drawn beside the other runs' values, which stay as they are.
  void MakeEncoder(Random& random, Json* config) const {
    const std::string head = random.Pick(
        {"masked_lm", "sequence_classification", "token_classification"});
    for (const char* name : {"r.jsonl", "s.jsonl"}) {
      std::string lines;
      for (int64_t i = random.Uniform(8, 60); i > 0; --i) {
        std::vector<int64_t> ids, segments, labels;
        for (int64_t t = random.Uniform(1, 40); t > 0; --t) {
          ids.push_back(random.Uniform(0, 127));
          segments.push_back(random.Uniform(0, 1));
          const bool counts = labels.empty() || random.Chance(0.5);
          labels.push_back(counts ? random.Uniform(0, 4) : -100);
        }
        Json line = {{"input_ids", ids}, {"token_type_ids", segments}};
        if (head == "sequence_classification") {
          line["label"] = labels[0];
        } else {
          line["labels"] = labels;
        }
        absl::StrAppend(&lines, line.dump(), "\n");
      }
      WriteFile(Path(name), lines);
    }
    Json& data = (*config)["data"];
    (*config)["model"] = {{"type", random.Pick({"bert", "roberta"})},
                          {"vocab_size", 128},
                          {"hidden_size", 16},
                          {"num_hidden_layers", random.Uniform(1, 2)},
                          {"num_attention_heads", 2},
                          {"intermediate_size", 24},
                          {"max_position_embeddings", 34},
                          {"num_labels", 5},
                          {"head", head}};
    (*config)["optimizer"]["no_decay"] = {"*.bias", "*LayerNorm*"};
    data["train"] = {"r.jsonl", "s.jsonl"};
    if (data.contains("validation")) data["validation"] = "s.jsonl";
    data.erase("streaming");
    data.erase("shuffle_window");
  }

  // Draws the settings on which they may not depend. *ranks: 0 is a process of
  // its own.
  static Json RandomPlacement(Random& random, Json config, int* ranks) {
    *ranks = random.Pick({0, 2});
    // Micro batches are two of all ranks together.
    if (*ranks == 2) {
      config["train_batch_size"] = 4;
      config.erase("gradient_accumulation_steps");
    }
    config["device"]["threads"] = random.Uniform(1, 2);
    config["memory"] = {
        {"placement_policy", random.Pick({"cuda", "cpu", "auto"})},
        {"prefetch", random.Chance(0.5)},
        {"warmup_steps", random.Uniform(1, 2)},
        {"activation_checkpointing", random.Pick({"none", "block", "auto"})}};
    return config;
  }

  void Clear() {
    for (const std::string& name : List(".")) {
      if (name.rfind("out", 0) == 0) {
        std::filesystem::remove_all(Path(name));
      }
    }
  }
};

// Figures that the bits determine.
Json Bits(const Json& summary) {
  Json bits;
  for (const char* key : {"parameters_sha256", "ended", "steps", "best",
                          "steps_per_epoch", "epochs"}) {
    bits[key] = summary.value(key, Json());
  }
  // Where it lies depends on the number of ranks that saved it.
  if (bits["best"].is_object()) bits["best"].erase("checkpoint");
  return bits;
}

Json LastOf(const Json& list, size_t count) {
  const size_t skip = list.size() - std::min(list.size(), count);
  return Json(
      std::vector<Json>(list.begin() + static_cast<int64_t>(skip), list.end()));
}

TEST_F(RandomRuns, HaveTheSameBitsWhereverAndHoweverOftenTheyGoOn) {
  const int64_t cases = FromEnvironment("CASTOR_CASES", 10);
  const int64_t seed = FromEnvironment("CASTOR_SEED", 1);
  int64_t early = 0, streamed = 0, by_length = 0, rows = 0, encoders = 0;
  for (int64_t i = 0; i < cases; ++i) {
    Random random(static_cast<uint64_t>(seed), static_cast<uint64_t>(i));
    WriteFiles(random);
    Json config = RandomRun(random);
    Random other(static_cast<uint64_t>(seed), static_cast<uint64_t>(~i));
    const bool is_encoder = other.Chance(0.3);
    if (is_encoder) MakeEncoder(other, &config);
    encoders += is_encoder;
    SCOPED_TRACE(
        absl::StrCat("CASTOR_SEED=", seed, ", case ", i, ": ", config.dump()));
    streamed += config["data"].contains("streaming");
    const Json whole = Summary(config);
    ASSERT_FALSE(HasFailure());
    early += whole["ended"] == "stopped_early";
    by_length += whole.contains("lengths");
    rows += config["data"].contains("packing");
    // Goes on from a checkpoint of the reference run, then on from one of that
    // run's, always placed in another way.
    for (int time = 0; time < 2; ++time) {
      std::vector<std::string> checkpoints;
      for (const std::string& name : List("out")) {
        if (name.rfind("step-", 0) == 0) checkpoints.push_back(name);
      }
      ASSERT_FALSE(checkpoints.empty());
      int ranks = 0;
      const Json placed = RandomPlacement(random, config, &ranks);
      std::vector<std::string> args;
      // Every fourth time it begins anew.
      if (random.Chance(0.75)) {
        args = {
            "--resume",
            "out/" + checkpoints[static_cast<size_t>(random.Uniform(
                         0, static_cast<int64_t>(checkpoints.size()) - 1))]};
      } else {
        Clear();
      }
      const Json again = Summary(ranks, placed, args);
      ASSERT_FALSE(HasFailure()) << placed.dump();
      EXPECT_EQ(Bits(again), Bits(whole)) << placed.dump() << Json(args).dump();
      EXPECT_EQ(again["losses"],
                LastOf(whole["losses"], again["losses"].size()));
      EXPECT_EQ(again["evaluations"],
                LastOf(whole["evaluations"], again["evaluations"].size()));
      ASSERT_FALSE(HasFailure());
    }
    Clear();
  }
  // The cases are what they are meant to be.
  if (cases >= 10) {
    EXPECT_GT(streamed, 0);
    EXPECT_LT(streamed, cases);
    EXPECT_GT(early, 0);
    EXPECT_GT(by_length, 0);
    EXPECT_GT(rows, 0);
    EXPECT_GT(encoders, 0);
  }
}

}  // namespace
}  // namespace castor::testing
