// How a file holds its tokens: of which type they are, and where they begin.
//
//   *.txt          each byte is a token, 0 to 255
//   *.bin, *.npy   integers, little-endian, one after another, behind the
//                  header of another program or none:
//     NumPy        \x93NUMPY: one list of uint8, uint16, uint32, int32, uint64
//                  or int64, as its header says
//     llm.c        magic 20240520, version 1: uint16; magic 20240801, version
//                  7: uint32; the number of tokens; 1,024 bytes in all
//     Megatron     a .bin with an .idx beside it that begins with MMIDIDX,
//                  which has the type
//     none         data.token_type; without it uint16, or uint32 for a
//                  vocabulary that uint16 cannot number
#ifndef CASTOR_RUNTIME_DATA_TOKEN_LAYOUT_H_
#define CASTOR_RUNTIME_DATA_TOKEN_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/config/config.h"

namespace castor {

enum class TokenNumber : uint8_t {
  kUint8,
  kUint16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
};

absl::string_view NameOf(TokenNumber number);
int64_t BytesOf(TokenNumber number);

struct TokenLayout {
  TokenNumber number = TokenNumber::kUint8;
  int64_t begin_bytes = 0;
  int64_t tokens = 0;
  bool has_header = false;  // whether the file itself says of which type it is
};

struct TokenFileOptions {
  std::optional<TokenType> token_type;  // as the configuration has it
  int64_t vocabulary = 0;               // the model's
  // Takes lines for the user; may be null.
  std::function<void(absl::string_view line)> say = {};
};

// Returns the layout of the file at `path`, which is open as `fd` and has
// `size_bytes`. InvalidArgument, with the file: another ending of the name, no
// token, a type that contradicts data.token_type or the vocabulary, content of
// another kind.
absl::StatusOr<TokenLayout> FindTokenLayout(const std::string& path, int fd,
                                            int64_t size_bytes,
                                            const TokenFileOptions& options);

// Says, as the end of a message, how a file of `layout` was probably meant in
// which a token outside the vocabulary was met.
std::string ProbableReading(int fd, const TokenLayout& layout,
                            int64_t vocabulary);

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_TOKEN_LAYOUT_H_
