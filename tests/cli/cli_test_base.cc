#include "tests/cli/cli_test_base.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_split.h"

namespace castor::testing {

std::string SmallText(int64_t bytes) {
  constexpr const char* kWords[] = {"the",  "light", "of", "day",  "and", "he",
                                    "said", "unto",  "a",  "king", "was", "in"};
  std::string text;
  uint32_t state = 1;
  while (static_cast<int64_t>(text.size()) < bytes) {
    state = state * 1664525u + 1013904223u;
    text += kWords[(state >> 16) % std::size(kWords)];
    text += (state >> 28) == 0 ? ".\n" : " ";
  }
  text.resize(bytes);
  return text;
}

Json SmallConfig() {
  return Json::parse(R"({
    "model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16,
              "n_positions": 16, "vocab_size": 128,
              "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1},
    "data": {"train": "text.txt", "sequence_length": 16},
    "steps": 6, "seed": 7,
    "checkpoint": {"dir": "out", "save_interval": 2, "keep": 2},
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.5,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3},
                  "no_decay": ["*.bias", "*ln_*"]},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 3}},
    "device": {"type": "host", "threads": 1}
  })");
}

CliTest::CliTest() { WriteFile(Path("text.txt"), SmallText(4000)); }

bool CliTest::Exists(const std::string& name) const {
  return std::filesystem::exists(Path(name));
}

std::vector<std::string> CliTest::List(const std::string& name) const {
  std::vector<std::string> names;
  if (!Exists(name)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(Path(name))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void CliTest::WriteConfig(const Json& config) const {
  WriteFile(Path("run.json"), config.dump(2));
}

ProcessResult CliTest::Train(const Json& config,
                             const std::vector<std::string>& args) const {
  return TrainOnRanks(0, config, args);
}

ProcessResult CliTest::TrainOnRanks(int ranks, const Json& config,
                                    const std::vector<std::string>& args,
                                    const std::string& wrapper) const {
  WriteConfig(config);
  std::vector<std::string> all = {"train", "run.json"};
  all.insert(all.end(), args.begin(), args.end());
  return RunCastor(all, directory_.path(), ranks, wrapper);
}

Json CliTest::Summary(int ranks, const Json& config,
                      std::vector<std::string> args) const {
  args.insert(args.end(), {"--summary", "summary.json"});
  const ProcessResult result = TrainOnRanks(ranks, config, args);
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  if (result.exit_code != 0) return Json::object();
  return Json::parse(ReadFile(Path("summary.json")));
}

namespace {

void ExpectLines(const ProcessResult& result, int exit_code, int errors) {
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  std::vector<std::string> lines = absl::StrSplit(result.err, '\n');
  EXPECT_EQ(lines.back(), "") << result.err;
  lines.pop_back();
  EXPECT_EQ(static_cast<int>(lines.size()), errors) << result.err;
  for (const std::string& line : lines) {
    EXPECT_EQ(line.rfind("castor: ", 0), 0u) << result.err;
  }

  if (getenv("SHOW_MESSAGES") != nullptr) std::printf("%s", result.err.c_str());
}

}  // namespace

void ExpectUserError(const ProcessResult& result, int errors) {
  ExpectLines(result, 2, errors);
}

void ExpectFailure(const ProcessResult& result) { ExpectLines(result, 1, 1); }

}  // namespace castor::testing
