// Writes a token cache (token_cache_format.h).
#ifndef CASTOR_TEXT_DATA_TOKEN_CACHE_WRITER_H_
#define CASTOR_TEXT_DATA_TOKEN_CACHE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/atomic_file.h"
#include "text/data/source_reader.h"
#include "text/data/token_cache_format.h"

namespace castor {

// Not thread-safe. Until Commit has succeeded, `path` is what it was before.
// Errors are AtomicFile's.
class TokenCacheWriter {
 public:
  // `vocabulary` bounds the tokens of a run: their width follows from it.
  static absl::StatusOr<std::unique_ptr<TokenCacheWriter>> Create(
      const std::string& path, TokenCacheKind kind, uint64_t key,
      int64_t vocabulary);
  ~TokenCacheWriter();

  // These two are for a cache that is one run of tokens.
  absl::Status AddTokens(absl::Span<const int32_t> tokens);
  void AddDocuments(int64_t count) { footer_.lines += count; }
  // Adds a line with its labels, as many as tokens; or, where there are none,
  // with its tokens as labels.
  absl::Status AddLine(absl::Span<const int32_t> tokens,
                       absl::Span<const int32_t> labels);
  // Notes a token that was met at the source's `line`.
  void NoteToken(int32_t token, int64_t line, bool is_label);

  int64_t tokens() const { return footer_.tokens; }
  int64_t lines() const { return footer_.lines; }

  // The failure to write, or OK.
  const absl::Status& status() const { return file_->status(); }

  absl::Status Commit(const SourceStamp& source, uint64_t source_checksum);

 private:
  struct Hash;
  TokenCacheWriter(std::unique_ptr<AtomicFile> file, TokenCacheKind kind,
                   uint64_t key, int64_t token_bytes);
  absl::Status Append(const void* data, int64_t size_bytes);
  absl::Status Flush();
  absl::Status EndGroup();

  const std::unique_ptr<AtomicFile> file_;
  TokenCacheFooter footer_;
  const std::unique_ptr<Hash> content_;
  std::string buffer_;          // of the body, not yet written
  std::vector<uint64_t> sums_;  // of the written blocks
  std::vector<int64_t> marks_;  // of the group's lines
  std::vector<int64_t> groups_;
};

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TOKEN_CACHE_WRITER_H_
