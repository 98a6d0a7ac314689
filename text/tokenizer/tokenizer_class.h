// The classes of tokenizers that transformers has for vocabularies without a
// tokenizer.json: settings that none of their files has follow from the class.
//
//   class            vocabulary           put around a text
//   GPT2Tokenizer    vocab.json,          nothing, or bos_token and eos_token
//   Qwen2Tokenizer     merges.txt           by "add_bos_token", "add_eos_token"
//   RobertaTokenizer vocab.json, ...      cls_token before, sep_token after it
//   BertTokenizer    vocab.txt            the same
//   LlamaTokenizer   tokenizer.model      bos_token before it ("add_bos_token",
//   GemmaTokenizer                          "add_eos_token" change that)
//   T5Tokenizer      spiece.model         eos_token after it; 100 ("extra_ids")
//   MT5Tokenizer                            tokens <extra_id_0> at the
//                                           vocabulary's end, the first one
//                                           last
#ifndef CASTOR_TEXT_TOKENIZER_TOKENIZER_CLASS_H_
#define CASTOR_TEXT_TOKENIZER_TOKENIZER_CLASS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/tokenizer/tokenizer_files.h"

namespace castor::text {

// transformers gives ids to tokens that have none in the order of these keys.
inline constexpr const char* kNamedTokens[] = {
    "bos_token", "eos_token", "unk_token", "sep_token",
    "pad_token", "cls_token", "mask_token"};

enum class Around : uint8_t { kBosEos, kClsSep };

struct TokenizerClass {
  std::string name;
  // Other names of the same class.
  std::vector<std::string> aliases;
  // Values of config.json's "model_type" from which this class follows.
  std::vector<std::string> model_types;
  VocabularyKind kind = VocabularyKind::kBytePairs;
  Around around = Around::kBosEos;
  // kBosEos: which of the two tokens are put there, and whether the files may
  // change that.
  bool adds_bos = false, adds_eos = false, may_change = true;
  int64_t extra_ids = 0;
  // True if it rewrites text before it cuts it. If not, added tokens are looked
  // for in a text as it was given, whatever they say themselves.
  bool normalizes = true;
  // Special tokens by their keys, unless the files name others.
  std::map<std::string, std::string> specials;
};

// Returns the class of this name, with or without "Fast"; null: none.
const TokenizerClass* FindTokenizerClass(absl::string_view name);

// Returns the class whose special tokens a tokenizer.json, the file `text`,
// has; null if it is of a class that has none of its own.
absl::StatusOr<const TokenizerClass*> ClassOfTokenizerJson(
    const SideFiles& side, absl::string_view text);

// Returns the class that reads `files`, which are not a tokenizer.json;
// files.kinds then has its kind alone. Without any name in the directory the
// first of the files decides. InvalidArgument: the class is not among those
// above, or its files are not there.
absl::StatusOr<const TokenizerClass*> ClassOfVocabulary(const SideFiles& side,
                                                        VocabularyFiles* files);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_TOKENIZER_CLASS_H_
