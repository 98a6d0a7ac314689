#include "text/tokenizer/decoder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/sequence.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

using DecoderOr = absl::StatusOr<std::unique_ptr<const Decoder>>;
using Tokens = std::vector<std::string>;

// A token with a character that stands for no byte counts as it is written.
class ByteLevel : public Decoder {
 public:
  absl::Status Apply(DecodedText* text) const override {
    Tokens* const tokens = &text->tokens;
    std::string bytes, valid;
    for (const std::string& token : *tokens) {
      if (!AppendBytesOf(token, &bytes)) bytes += token;
    }
    AppendValidUtf8(bytes, &valid);
    *tokens = {std::move(valid)};
    return absl::OkStatus();
  }
};

// "<0x61>": the byte; -1: it is no such token.
int ByteOf(absl::string_view token) {
  if (token.size() != 6 || !absl::StartsWith(token, "<0x") || token[5] != '>') {
    return -1;
  }
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    const absl::string_view digits = "0123456789abcdef";
    const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c;
    const size_t digit = digits.find(lower);
    // A number may have a plus before it in Rust.
    if (digit == absl::string_view::npos) {
      if (c == '+' && &c == token.data() + 3) continue;
      return -1;
    }
    byte = byte * 16 + static_cast<int>(digit);
  }
  return byte;
}

// Each run of byte tokens is text if it is UTF-8, and otherwise one U+FFFD for
// each.
class ByteFallback : public Decoder {
 public:
  absl::Status Apply(DecodedText* text) const override {
    Tokens* const tokens = &text->tokens;
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
      if (IsValidUtf8(bytes)) {
        if (!bytes.empty()) result.push_back(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) result.push_back("\ufffd");
      }
      bytes.clear();
    };
    for (std::string& token : *tokens) {
      const int byte = ByteOf(token);
      if (byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
        continue;
      }
      flush();
      result.push_back(std::move(token));
    }
    flush();
    *tokens = std::move(result);
    return absl::OkStatus();
  }
};

class Fuse : public Decoder {
 public:
  absl::Status Apply(DecodedText* text) const override {
    Tokens* const tokens = &text->tokens;
    *tokens = {absl::StrJoin(*tokens, "")};
    return absl::OkStatus();
  }
};

class Metaspace : public Decoder {
 public:
  Metaspace(std::string space, bool prepends)
      : space_(std::move(space)), prepends_(prepends) {}
  absl::Status Apply(DecodedText* text) const override {
    Tokens* const tokens = &text->tokens;
    for (std::string& token : *tokens) {
      const bool drops = prepends_ && &token == tokens->data();
      token = absl::StrReplaceAll(token, {{space_, drops ? "" : " "}});
    }
    return absl::OkStatus();
  }

 private:
  const std::string space_;
  const bool prepends_;
};

class Replace : public Decoder {
 public:
  Replace(std::unique_ptr<const Regex> regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}
  absl::Status Apply(DecodedText* text) const override {
    Tokens* const tokens = &text->tokens;
    size_t sum = 0;
    for (std::string& token : *tokens) {
      // `tokenizers` asks for no matches in an empty string.
      if (token.empty()) continue;
      std::string result;
      size_t copied = 0;
      const auto found = [&](size_t begin, size_t end) {
        if (sum + result.size() > text->allowance->most_bytes()) return;
        absl::StrAppend(&result,
                        absl::string_view(token).substr(copied, begin - copied),
                        content_);
        copied = end;
      };
      CASTOR_RETURN_IF_ERROR(
          regex_->ForEachMatch(token, text->allowance, found));
      result.append(token, copied, std::string::npos);
      sum += result.size();
      CASTOR_RETURN_IF_ERROR(text->allowance->CheckSize(sum));
      token = std::move(result);
    }
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<const Regex> regex_;
  const std::string content_;
};

// Takes up to `start` and `stop` times one character off a token's ends.
class Strip : public Decoder {
 public:
  Strip(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  absl::Status Apply(DecodedText* text) const override {
    Tokens* const tokens = &text->tokens;
    for (std::string& token : *tokens) {
      absl::string_view rest = token;
      for (int64_t i = 0; i < start_; ++i) {
        if (!absl::ConsumePrefix(&rest, content_)) break;
      }
      for (int64_t i = 0; i < stop_; ++i) {
        if (!absl::ConsumeSuffix(&rest, content_)) break;
      }
      token = std::string(rest);
    }
    return absl::OkStatus();
  }

 private:
  const std::string content_;
  const int64_t start_, stop_;
};

// English as it is written: one replacement after the other, each in all of the
// text.
std::string Cleanup(std::string text) {
  constexpr absl::string_view kReplacements[][2] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kReplacements) {
    text = absl::StrReplaceAll(text, {{from, to}});
  }
  return text;
}

class WordPiece : public Decoder {
 public:
  WordPiece(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  absl::Status Apply(DecodedText* text) const override {
    Tokens* const tokens = &text->tokens;
    for (std::string& token : *tokens) {
      if (&token != tokens->data()) {
        token = absl::StartsWith(token, prefix_) ? token.substr(prefix_.size())
                                                 : absl::StrCat(" ", token);
      }
      if (cleanup_) token = Cleanup(std::move(token));
    }
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
  const bool cleanup_;
};

class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  absl::Status Apply(DecodedText* text) const override {
    Tokens* const tokens = &text->tokens;
    for (std::string& token : *tokens) {
      const bool is_last = &token == &tokens->back();
      token = absl::StrReplaceAll(token, {{suffix_, is_last ? "" : " "}});
    }
    return absl::OkStatus();
  }

 private:
  const std::string suffix_;
};

DecoderOr ReadMetaspace(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const char32_t replacement,
                          part.Character("replacement"));
  CASTOR_ASSIGN_OR_RETURN(const std::string scheme,
                          part.String("prepend_scheme", "always"));
  CASTOR_ASSIGN_OR_RETURN(const bool add_prefix_space,
                          part.Bool("add_prefix_space", true));
  std::string space;
  AppendCodePoint(replacement, &space);
  return std::make_unique<const Metaspace>(
      std::move(space), scheme != "never" && add_prefix_space);
}

DecoderOr ReadReplace(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<const Regex> regex,
                          ReadPattern(part));
  CASTOR_ASSIGN_OR_RETURN(std::string content, part.RequiredString("content"));
  return std::make_unique<const Replace>(std::move(regex), std::move(content));
}

DecoderOr ReadStrip(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const char32_t character, part.Character("content"));
  CASTOR_ASSIGN_OR_RETURN(const int64_t start,
                          part.Int("start", 0, {.min = 0}));
  CASTOR_ASSIGN_OR_RETURN(const int64_t stop, part.Int("stop", 0, {.min = 0}));
  std::string content;
  AppendCodePoint(character, &content);
  return std::make_unique<const Strip>(std::move(content), start, stop);
}

DecoderOr ReadWordPiece(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(std::string prefix, part.String("prefix", "##"));
  CASTOR_ASSIGN_OR_RETURN(const bool cleanup, part.Bool("cleanup", true));
  return std::make_unique<const WordPiece>(std::move(prefix), cleanup);
}

// Reads a decoder that is no sequence.
DecoderOr ReadOne(const JsonPart& part, const std::string& type) {
  if (type == "ByteLevel") return std::make_unique<const ByteLevel>();
  if (type == "ByteFallback") return std::make_unique<const ByteFallback>();
  if (type == "Fuse") return std::make_unique<const Fuse>();
  if (type == "Metaspace") return ReadMetaspace(part);
  if (type == "Replace") return ReadReplace(part);
  if (type == "Strip") return ReadStrip(part);
  if (type == "WordPiece") return ReadWordPiece(part);
  if (type == "BPEDecoder") {
    CASTOR_ASSIGN_OR_RETURN(std::string suffix, part.String("suffix", "</w>"));
    if (suffix.empty()) return part.Error("suffix", "is empty");
    return std::make_unique<const BpeDecoder>(std::move(suffix));
  }
  return part.Unsupported(type,
                          "BPEDecoder, ByteFallback, ByteLevel, Fuse, "
                          "Metaspace, Replace, Sequence, Strip, WordPiece");
}

}  // namespace

DecoderOr ReadDecoder(const JsonPart& part) {
  return ReadPart<Decoder, DecodedText>(part, "decoders", ReadDecoder, ReadOne);
}

}  // namespace castor::text
