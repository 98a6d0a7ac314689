// A token cache (token_cache_format.h) that is open: all that is read of it has
// been checked.
#ifndef CASTOR_TEXT_DATA_TOKEN_CACHE_H_
#define CASTOR_TEXT_DATA_TOKEN_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/data/data_set.h"
#include "runtime/data/token_source.h"
#include "text/data/token_cache_format.h"

namespace castor {

// The end of a message about a damaged cache.
inline constexpr absl::string_view kRemoveCache =
    ": remove it, and it is made anew from the data file";

// Thread-safe: reads only. The file may be renamed or removed while it is open.
// Holds 8 bytes for each 64 KiB of the file, and for each 1024 lines.
class TokenCache {
 public:
  // Opens a cache. NotFound: no such file. DataLoss: it is not as it was
  // written. FailedPrecondition: of another version, or others may write to it.
  // PermissionDenied: it belongs to another user, and not to root.
  // InvalidArgument: the entry with this name is no file.
  static absl::StatusOr<std::shared_ptr<const TokenCache>> Open(
      const std::string& path);
  ~TokenCache();
  TokenCache(const TokenCache&) = delete;
  TokenCache& operator=(const TokenCache&) = delete;

  const std::string& path() const { return path_; }
  const TokenCacheFooter& footer() const { return footer_; }

  // Reads blocks of the body of `most_bytes` in all, from end to end of it, or
  // all of them. DataLoss: one is not as it was written.
  absl::Status Verify(int64_t most_bytes) const;

  // Reads a cache of tokens: out[i] = token `begin` + i, for i in [0, count).
  absl::Status ReadTokens(int64_t begin, int64_t count, int32_t* out) const;

  // Returns how long the lines [begin, end) of a cache of lines are, if they
  // are cut to their first `tokens` tokens.
  absl::StatusOr<SampleLengths> CountTokens(int64_t begin, int64_t end,
                                            int64_t tokens) const;
  // Returns the same lines' lengths, in their order.
  absl::StatusOr<std::vector<int32_t>> Lengths(int64_t begin, int64_t end,
                                               int64_t tokens) const;
  // Returns, for a cache of lines, how many labels count among the first
  // `tokens` tokens of the lines [begin, end), except those of a line's tokens
  // before `first`, and how many lines have none. Looks at only some groups,
  // evenly spaced, where the body has more than `most_bytes`.
  absl::StatusOr<LabelCount> CountLabels(int64_t begin, int64_t end,
                                         int64_t tokens, int64_t most_bytes,
                                         int64_t first = 1) const;
  // Reads the first tokens of `line`, at most `most`, and as many labels.
  // Returns how many.
  absl::StatusOr<int64_t> ReadLine(int64_t line, int64_t most, int32_t* tokens,
                                   int32_t* labels) const;

 private:
  struct Record {
    int64_t begin = 0;  // its place in the file
    int64_t tokens = 0;
    bool has_labels = false;
  };
  // The block that was read last, for reads that follow each other.
  struct KeptBlock {
    int64_t number = -1;
    char bytes[kBlockBytes];
  };
  TokenCache(std::string path, int fd);
  absl::Status ReadTables();
  absl::Status ReadPlain(int64_t at, int64_t size_bytes, void* out) const;
  absl::Status ReadChecked(int64_t at, int64_t size_bytes, void* out) const;
  absl::Status ReadChecked(int64_t at, int64_t size_bytes, void* out,
                           KeptBlock& kept) const;
  struct RecordLabels {
    int64_t first = -1;  // the place in the line; -1: there is none
    int64_t count = 0;   // among its first tokens
  };
  absl::StatusOr<RecordLabels> LabelsOf(const Record& record, int64_t tokens,
                                        int64_t first, KeptBlock& kept) const;
  absl::Status ReadBlock(int64_t block, char* out) const;
  absl::StatusOr<Record> RecordBetween(const int64_t* marks,
                                       int64_t line) const;
  template <typename Fn>
  absl::Status ForEachRecord(int64_t begin, int64_t end, int64_t stride,
                             Fn fn) const;
  absl::Status Damaged(absl::string_view what) const;

  const std::string path_;
  const int fd_;
  TokenCacheFooter footer_;
  std::vector<uint64_t> sums_;
  std::vector<int64_t> groups_;
};

// Returns the cache's run of tokens, as that of the source at `path`.
std::shared_ptr<const TokenSource> TokensOf(
    std::shared_ptr<const TokenCache> cache, std::string path);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_TOKEN_CACHE_H_
