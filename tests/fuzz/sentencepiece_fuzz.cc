// Any bytes as a SentencePiece model: refused, or texts become ids of its
// vocabulary, the same each time, and these become text. The library behind it
// must neither read outside what it was given nor end the process.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "text/tokenizer/sentence_piece.h"
#include "text/tokenizer/sentence_piece_file.h"
#include "text/tokenizer/unicode/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace castor::text;  // NOLINT
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const auto file = ReadSentencePieceFile(input);
  if (!file.ok()) {
    CASTOR_CHECK(absl::IsInvalidArgument(file.status()));
    return 0;
  }
  const auto parts = MakeSentencePiece(*file, /*legacy=*/false, {"<s>"});
  if (!parts.ok()) {
    CASTOR_CHECK(absl::IsInvalidArgument(parts.status()));
    return 0;
  }
  const Model& model = *parts->model;
  for (const absl::string_view text :
       {"In the beginning 12\n", "  \u2581Paris \ufb01nd \u00bd\u2026 \u0958",
        "\uff21\u3000\U0001f600\u2167 e\u0301", " "}) {
    std::vector<int32_t> ids, again;
    Allowance allowance(text.size());
    if (!model.TokenizeFirst(text, &allowance, &ids).ok()) continue;
    CASTOR_CHECK(model.TokenizeFirst(text, &allowance, &again).ok() &&
                 ids == again);
    (void)model.Tokenize(text, &allowance, &ids);
    DecodedText decoded = {{}, &allowance};
    for (const int32_t id : ids) {
      const auto token = model.vocabulary().TokenOf(id);
      CASTOR_CHECK(token.has_value());
      decoded.tokens.emplace_back(*token);
    }
    if (!parts->decoder->Apply(&decoded).ok()) continue;
    for (const std::string& token : decoded.tokens) {
      CASTOR_CHECK(IsValidUtf8(token));
    }
  }
  return 0;
}
