#include "text/tokenizer/tokenizer_class.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor::text {
namespace {

const std::vector<TokenizerClass>& Classes() {
  constexpr char kEndOfText[] = "<|endoftext|>";
  static const auto* const classes = new std::vector<TokenizerClass>{
      {.name = "GPT2Tokenizer",
       .aliases = {},
       .model_types = {"gpt2", "opt", "gpt_neo", "gptj", "phi", "starcoder2"},
       .normalizes = false,
       .specials = {{"bos_token", kEndOfText},
                    {"eos_token", kEndOfText},
                    {"unk_token", kEndOfText}}},
      {.name = "Qwen2Tokenizer",
       .aliases = {},
       .model_types = {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"},
       .specials = {{"eos_token", kEndOfText},
                    {"unk_token", kEndOfText},
                    {"pad_token", kEndOfText}}},
      {.name = "RobertaTokenizer",
       .aliases = {"BartTokenizer", "LEDTokenizer", "LongformerTokenizer"},
       .model_types = {"roberta", "bart", "led", "longformer"},
       .around = Around::kClsSep,
       .normalizes = false,
       .specials = {{"bos_token", "<s>"},
                    {"eos_token", "</s>"},
                    {"sep_token", "</s>"},
                    {"cls_token", "<s>"},
                    {"unk_token", "<unk>"},
                    {"pad_token", "<pad>"},
                    {"mask_token", "<mask>"}}},
      {.name = "BertTokenizer",
       .aliases = {"DistilBertTokenizer", "ElectraTokenizer",
                   "MobileBertTokenizer"},
       .model_types = {"bert", "distilbert", "electra", "mobilebert"},
       .kind = VocabularyKind::kWordPieces,
       .around = Around::kClsSep,
       .specials = {{"unk_token", "[UNK]"},
                    {"sep_token", "[SEP]"},
                    {"pad_token", "[PAD]"},
                    {"cls_token", "[CLS]"},
                    {"mask_token", "[MASK]"}}},
      {.name = "LlamaTokenizer",
       .aliases = {},
       .model_types = {},
       .kind = VocabularyKind::kSentencePiece,
       .adds_bos = true,
       .normalizes = false,
       .specials = {{"bos_token", "<s>"},
                    {"eos_token", "</s>"},
                    {"unk_token", "<unk>"}}},
      {.name = "GemmaTokenizer",
       .aliases = {},
       .model_types = {},
       .kind = VocabularyKind::kSentencePiece,
       .adds_bos = true,
       .specials = {{"bos_token", "<bos>"},
                    {"eos_token", "<eos>"},
                    {"unk_token", "<unk>"},
                    {"pad_token", "<pad>"}}},
      {.name = "T5Tokenizer",
       .aliases = {"MT5Tokenizer"},
       .model_types = {},
       .kind = VocabularyKind::kSentencePiece,
       .adds_eos = true,
       .may_change = false,
       .extra_ids = 100,
       .specials = {{"eos_token", "</s>"},
                    {"unk_token", "<unk>"},
                    {"pad_token", "<pad>"}}},
  };
  return *classes;
}

bool Contains(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The class that a file names, "" if none does or it means any; with the file.
struct NamedClass {
  std::string name;
  std::optional<JsonPart> part;
};
absl::StatusOr<NamedClass> NameIn(const SideFiles& side) {
  for (const JsonPart& part : {side.Config(), side.ModelConfig()}) {
    CASTOR_ASSIGN_OR_RETURN(const std::string name,
                            part.String("tokenizer_class", ""));
    const absl::string_view plain = absl::StripSuffix(name, "Fast");
    if (plain.empty() || plain == "PreTrainedTokenizer" ||
        plain == "TokenizersBackend") {
      continue;
    }
    return NamedClass{std::string(plain), part};
  }
  return NamedClass();
}

const char* FilesOf(VocabularyKind kind) {
  switch (kind) {
    case VocabularyKind::kTokenizerJson:
      return "tokenizer.json";
    case VocabularyKind::kSentencePiece:
      return "tokenizer.model or spiece.model";
    case VocabularyKind::kBytePairs:
      return "vocab.json and merges.txt";
    case VocabularyKind::kWordPieces:
      return "vocab.txt";
  }
  return "";
}

constexpr absl::string_view kByteLevel = "\"ByteLevel\"";

constexpr char kSaveOne[] =
    "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers "
    "writes a tokenizer.json, which is read for any class";

}  // namespace

const TokenizerClass* FindTokenizerClass(absl::string_view name) {
  name = absl::StripSuffix(name, "Fast");
  for (const TokenizerClass& each : Classes()) {
    if (each.name == name || Contains(each.aliases, name)) return &each;
  }
  return nullptr;
}

absl::StatusOr<const TokenizerClass*> ClassOfTokenizerJson(
    const SideFiles& side, absl::string_view text) {
  CASTOR_ASSIGN_OR_RETURN(const NamedClass named, NameIn(side));
  CASTOR_ASSIGN_OR_RETURN(const std::string type,
                          side.ModelConfig().String("model_type", ""));
  // Many tokenizers are called Llama's and are not: transformers knows them so.
  if (named.name == "LlamaTokenizer" &&
      (absl::StrContains(text, kByteLevel) || type == "mistral" ||
       type == "mixtral")) {
    return nullptr;
  }
  if (!named.name.empty()) return FindTokenizerClass(named.name);
  if (side.config.contains("tokenizer_class")) return nullptr;  // any
  for (const TokenizerClass& each : Classes()) {
    if (Contains(each.model_types, type)) return &each;
  }
  return nullptr;
}

absl::StatusOr<const TokenizerClass*> ClassOfVocabulary(
    const SideFiles& side, VocabularyFiles* files) {
  const auto has = [&](VocabularyKind kind) {
    return std::find(files->kinds.begin(), files->kinds.end(), kind) !=
           files->kinds.end();
  };
  const auto choose = [&](const TokenizerClass* chosen) {
    files->kinds = {chosen->kind};
    return chosen;
  };
  CASTOR_ASSIGN_OR_RETURN(const NamedClass named, NameIn(side));
  if (!named.name.empty()) {
    const TokenizerClass* const found = FindTokenizerClass(named.name);
    if (found == nullptr) {
      return named.part->Error(
          "tokenizer_class",
          absl::StrCat(QuotedForMessage(named.name),
                       " is not supported without a tokenizer.json; there are ",
                       absl::StrJoin(Classes(), ", ",
                                     [](std::string* out, const auto& each) {
                                       absl::StrAppend(out, each.name);
                                     }),
                       ". ", kSaveOne));
    }
    if (!has(found->kind)) {
      return named.part->Error(
          "tokenizer_class",
          absl::StrCat("a ", named.name, " is read from ", FilesOf(found->kind),
                       ", and the directory has ", FilesOf(files->kinds[0]),
                       ". ", kSaveOne));
    }
    return choose(found);
  }
  const VocabularyKind kind = files->kinds[0];
  if (kind == VocabularyKind::kSentencePiece) {
    return choose(FindTokenizerClass(files->sentence_piece == kT5ModelName
                                         ? "T5Tokenizer"
                                         : "LlamaTokenizer"));
  }
  const JsonPart model = side.ModelConfig();
  CASTOR_ASSIGN_OR_RETURN(const std::string type,
                          model.String("model_type", ""));
  if (type.empty()) {
    return choose(FindTokenizerClass(kind == VocabularyKind::kBytePairs
                                         ? "GPT2Tokenizer"
                                         : "BertTokenizer"));
  }
  for (const TokenizerClass& each : Classes()) {
    if (Contains(each.model_types, type) && has(each.kind)) {
      return choose(&each);
    }
  }
  return model.Error(
      "model_type",
      absl::StrCat("the class of a tokenizer with ", FilesOf(kind),
                   " does not follow from ", QuotedForMessage(type),
                   ": name it, \"tokenizer_class\" in tokenizer_config.json. ",
                   kSaveOne));
}

}  // namespace castor::text
