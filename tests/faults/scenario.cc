#include "tests/faults/scenario.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/test_files.h"
#include "tests/cli/cli_test_base.h"

namespace castor::faults {
namespace {

constexpr absl::string_view kStepPrefix = "step-";
constexpr absl::string_view kStepSuffix = ".castor";
constexpr absl::string_view kCheckpoints = "out";  // as TinyConfig has it

// The step of ".../step-00000004.castor", else -1.
int64_t StepOf(absl::string_view path) {
  const absl::string_view name = path.substr(
      path.rfind('/') == absl::string_view::npos ? 0 : path.rfind('/') + 1);
  int64_t step = -1;
  if (name.size() == kStepPrefix.size() + 8 + kStepSuffix.size() &&
      absl::StartsWith(name, kStepPrefix) &&
      absl::EndsWith(name, kStepSuffix) &&
      absl::SimpleAtoi(name.substr(kStepPrefix.size(), 8), &step)) {
    return step;
  }
  return -1;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// Checkpoints named in "saved X" and in the last table's "checkpoint X".
void TakePrinted(absl::string_view text, std::set<int64_t>* steps) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 2 || (words[0] != "saved" && words[0] != "checkpoint")) {
      continue;
    }
    const int64_t step = StepOf(words[1]);
    if (step >= 0) steps->insert(step);
  }
}

}  // namespace

Json TinyConfig() {
  return Json::parse(R"({
    "model": {"type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8,
              "n_positions": 8, "vocab_size": 128,
              "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1},
    "data": {"train": "text.txt", "validation": "text.txt",
             "sequence_length": 8},
    "steps": 4, "seed": 7, "eval_interval": 2, "eval_batches": 1,
    "checkpoint": {"dir": "out", "save_interval": 1, "keep": 2},
    "train_batch_size": 4, "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "device": {"type": "host", "threads": 2},
    "network": {"timeout_seconds": 10}
  })");
}

std::map<std::string, std::string> ReadTree(const std::string& directory) {
  std::map<std::string, std::string> files;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory, error)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().lexically_relative(directory).string()] =
        ReadFile(entry.path());
  }
  return files;
}

std::set<int64_t> ReportedSteps(const std::vector<EffectRecord>& effects,
                                size_t num_effects) {
  std::set<int64_t> steps;
  std::map<int64_t, std::string> named;  // the directory of its name
  std::map<int, std::string> output;     // of standard output, by rank
  for (size_t i = 0; i < num_effects; ++i) {
    const EffectRecord& effect = effects[i];
    switch (effect.effect) {
      case Effect::kRename:
      case Effect::kExchange:
        named.erase(StepOf(effect.path));
        // Those of an earlier run move to another directory: none of this one.
        if (const int64_t step = StepOf(effect.other);
            step >= 0 && ParentOf(effect.other) == kCheckpoints) {
          named[step] = ParentOf(effect.other);
        }
        break;
      case Effect::kSync:
        for (auto at = named.begin(); at != named.end();) {
          if (at->second == effect.path) {
            steps.insert(at->first);
            at = named.erase(at);
          } else {
            ++at;
          }
        }
        break;
      case Effect::kOutput:
        if (effect.number == 1) output[effect.role] += effect.data;
        break;
      default:
        break;
    }
  }
  for (const auto& [role, text] : output) TakePrinted(text, &steps);
  return steps;
}

std::string JudgeEnding(const WatchedResult& result) {
  const testing::ProcessResult& process = result.process;
  if (result.hung) return "it hangs";
  if (process.signal != 0) {
    return absl::StrCat("it ended by signal ", process.signal);
  }
  if (process.exit_code < 0 || process.exit_code > 2) {
    return absl::StrCat("it ended with ", process.exit_code);
  }
  std::vector<std::string> lines =
      absl::StrSplit(process.err, '\n', absl::SkipEmpty());
  const auto is_ours = [](const std::string& line) {
    return absl::StartsWith(line, "castor: ") ||
           absl::StartsWith(line, "castor launch: ");
  };
  if (!std::all_of(lines.begin(), lines.end(), is_ours)) {
    return "standard error has a line that is not castor's";
  }
  if (process.exit_code != 0 && lines.empty()) return "it ended without a word";
  return "";
}

std::string JudgeResumed(const std::string& directory,
                         const std::set<int64_t>& reported,
                         const std::string& sha256) {
  const std::string summary = absl::StrCat(directory, "/resumed.json");
  const WatchedResult result = RunAlone(
      {"train", "run.json", "--resume", "latest", "--summary", "resumed.json"},
      directory);
  const auto because = [&](absl::string_view what) {
    return absl::StrCat("resumed afterwards, ", what, " (exit ",
                        result.process.exit_code, "): ", result.process.err,
                        result.process.out.substr(
                            0, result.process.out.find("device memory over")));
  };
  if (result.hung || result.process.signal != 0) return because("it broke");
  if (result.process.exit_code != 0) {
    return reported.empty() && result.process.exit_code == 2 &&
                   absl::StrContains(result.process.err, "no checkpoint")
               ? ""
               : because("it did not find what was saved");
  }
  // "resumed from PATH at step N"
  const std::string at_step = " at step ";
  const size_t line = result.process.out.find("resumed from ");
  const size_t at = result.process.out.find(at_step, line);
  if (line == std::string::npos || at == std::string::npos) {
    return because("it did not say from where");
  }
  const int64_t step =
      std::atoll(result.process.out.c_str() + at + at_step.size());
  if (!reported.empty() && step < *reported.rbegin()) {
    return because(absl::StrCat("it went on from step ", step, " though ",
                                *reported.rbegin(), " was saved"));
  }
  const std::string got = Json::parse(ReadFile(summary))["parameters_sha256"];
  return got == sha256 ? "" : because("its parameters have other bits");
}

}  // namespace castor::faults
