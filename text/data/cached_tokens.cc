#include "text/data/cached_tokens.h"

#include <unistd.h>
#include <xxhash.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/atomic_file.h"
#include "base/directory_entry.h"
#include "base/lock_file.h"
#include "base/lock_wait.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "text/data/json_line.h"
#include "text/data/labelled_record.h"

namespace castor {
namespace {

// Up to this size a file is read to see whether it has changed.
constexpr int64_t kReadAgainBytes = int64_t{64} << 20;
// How many bytes of a cache are checked when it is opened; all others are
// checked when they are read.
constexpr int64_t kVerifiedBytes = int64_t{1} << 30;
// A file that was written so shortly before it was read may have been written
// again without a later time.
constexpr int64_t kClockTick_ns = 2'000'000'000;

constexpr absl::Duration kFirstProgress = absl::Seconds(2);
constexpr absl::Duration kProgressInterval = absl::Seconds(5);

std::string NameOf(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

absl::Status MakeHint(absl::string_view cache, const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat("the tokens cannot be kept in \"", cache,
                   "\": ", status.message(),
                   " (data.cache names another directory for them)"));
}

uint64_t KeyOf(const CachedTokensRequest& request) {
  const TextEncoding* encoding = request.tokenize.encoding;
  std::vector<uint64_t> parts = {
      kTokenCacheVersion, static_cast<uint64_t>(request.tokenize.kind),
      encoding != nullptr ? castor::KeyOf(*encoding) : 0};
  if (request.tokenize.kind == SourceKind::kTokenLines) {
    parts.push_back(kJsonLineRules);
    if (request.tokenize.tells_documents_apart) parts.push_back(1);
  }
  for (const auto& [known, name] : request.tokenize.keys.names()) {
    parts.push_back(XXH3_64bits(known.data(), known.size()));
    parts.push_back(XXH3_64bits(name.data(), name.size()));
  }
  if (request.tokenize.labelled.has_value()) {
    parts.push_back(castor::KeyOf(*request.tokenize.labelled));
  }
  if (request.tokenize.examples != nullptr) {
    parts.push_back(castor::KeyOf(*request.tokenize.examples));
  }
  if (!request.directory.empty()) {
    // Files of one name may have their caches in one directory.
    std::error_code error;
    const std::string whole =
        std::filesystem::weakly_canonical(request.path, error).string();
    parts.push_back(XXH3_64bits(whole.data(), whole.size()));
  }
  return XXH3_64bits(parts.data(), parts.size() * sizeof(parts[0]));
}

class CacheOpener {
 public:
  explicit CacheOpener(const CachedTokensRequest& request)
      : request_(request), key_(KeyOf(request)), cache_(CachePath(request)) {}

  absl::StatusOr<std::shared_ptr<const TokenCache>> Open();

 private:
  using Cache = std::shared_ptr<const TokenCache>;

  absl::StatusOr<Cache> Find();
  absl::StatusOr<bool> IsOfSource(const TokenCacheFooter& footer) const;
  absl::Status KeepApart(const absl::Status& why);
  absl::StatusOr<std::unique_ptr<LockFile>> Lock() const;
  absl::Status Make() const;

  const CachedTokensRequest& request_;
  const uint64_t key_;
  std::string cache_;
  bool apart_ = false;  // cache_ is this user's own name for it
  std::string said_;
};

absl::StatusOr<CacheOpener::Cache> CacheOpener::Open() {
  // Where there is no such file, nothing is made for it.
  CASTOR_RETURN_IF_ERROR(
      SourceReader::Open(request_.path, CutOf(request_.tokenize.kind))
          .status());
  CASTOR_ASSIGN_OR_RETURN(Cache cache, Find());
  if (cache == nullptr) {
    if (!request_.directory.empty()) {
      const auto made = MakeDirectories(request_.directory);
      if (!made.ok()) return MakeHint(cache_, made.status());
    }
    CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<LockFile> lock, Lock());
    // Another one may have made it meanwhile.
    CASTOR_ASSIGN_OR_RETURN(cache, Find());
    if (cache == nullptr) {
      CASTOR_RETURN_IF_ERROR(Make());
      CASTOR_ASSIGN_OR_RETURN(cache, TokenCache::Open(cache_));
    }
  }
  const TokenCacheFooter& footer = cache->footer();
  CASTOR_RETURN_IF_ERROR(
      CheckVocabulary(request_.tokenize, request_.path, footer.largest_token,
                      footer.largest_token_line, footer.largest_is_label != 0));
  return cache;
}

// Returns null if there is none that serves.
absl::StatusOr<CacheOpener::Cache> CacheOpener::Find() {
  absl::StatusOr<Cache> cache = TokenCache::Open(cache_);
  if (absl::IsNotFound(cache.status())) return nullptr;
  if (absl::IsInvalidArgument(cache.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(cache.status().message(), ": remove it"));
  }
  if (absl::IsPermissionDenied(cache.status())) {
    CASTOR_RETURN_IF_ERROR(KeepApart(cache.status()));
    return Find();
  }
  absl::Status status = cache.status();
  if (status.ok()) {
    CASTOR_ASSIGN_OR_RETURN(const bool serves, IsOfSource((*cache)->footer()));
    if (!serves) return nullptr;
    status = (*cache)->Verify(kVerifiedBytes);
  }
  if (status.ok()) return cache;
  std::string line = absl::StrCat(
      absl::StripSuffix(status.message(), kRemoveCache), ": it is made anew");
  if (line != said_) request_.say(line);
  said_ = std::move(line);
  return nullptr;
}

// The entry with the cache's name is another user's: the cache is kept under
// another name.
absl::Status CacheOpener::KeepApart(const absl::Status& why) {
  if (std::exchange(apart_, true)) return MakeHint(cache_, why);
  absl::StrAppend(&cache_, "-u", geteuid());
  request_.say(absl::StrCat(why.message(), " and is not used; \"", cache_,
                            "\" takes its place"));
  return absl::OkStatus();
}

// Returns true if a cache with `footer` was made of the data file's present
// content.
absl::StatusOr<bool> CacheOpener::IsOfSource(
    const TokenCacheFooter& footer) const {
  if (footer.key != key_ ||
      footer.kind != CacheKindOf(request_.tokenize.kind)) {
    return false;
  }
  CASTOR_ASSIGN_OR_RETURN(
      const auto reader,
      SourceReader::Open(request_.path, CutOf(request_.tokenize.kind)));
  const SourceStamp& now = reader->stamp();
  if (now.size_bytes != footer.source_bytes) return false;
  if (now.size_bytes > kReadAgainBytes &&
      now.modified_ns == footer.source_modified_ns &&
      now.modified_ns < footer.begun_ns - kClockTick_ns) {
    return true;
  }
  CASTOR_ASSIGN_OR_RETURN(
      const uint64_t checksum,
      ChecksumOfFile(request_.path, CutOf(request_.tokenize.kind)));
  return checksum == footer.source_checksum;
}

// Returns null if nobody else is waited for.
absl::StatusOr<std::unique_ptr<LockFile>> CacheOpener::Lock() const {
  using Outcome = LockFile::Attempt::Outcome;
  LockFile::Attempt attempt =
      AwaitLock(absl::StrCat(cache_, ".lock"),
                {.timeout_seconds = request_.timeout_seconds,
                 .say = request_.say,
                 .what = absl::StrCat("another process tokenises \"",
                                      request_.path, "\"")});
  if (attempt.outcome == Outcome::kTaken) {
    // If this fails, a process that waits can tell its user less, and that is
    // all.
    attempt.lock->Write(LockHolderText("")).IgnoreError();
    return std::move(attempt.lock);
  }
  if (attempt.outcome == Outcome::kImpossible) {
    if (absl::IsUnimplemented(attempt.why)) return nullptr;
    if (!absl::IsPermissionDenied(attempt.why)) {
      return MakeHint(cache_, attempt.why);
    }
    request_.say(absl::StrCat(attempt.why.message(), " and is not waited for"));
    return nullptr;
  }
  const LockHolder holder = HolderOf(attempt);
  if (holder.has_ended) {
    request_.say(absl::StrCat(holder.name, " has ended and left its lock (",
                              cache_, ".lock) behind: it is not waited for"));
    return nullptr;
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "\"%s\" has been tokenised by %s for %.0f s "
      "(data.cache_timeout_seconds): end that if it hangs, or wait longer",
      request_.path, holder.name, request_.timeout_seconds));
}

absl::Status CacheOpener::Make() const {
  const std::string name = NameOf(cache_);
  RemoveStaleTemporaries(
      ParentDirectory(cache_),
      [&](absl::string_view target) { return target == name; })
      .IgnoreError();
  CASTOR_ASSIGN_OR_RETURN(
      const auto reader,
      SourceReader::Open(request_.path, CutOf(request_.tokenize.kind)));
  TokenizeOptions options = request_.tokenize;
  const auto writer = TokenCacheWriter::Create(
      cache_, CacheKindOf(options.kind), key_,
      options.encoding != nullptr ? options.encoding->vocabulary : 0);
  if (!writer.ok()) return MakeHint(cache_, writer.status());

  const absl::Time begin = absl::Now();
  absl::Time next = begin + kFirstProgress;
  options.progress = [&](int64_t done_bytes, int64_t all_bytes) {
    const absl::Time now = absl::Now();
    if (now < next || done_bytes == all_bytes) return;
    next = now + kProgressInterval;
    const double seconds = absl::ToDoubleSeconds(now - begin);
    const auto done = static_cast<double>(done_bytes);
    request_.say(
        absl::StrFormat("tokenising \"%s\": %.0f %% at %s/s", request_.path,
                        100 * done / static_cast<double>(all_bytes),
                        FormatBytes(static_cast<int64_t>(done / seconds))));
  };
  options.begins_twice = [&](int64_t twice, int64_t documents) {
    request_.say(BeginsTwice(*options.encoding, twice, documents));
  };
  const absl::Status status = Tokenize(options, reader.get(), writer->get());
  if (!(*writer)->status().ok()) {
    return MakeHint(cache_, (*writer)->status());
  }
  CASTOR_RETURN_IF_ERROR(status);
  if (const absl::Status committed =
          (*writer)->Commit(reader->stamp(), reader->checksum());
      !committed.ok()) {
    return MakeHint(cache_, committed);
  }
  request_.say(absl::StrFormat(
      "tokenised \"%s\": %s, %d tokens, in %.1f s; kept in \"%s\"",
      request_.path, FormatBytes(reader->stamp().size_bytes),
      (*writer)->tokens(), absl::ToDoubleSeconds(absl::Now() - begin), cache_));
  return absl::OkStatus();
}

}  // namespace

std::string CachePath(const CachedTokensRequest& request) {
  const std::string directory = request.directory.empty()
                                    ? ParentDirectory(request.path)
                                    : request.directory;
  return absl::StrCat(directory, "/", NameOf(request.path), kTokenCacheInfix,
                      absl::Hex(KeyOf(request), absl::kZeroPad16));
}

absl::StatusOr<std::shared_ptr<const TokenCache>> OpenCachedTokens(
    const CachedTokensRequest& request) {
  return CacheOpener(request).Open();
}

}  // namespace castor
