#include "text/data/text_encoding.h"

#include <xxhash.h>

#include "base/status_macros.h"

namespace castor {

TextEncoding ByteEncoding() {
  return {.name = "data.tokenizer \"bytes\"",
          .is_bytes = true,
          .encode =
              [](absl::string_view text, std::vector<int32_t>* ids) {
                for (const char c : text) {
                  ids->push_back(static_cast<unsigned char>(c));
                }
                return absl::OkStatus();
              },
          .before = {},
          .after = {},
          .begin_token = "",
          .end_text = "",
          .named_tokens = {},
          .end_looked_for = "bytes have none",
          .decode =
              [](absl::Span<const int32_t> ids) {
                return std::string(ids.begin(), ids.end());
              },
          .texts_of =
              [](int32_t id) {
                return std::vector<std::string>{
                    std::string(1, static_cast<char>(id))};
              },
          .vocabulary = 256};
}

absl::Status FindKeepsSpace(TextEncoding* encoding) {
  std::vector<int32_t> whole, kept, left_out;
  CASTOR_RETURN_IF_ERROR(encoding->encode("the cat sat", &whole));
  CASTOR_RETURN_IF_ERROR(encoding->encode("the cat", &kept));
  left_out = kept;
  CASTOR_RETURN_IF_ERROR(encoding->encode(" sat", &kept));
  CASTOR_RETURN_IF_ERROR(encoding->encode("sat", &left_out));
  encoding->keeps_space = kept == whole || left_out != whole;
  return absl::OkStatus();
}

uint64_t KeyOf(const TextEncoding& encoding) {
  std::vector<uint64_t> parts = {
      encoding.checksum, static_cast<uint64_t>(encoding.end_of_document),
      encoding.keeps_space, encoding.before.size()};
  for (const auto* list : {&encoding.before, &encoding.after}) {
    parts.insert(parts.end(), list->begin(), list->end());
  }
  return XXH3_64bits(parts.data(), parts.size() * sizeof(parts[0]));
}

}  // namespace castor
