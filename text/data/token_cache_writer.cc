#include "text/data/token_cache_writer.h"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace castor {
namespace {

constexpr int64_t kBufferBytes = 16 * kBlockBytes;
// A cache that others can write to is not used (token_cache.h), whatever the
// umask allows.
constexpr unsigned kCacheMode = 0644;

template <typename T>
int64_t BytesOf(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

}  // namespace

struct TokenCacheWriter::Hash {
  XXH3_state_t* const state = XXH3_createState();
  ~Hash() { XXH3_freeState(state); }
  void Update(absl::Span<const int32_t> values) {
    XXH3_64bits_update(state, values.data(), values.size() * sizeof(int32_t));
  }
};

absl::StatusOr<std::unique_ptr<TokenCacheWriter>> TokenCacheWriter::Create(
    const std::string& path, TokenCacheKind kind, uint64_t key,
    int64_t vocabulary) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(path, kCacheMode));
  const bool narrow =
      kind == TokenCacheKind::kTokens && vocabulary <= (int64_t{1} << 16);
  return std::unique_ptr<TokenCacheWriter>(
      new TokenCacheWriter(std::move(file), kind, key, narrow ? 2 : 4));
}

TokenCacheWriter::TokenCacheWriter(std::unique_ptr<AtomicFile> file,
                                   TokenCacheKind kind, uint64_t key,
                                   int64_t token_bytes)
    : file_(std::move(file)), content_(std::make_unique<Hash>()) {
  std::memcpy(footer_.magic, kTokenCacheMagic, sizeof(footer_.magic));
  footer_.version = kTokenCacheVersion;
  footer_.kind = kind;
  footer_.key = key;
  footer_.token_bytes = token_bytes;
  footer_.begun_ns = absl::GetCurrentTimeNanos();
  CASTOR_CHECK(content_->state != nullptr);
  XXH3_64bits_reset(content_->state);
}

TokenCacheWriter::~TokenCacheWriter() = default;

absl::Status TokenCacheWriter::Flush() {
  for (size_t at = 0; at < buffer_.size(); at += kBlockBytes) {
    const size_t size =
        std::min<size_t>(buffer_.size() - at, static_cast<size_t>(kBlockBytes));
    sums_.push_back(XXH3_64bits(buffer_.data() + at, size));
  }
  CASTOR_RETURN_IF_ERROR(
      file_->Append(buffer_.data(), static_cast<int64_t>(buffer_.size())));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status TokenCacheWriter::Append(const void* data, int64_t size_bytes) {
  const char* at = static_cast<const char*>(data);
  footer_.body_bytes += size_bytes;
  while (size_bytes > 0) {
    const int64_t room = kBufferBytes - static_cast<int64_t>(buffer_.size());
    const int64_t piece = std::min(room, size_bytes);
    buffer_.append(at, static_cast<size_t>(piece));
    at += piece;
    size_bytes -= piece;
    if (piece == room) CASTOR_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status TokenCacheWriter::AddTokens(absl::Span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  footer_.tokens += count;
  content_->Update(tokens);
  if (footer_.token_bytes == 4) return Append(tokens.data(), 4 * count);
  std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
  return Append(narrow.data(), 2 * count);
}

absl::Status TokenCacheWriter::AddLine(absl::Span<const int32_t> tokens,
                                       absl::Span<const int32_t> labels) {
  CASTOR_CHECK(labels.empty() || labels.size() == tokens.size());
  const auto count = static_cast<int64_t>(tokens.size());
  footer_.tokens += count;
  ++footer_.lines;
  footer_.longest = std::max(footer_.longest, count);
  const auto size = static_cast<int32_t>(count);
  content_->Update({&size, 1});
  content_->Update(tokens);
  content_->Update(labels.empty() ? tokens : labels);
  marks_.push_back(2 * footer_.body_bytes + (labels.empty() ? 0 : 1));
  CASTOR_RETURN_IF_ERROR(Append(tokens.data(), 4 * count));
  if (!labels.empty()) CASTOR_RETURN_IF_ERROR(Append(labels.data(), 4 * count));
  return static_cast<int64_t>(marks_.size()) == kLinesPerGroup
             ? EndGroup()
             : absl::OkStatus();
}

absl::Status TokenCacheWriter::EndGroup() {
  groups_.push_back(footer_.body_bytes);
  marks_.push_back(2 * footer_.body_bytes);
  CASTOR_RETURN_IF_ERROR(Append(marks_.data(), BytesOf(marks_)));
  marks_.clear();
  return absl::OkStatus();
}

void TokenCacheWriter::NoteToken(int32_t token, int64_t line, bool is_label) {
  if (token <= footer_.largest_token) return;
  footer_.largest_token = token;
  footer_.largest_token_line = line;
  footer_.largest_is_label = is_label;
}

absl::Status TokenCacheWriter::Commit(const SourceStamp& source,
                                      uint64_t source_checksum) {
  if (!marks_.empty()) CASTOR_RETURN_IF_ERROR(EndGroup());
  CASTOR_RETURN_IF_ERROR(Flush());
  footer_.source_bytes = source.size_bytes;
  footer_.source_modified_ns = source.modified_ns;
  footer_.source_checksum = source_checksum;
  footer_.content_checksum = XXH3_64bits_digest(content_->state);
  std::string tables(reinterpret_cast<const char*>(sums_.data()),
                     static_cast<size_t>(BytesOf(sums_)));
  tables.append(reinterpret_cast<const char*>(groups_.data()),
                static_cast<size_t>(BytesOf(groups_)));
  footer_.tables_checksum = XXH3_64bits(tables.data(), tables.size());
  footer_.footer_checksum =
      XXH3_64bits(&footer_, offsetof(TokenCacheFooter, footer_checksum));
  CASTOR_RETURN_IF_ERROR(
      file_->Append(tables.data(), static_cast<int64_t>(tables.size())));
  CASTOR_RETURN_IF_ERROR(file_->Append(&footer_, sizeof(footer_)));
  return file_->Commit();
}

}  // namespace castor
