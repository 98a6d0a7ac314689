#include "runtime/weights/foreign_model.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/directory_entry.h"
#include "base/foreign_content.h"
#include "base/name_pattern.h"
#include "base/small_file.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"
#include "runtime/weights/weight_names.h"

namespace castor {
namespace {

constexpr char kAdapterConfig[] = "adapter_config.json";
constexpr int64_t kMaxAdapterBytes = 1 << 20;

using Names = std::vector<std::string>;

// The first of `names` that matches the pattern, or "". One with a quote, which
// would end the line of Python that it stands in, is passed over.
std::string Find(const Names& names, absl::string_view pattern) {
  for (const std::string& name : names) {
    if (MatchesPattern(pattern, name) && !absl::StrContains(name, '\'')) {
      return name;
    }
  }
  return "";
}

Names NamesIn(const std::string& directory) {
  const auto names = ListDirectory(directory);
  return names.ok() ? *names : Names();
}

// Returns true if a line of Python may have the directory between single
// quotes.
bool FitsQuotes(absl::string_view directory) {
  return !absl::StrContains(directory, '\'') &&
         !absl::StrContains(directory, '\\') &&
         !absl::StrContains(directory, '"');
}

// An adapter's own file says which model it is for.
std::string BaseOfAdapter(const std::string& directory) {
  const auto text = ReadSmallFile(absl::StrCat(directory, "/", kAdapterConfig),
                                  kMaxAdapterBytes);
  if (!text.ok()) return "";
  const auto json = ParseStrictJson(*text);
  if (!json.ok() || !json->is_object()) return "";
  const auto base = json->find("base_model_name_or_path");
  if (base == json->end() || !base->is_string()) return "";
  return base->get<std::string>();
}

std::string DescribeAdapter(const std::string& directory,
                            const std::string& found) {
  const std::string base = BaseOfAdapter(directory);
  const std::string named = FitsQuotes(directory) ? directory : "DIR";
  return absl::StrCat(
      directory, " is an adapter of PEFT's (", found, "), not a whole model",
      base.empty() ? ""
                   : absl::StrCat("; its base is ", QuotedForMessage(base)),
      ": merge the two once, and name the directory that comes of it: python3 "
      "-c \"from peft import AutoPeftModelForCausalLM as M; "
      "M.from_pretrained('",
      named, "').merge_and_unload().save_pretrained('", named,
      "-merged')\", with the base's tokenizer files beside it");
}

// A checkpoint of DeepSpeed's under ZeRO, of which `found` is an entry.
std::string DescribeZero(const std::string& directory,
                         const std::string& found) {
  std::string whole = directory;
  std::string tag;
  // The parts of one step lie in a folder of its name.
  if (Find({found}, "*_states.pt") == found) {
    std::string inner = directory;
    while (inner.size() > 1 && inner.back() == '/') inner.pop_back();
    whole = ParentDirectory(inner);
    tag = absl::StrCat(" --tag ",
                       std::filesystem::path(inner).filename().string());
  }
  return absl::StrCat(
      directory, " is a checkpoint of DeepSpeed's (", found,
      "), not a Hugging Face model: let DeepSpeed put its parts together once: "
      "python3 -m deepspeed.utils.zero_to_fp32 ",
      whole, " OUT", tag,
      " --safe_serialization, copy config.json and the tokenizer's files into "
      "OUT, and name OUT");
}

// Directories of other programs, told by the name of one entry.
struct Kind {
  absl::string_view pattern;
  absl::string_view what;  // follows the directory's name
};
constexpr Kind kKinds[] = {
    {"pytorch_model_fsdp_*",
     "is a distributed checkpoint of PyTorch's: accelerate merge-weights makes "
     "model.safetensors of it"},
    {"*.distcp",
     "is a distributed checkpoint of PyTorch's: accelerate merge-weights makes "
     "model.safetensors of it"},
    {"latest_checkpointed_iteration.txt",
     "is a checkpoint of Megatron's: convert it to a Hugging Face model first"},
    {"step-*.castor",
     "has Castor's own checkpoints: castor export makes a model's directory of "
     "one; to go on with the run, say --resume"},
    {"snapshots",
     "is a folder of huggingface_hub's cache: name the directory in its "
     "snapshots/ that has a config.json"},
    {"*.gguf",
     "has its model in llama.cpp's GGUF: tools/gguf_to_hf.py makes a directory "
     "of it"},
};

// Weights that are there, but for other programs than Castor.
constexpr Kind kWeights[] = {
    {"tf_model*.h5",
     "has its weights for TensorFlow: load them with transformers 4 "
     "(from_tf=True), and save_pretrained them"},
    {"flax_model*.msgpack",
     "has its weights for Flax: load them with transformers 4 "
     "(from_flax=True), and save_pretrained them"},
};

std::string DescribeByKind(const std::string& directory, const Names& names,
                           absl::Span<const Kind> kinds) {
  for (const Kind& kind : kinds) {
    const std::string found = Find(names, kind.pattern);
    if (found.empty()) continue;
    return absl::StrCat(directory, " ", kind.what, " (it has ",
                        QuotedForMessage(found), ")");
  }
  return "";
}

// Says how PyTorch's pickles, of which `name` is one, become safetensors: those
// of a model that was saved in parts together. `weights`: an expression of
// Python's for the weights in what a file `f` has.
std::string DescribePickle(
    const std::string& directory, const std::string& name,
    absl::string_view weights =
        "torch.load(f, map_location='cpu', weights_only=True)") {
  return absl::StrCat(
      directory, " has its weights in ", QuotedForMessage(name),
      ", a pickle of PyTorch's, which may run any code when it is loaded, and "
      "not in safetensors: if you trust who made it, convert it once: python3 "
      "-c \"import glob, torch, safetensors.torch as s; s.save_file({k: "
      "v.clone(memory_format=torch.contiguous_format) for f in glob.glob('",
      directory, "/",
      absl::StartsWith(name, "pytorch_model") ? "pytorch_model*.bin" : name,
      "') for k, v in ", weights, ".items()}, '", directory, "/", kWeightsName,
      "', {'format': 'pt'})\"");
}

}  // namespace

std::string ForeignModel(const std::string& directory) {
  const Names names = NamesIn(directory);
  for (const absl::string_view pattern :
       {absl::string_view(kAdapterConfig),
        absl::string_view("adapter_model.*")}) {
    const std::string found = Find(names, pattern);
    if (!found.empty()) return DescribeAdapter(directory, found);
  }
  for (const absl::string_view pattern :
       {"*zero_pp_rank_*_states.pt", "global_step*", "zero_to_fp32.py"}) {
    const std::string found = Find(names, pattern);
    if (!found.empty()) return DescribeZero(directory, found);
  }
  if (const std::string found = Find(names, "mp_rank_*_states.pt");
      !found.empty()) {
    return absl::StrCat("as a checkpoint of DeepSpeed's without ZeRO, ",
                        DescribePickle(directory, found,
                                       "torch.load(f, map_location='cpu', "
                                       "weights_only=False)['module']"));
  }
  return DescribeByKind(directory, names, kKinds);
}

std::string ForeignFile(absl::string_view beginning) {
  // Whole answers of servers, as a download that asked for nothing else keeps
  // them.
  static constexpr absl::string_view kAnswers[] = {
      "Entry not found", "Repository not found", "Invalid username or password",
      "<?xml", "{\"error\":"};
  for (const absl::string_view what :
       {ForeignContent(beginning), WebPage(beginning)}) {
    if (!what.empty()) return std::string(what);
  }
  for (const absl::string_view answer : kAnswers) {
    if (absl::StartsWith(beginning, answer)) {
      return "is a server's answer, saved in the place of the file: download "
             "the file again";
    }
  }
  if (absl::StartsWith(beginning, "GGUF")) {
    return "is llama.cpp's GGUF: tools/gguf_to_hf.py makes a directory of it";
  }
  return "";
}

absl::Status NoWeights(const std::string& directory) {
  const Names names = NamesIn(directory);
  // Where there are several kinds, these are the easiest to convert.
  if (const std::string found = Find(names, "pytorch_model*.bin");
      !found.empty()) {
    return absl::InvalidArgumentError(DescribePickle(directory, found));
  }
  if (std::string foreign = ForeignModel(directory); !foreign.empty()) {
    return absl::InvalidArgumentError(foreign);
  }
  for (const absl::string_view pattern : {"*.pt", "*.pth", "*.ckpt"}) {
    const std::string found = Find(names, pattern);
    if (found.empty()) continue;
    return absl::InvalidArgumentError(DescribePickle(directory, found));
  }
  if (std::string other = DescribeByKind(directory, names, kWeights);
      !other.empty()) {
    return absl::InvalidArgumentError(other);
  }
  if (const std::string found = Find(names, "*.safetensors"); !found.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no weights in ", directory, ": it has ", QuotedForMessage(found),
        ", but neither ", kWeightsName, " nor ", kWeightsIndexName,
        ", which says what is in which file: download that, too"));
  }
  return absl::NotFoundError(absl::StrCat("no weights in ", directory,
                                          ": neither ", kWeightsName, " nor ",
                                          kWeightsIndexName, " is there"));
}

bool HasAdapterBesideWeights(const std::string& directory) {
  const auto has = [&](const char* name) {
    return FindFile(directory, name).value_or(false);
  };
  return has(kAdapterConfig) && (has(kWeightsName) || has(kWeightsIndexName));
}

}  // namespace castor
