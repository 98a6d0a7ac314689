#include "text/data/token_cache.h"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor {
namespace {

class CachedTokens : public TokenSource {
 public:
  CachedTokens(std::shared_ptr<const TokenCache> cache, std::string path)
      : cache_(std::move(cache)), path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  int64_t size() const override { return cache_->footer().tokens; }

  absl::Status Read(int64_t begin, int64_t count, int64_t vocabulary,
                    int32_t* out) const override {
    CASTOR_CHECK(begin >= 0 && count >= 0 && begin <= size() - count);
    CASTOR_RETURN_IF_ERROR(cache_->ReadTokens(begin, count, out));
    for (int64_t i = 0; i < count; ++i) {
      if (out[i] < vocabulary) [[likely]]
        continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "file \"", path_, "\" has token ", out[i], " at position ", begin + i,
          " of its tokens, but model.vocab_size is ", vocabulary));
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const TokenCache> cache_;
  const std::string path_;
};

// Returns true if the footer's sizes agree with each other, for a file of
// `file_bytes`.
bool IsPlausible(const TokenCacheFooter& footer, int64_t file_bytes) {
  const bool run = footer.kind == TokenCacheKind::kTokens;
  if (!run && footer.kind != TokenCacheKind::kLines) return false;
  if (footer.token_bytes != 4 && !(run && footer.token_bytes == 2)) {
    return false;
  }
  if (footer.tokens < 0 || footer.lines < 0 || footer.body_bytes < 0 ||
      footer.body_bytes > file_bytes || footer.lines > file_bytes ||
      footer.tokens > file_bytes) {
    return false;
  }
  if (run && footer.tokens * footer.token_bytes != footer.body_bytes) {
    return false;
  }
  const int64_t tables = 8 * (NumBlocks(footer) + NumGroups(footer));
  return footer.body_bytes + tables +
             static_cast<int64_t>(sizeof(TokenCacheFooter)) ==
         file_bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenCache>> TokenCache::Open(
    const std::string& path) {
  const auto named = [&](const absl::Status& status) {
    return absl::StrCat("token cache \"", path, "\" ", status.message());
  };
  // A link could lead to anything, and a file that cannot be read, or a pipe,
  // is another user's affair where it is another user's.
  struct stat entry;
  if (lstat(path.c_str(), &entry) == 0 && entry.st_uid != geteuid()) {
    entry.st_mode = S_IFREG;
    if (const absl::Status own = CheckOwnFile(entry); !own.ok()) {
      return absl::PermissionDeniedError(named(own));
    }
  }
  const absl::StatusOr<RegularFile> file = OpenRegularFile(path);
  if (!file.ok()) {
    return absl::Status(file.status().code(), named(file.status()));
  }
  std::shared_ptr<TokenCache> cache(new TokenCache(path, file->fd));
  if (const absl::Status own = CheckOwnFile(file->info); !own.ok()) {
    return file->info.st_uid == geteuid()
               ? absl::FailedPreconditionError(named(own))
               : absl::PermissionDeniedError(named(own));
  }
  CASTOR_RETURN_IF_ERROR(cache->ReadTables());
  return cache;
}

TokenCache::TokenCache(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

TokenCache::~TokenCache() { close(fd_); }

absl::Status TokenCache::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(
      "token cache \"", path_, "\" is damaged (", what, ")", kRemoveCache));
}

absl::Status TokenCache::ReadPlain(int64_t at, int64_t size_bytes,
                                   void* out) const {
  for (int64_t done = 0; done < size_bytes;) {
    const ssize_t n = pread(fd_, static_cast<char*>(out) + done,
                            static_cast<size_t>(size_bytes - done), at + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return Damaged(
          n < 0 ? absl::StrCat("cannot be read: ", std::strerror(errno))
                : absl::StrCat("it ends at byte ", at + done));
    }
    done += n;
  }
  return absl::OkStatus();
}

absl::Status TokenCache::ReadTables() {
  struct stat info;
  constexpr auto kFooterBytes = static_cast<int64_t>(sizeof(TokenCacheFooter));
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size < kFooterBytes) {
    return Damaged("it is no file of tokens");
  }
  CASTOR_RETURN_IF_ERROR(
      ReadPlain(info.st_size - kFooterBytes, kFooterBytes, &footer_));
  if (std::memcmp(footer_.magic, kTokenCacheMagic, sizeof(footer_.magic)) !=
      0) {
    return Damaged("it does not end as one");
  }
  if (footer_.version != kTokenCacheVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("token cache \"", path_, "\" is of version ",
                     footer_.version, ", not ", kTokenCacheVersion));
  }
  if (footer_.footer_checksum !=
          XXH3_64bits(&footer_, offsetof(TokenCacheFooter, footer_checksum)) ||
      !IsPlausible(footer_, info.st_size)) {
    return Damaged("its footer");
  }
  // The file has as many bytes: no table is larger than it.
  sums_.resize(static_cast<size_t>(NumBlocks(footer_)));
  groups_.resize(static_cast<size_t>(NumGroups(footer_)));
  const auto sums_bytes = static_cast<int64_t>(8 * sums_.size());
  const auto groups_bytes = static_cast<int64_t>(8 * groups_.size());
  CASTOR_RETURN_IF_ERROR(
      ReadPlain(footer_.body_bytes, sums_bytes, sums_.data()));
  CASTOR_RETURN_IF_ERROR(
      ReadPlain(footer_.body_bytes + sums_bytes, groups_bytes, groups_.data()));
  std::string tables(reinterpret_cast<const char*>(sums_.data()),
                     static_cast<size_t>(sums_bytes));
  tables.append(reinterpret_cast<const char*>(groups_.data()),
                static_cast<size_t>(groups_bytes));
  if (XXH3_64bits(tables.data(), tables.size()) != footer_.tables_checksum) {
    return Damaged("its checksums");
  }
  return absl::OkStatus();
}

absl::Status TokenCache::ReadBlock(int64_t block, char* out) const {
  const int64_t at = block * kBlockBytes;
  const int64_t size = std::min(kBlockBytes, footer_.body_bytes - at);
  CASTOR_RETURN_IF_ERROR(ReadPlain(at, size, out));
  if (XXH3_64bits(out, static_cast<size_t>(size)) !=
      sums_[static_cast<size_t>(block)]) {
    return Damaged(absl::StrCat("bytes ", at, " to ", at + size));
  }
  return absl::OkStatus();
}

absl::Status TokenCache::ReadChecked(int64_t at, int64_t size_bytes,
                                     void* out) const {
  KeptBlock kept;
  return ReadChecked(at, size_bytes, out, kept);
}

absl::Status TokenCache::ReadChecked(int64_t at, int64_t size_bytes, void* out,
                                     KeptBlock& kept) const {
  // A footer or an index that was made to deceive.
  if (at < 0 || size_bytes < 0 || at > footer_.body_bytes - size_bytes) {
    return Damaged("a place outside it");
  }
  auto* to = static_cast<char*>(out);
  while (size_bytes > 0) {
    const int64_t from = at % kBlockBytes;
    const int64_t piece = std::min(kBlockBytes - from, size_bytes);
    if (kept.number != at / kBlockBytes) {
      kept.number = -1;
      CASTOR_RETURN_IF_ERROR(ReadBlock(at / kBlockBytes, kept.bytes));
      kept.number = at / kBlockBytes;
    }
    std::memcpy(to, kept.bytes + from, static_cast<size_t>(piece));
    to += piece;
    at += piece;
    size_bytes -= piece;
  }
  return absl::OkStatus();
}

absl::Status TokenCache::Verify(int64_t most_bytes) const {
  char block[kBlockBytes];
  const int64_t blocks = NumBlocks(footer_);
  const int64_t looked_at =
      std::min(blocks, std::max<int64_t>(1, most_bytes / kBlockBytes));
  for (int64_t i = 0; i < looked_at; ++i) {
    // i * blocks / looked_at, which no product of two large numbers is.
    const int64_t at =
        i * (blocks / looked_at) + i * (blocks % looked_at) / looked_at;
    CASTOR_RETURN_IF_ERROR(ReadBlock(at, block));
  }
  return absl::OkStatus();
}

absl::Status TokenCache::ReadTokens(int64_t begin, int64_t count,
                                    int32_t* out) const {
  CASTOR_CHECK(footer_.kind == TokenCacheKind::kTokens && begin >= 0 &&
               count >= 0 && begin <= footer_.tokens - count);
  if (footer_.token_bytes == 4) return ReadChecked(4 * begin, 4 * count, out);
  // Read into the second half of `out`, then widened from its begin on.
  auto* narrow = reinterpret_cast<char*>(out) + 2 * count;
  CASTOR_RETURN_IF_ERROR(ReadChecked(2 * begin, 2 * count, narrow));
  for (int64_t i = 0; i < count; ++i) {
    uint16_t token;
    std::memcpy(&token, narrow + 2 * i, 2);
    out[i] = token;
  }
  return absl::OkStatus();
}

// The record of `line`, from its mark in the index and the next one.
absl::StatusOr<TokenCache::Record> TokenCache::RecordBetween(
    const int64_t* marks, int64_t line) const {
  Record record = {.begin = marks[0] / 2, .has_labels = marks[0] % 2 != 0};
  record.tokens = (marks[1] / 2 - record.begin) / (record.has_labels ? 8 : 4);
  if (record.begin < 0 || record.tokens < 1 ||
      record.tokens > footer_.longest) {
    return Damaged(absl::StrCat("the index of line ", line));
  }
  return record;
}

// Calls fn with the record of each line in [begin, end), or of those of every
// `stride`th group of lines, until it returns an error.
template <typename Fn>
absl::Status TokenCache::ForEachRecord(int64_t begin, int64_t end,
                                       int64_t stride, Fn fn) const {
  CASTOR_CHECK(footer_.kind == TokenCacheKind::kLines && begin >= 0 &&
               begin <= end && end <= footer_.lines);
  int64_t marks[kLinesPerGroup + 1];
  for (int64_t group = begin / kLinesPerGroup; group * kLinesPerGroup < end;
       group += stride) {
    const int64_t first = group * kLinesPerGroup;
    const int64_t lines = std::min(kLinesPerGroup, footer_.lines - first);
    CASTOR_RETURN_IF_ERROR(ReadChecked(groups_[static_cast<size_t>(group)],
                                       8 * (lines + 1), marks));
    for (int64_t i = std::max<int64_t>(0, begin - first);
         i < std::min(lines, end - first); ++i) {
      CASTOR_ASSIGN_OR_RETURN(const Record record,
                              RecordBetween(marks + i, first + i));
      CASTOR_RETURN_IF_ERROR(fn(record));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SampleLengths> TokenCache::CountTokens(int64_t begin,
                                                      int64_t end,
                                                      int64_t tokens) const {
  SampleLengths lengths = {.samples = end - begin};
  CASTOR_RETURN_IF_ERROR(
      ForEachRecord(begin, end, /*stride=*/1, [&](const Record& record) {
        lengths.tokens += std::min(tokens, record.tokens);
        lengths.longest = std::max(lengths.longest, record.tokens);
        lengths.cut += record.tokens > tokens;
        return absl::OkStatus();
      }));
  return lengths;
}

absl::StatusOr<std::vector<int32_t>> TokenCache::Lengths(int64_t begin,
                                                         int64_t end,
                                                         int64_t tokens) const {
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(end - begin));
  CASTOR_RETURN_IF_ERROR(
      ForEachRecord(begin, end, /*stride=*/1, [&](const Record& record) {
        lengths.push_back(
            static_cast<int32_t>(std::min(tokens, record.tokens)));
        return absl::OkStatus();
      }));
  return lengths;
}

// The labels of a line that count, from token `first` on: how many there are
// among its first `tokens` tokens, and the first one, wherever it is.
absl::StatusOr<TokenCache::RecordLabels> TokenCache::LabelsOf(
    const Record& record, int64_t tokens, int64_t first,
    KeptBlock& kept) const {
  const int64_t within = std::min(tokens, record.tokens);
  // No token is kNoTarget.
  if (!record.has_labels) {
    return RecordLabels{.first = record.tokens > first ? first : -1,
                        .count = within - first};
  }
  RecordLabels found;
  int32_t labels[256];
  for (int64_t at = first;
       at < within || (at < record.tokens && found.first < 0);) {
    const int64_t end = at < within ? within : record.tokens;
    const int64_t count = std::min<int64_t>(std::size(labels), end - at);
    CASTOR_RETURN_IF_ERROR(ReadChecked(record.begin + 4 * (record.tokens + at),
                                       4 * count, labels, kept));
    for (int64_t i = 0; i < count; ++i) {
      if (labels[i] == kNoTarget) continue;
      if (found.first < 0) found.first = at + i;
      if (at < within) ++found.count;
    }
    at += count;
  }
  return found;
}

absl::StatusOr<LabelCount> TokenCache::CountLabels(int64_t begin, int64_t end,
                                                   int64_t tokens,
                                                   int64_t most_bytes,
                                                   int64_t first) const {
  const int64_t stride =
      std::max<int64_t>(1, CeilDiv(footer_.body_bytes, most_bytes));
  KeptBlock kept;
  LabelCount result;
  CASTOR_RETURN_IF_ERROR(ForEachRecord(
      begin, end, stride, [&](const Record& record) -> absl::Status {
        CASTOR_ASSIGN_OR_RETURN(const RecordLabels labels,
                                LabelsOf(record, tokens, first, kept));
        ++result.samples;
        result.labels += labels.count;
        if (labels.count > 0) return absl::OkStatus();
        ++result.unlabelled;
        result.never += labels.first < 0;
        result.reach = std::max(result.reach, labels.first + 1);
        return absl::OkStatus();
      }));
  result.is_part = result.samples < end - begin;
  if (result.is_part) {
    result.labels = std::llround(static_cast<double>(result.labels) *
                                 static_cast<double>(end - begin) /
                                 static_cast<double>(result.samples));
  }
  return result;
}

absl::StatusOr<int64_t> TokenCache::ReadLine(int64_t line, int64_t most,
                                             int32_t* tokens,
                                             int32_t* labels) const {
  CASTOR_CHECK(footer_.kind == TokenCacheKind::kLines && line >= 0 &&
               line < footer_.lines);
  int64_t marks[2];
  const int64_t group = groups_[static_cast<size_t>(line / kLinesPerGroup)];
  // So far out that no place can be counted from it.
  if (group > footer_.body_bytes) return Damaged("a place outside it");
  CASTOR_RETURN_IF_ERROR(
      ReadChecked(group + 8 * (line % kLinesPerGroup), 16, marks));
  CASTOR_ASSIGN_OR_RETURN(const Record record, RecordBetween(marks, line));
  const int64_t count = std::min(most, record.tokens);
  CASTOR_RETURN_IF_ERROR(ReadChecked(record.begin, 4 * count, tokens));
  if (!record.has_labels) {
    std::copy_n(tokens, count, labels);
    return count;
  }
  CASTOR_RETURN_IF_ERROR(
      ReadChecked(record.begin + 4 * record.tokens, 4 * count, labels));
  return count;
}

std::shared_ptr<const TokenSource> TokensOf(
    std::shared_ptr<const TokenCache> cache, std::string path) {
  return std::make_shared<CachedTokens>(std::move(cache), std::move(path));
}

}  // namespace castor
