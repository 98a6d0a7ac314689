// Normalizers that look at one character at a time.
#ifndef CASTOR_TEXT_TOKENIZER_CHARACTER_NORMALIZERS_H_
#define CASTOR_TEXT_TOKENIZER_CHARACTER_NORMALIZERS_H_

#include <memory>
#include <optional>

#include "text/tokenizer/normalizer.h"

namespace castor::text {

struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents;  // none: as lowercase
  bool lowercase = true;
};

// BERT's (Devlin et al., 2018, https://github.com/google-research/bert,
// tokenization.py, BasicTokenizer): removes control characters, makes each
// space " ", puts spaces around Chinese characters, removes accents, writes
// lower case.
std::unique_ptr<const Normalizer> MakeBertNormalizer(
    const BertOptions& options);

std::unique_ptr<const Normalizer> MakeLowercase();
std::unique_ptr<const Normalizer> MakeStripAccents();
// Removes the spaces at the text's ends.
std::unique_ptr<const Normalizer> MakeStrip(bool left, bool right);
// SentencePiece's rules for machine translation: removes control characters,
// and makes other spaces " ".
std::unique_ptr<const Normalizer> MakeNmt();
// Makes each byte a character (byte_level.h).
std::unique_ptr<const Normalizer> MakeByteLevelNormalizer();

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_CHARACTER_NORMALIZERS_H_
