// The samples of some files, one file after another, again and again, read and
// tokenised as they are asked for.
//
// A pass goes through all files once; with `shuffle` in an order of the pass's
// own. Either all files have runs of tokens, which are joined and cut into
// samples of T tokens (N tokens give floor((N - 1) / T), and the rest at the
// end of a pass is not used), or all have records that are samples.
#ifndef CASTOR_TEXT_DATA_SAMPLE_STREAM_H_
#define CASTOR_TEXT_DATA_SAMPLE_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "runtime/data/token_source.h"
#include "text/data/sample_window.h"
#include "text/data/source_reader.h"
#include "text/data/tokenize.h"

namespace castor {

struct StreamedFile {
  std::string path;
  // How texts and records are read. The stream's owner keeps alive what it
  // points to.
  TokenizeOptions tokenize = {};
  // The tokens, where the file has tokens; else null.
  std::shared_ptr<const TokenSource> tokens = nullptr;
  // The token after the file's tokens where another file's follow; -1: none.
  int32_t separator = -1;
  // Keys of its records that are known not to be used.
  std::vector<std::string> unused = {};
  SourceStamp stamp = {};  // when it was looked at

  bool has_samples() const {
    return tokens == nullptr && HasSamples(tokenize.kind);
  }
};

struct StreamOptions {
  int64_t length = 1;      // T
  int64_t vocabulary = 0;  // the model's
  bool shuffle = false;
  uint64_t seed = 0;
  // Pieces of a file that are worked on at once.
  int pieces = 1;
};

// Where a sample of a stream begins, by the piece of a file that has its first
// token.
struct StreamPlace {
  int64_t pass = 0;
  int64_t file = 0;    // in the pass's order
  int64_t offset = 0;  // SourcePlace; of a file of tokens a token's number
  int64_t line = 1;
  int64_t skip = 0;  // the piece's tokens, or samples, before it

  friend bool operator==(const StreamPlace&, const StreamPlace&) = default;
};

// Not thread-safe. After an error nothing more can be read.
class SampleStream {
 public:
  // There is at least one file. `say` takes lines for the user.
  SampleStream(std::vector<StreamedFile> files, const StreamOptions& options,
               std::function<void(std::string line)> say);

  // Reads on from there, before anything was read. InvalidArgument: there is no
  // such place.
  absl::Status GoTo(const StreamPlace& place);

  // Adds the next sample to *window, or returns false: the pass is over, and
  // the next call begins another. InvalidArgument: says what is wrong, with
  // file and line; or there is no sample in any of the files. DataLoss: a file
  // was written to.
  absl::StatusOr<bool> Next(ThreadPool& pool, SampleWindow* window);

  // Returns where the next sample begins.
  StreamPlace place() const;

  // Estimates how many samples the files have, from the first part of one of
  // them.
  absl::StatusOr<double> EstimateSamples() const;

  int64_t num_bytes() const { return num_bytes_; }
  const std::vector<StreamedFile>& files() const { return files_; }

 private:
  // The tokens or records of a piece.
  struct Part {
    StreamPlace place;  // where the piece begins
    PieceTokens tokens = {};
    bool ends_file = false;
  };
  // The tokens of run_ from `begin` on are of the piece at `place`.
  struct Mark {
    int64_t begin = 0;
    StreamPlace place;
  };

  const StreamedFile& FileAt(int64_t place_in_pass) const;
  absl::Status OpenFile();
  // Adds the next pieces of the file to parts_. Returns false if the pass is
  // over.
  absl::StatusOr<bool> ReadParts(ThreadPool& pool);
  absl::StatusOr<bool> ReadTokens();
  absl::Status Check(const StreamedFile& file, const Part& part);
  void TakeRun(Part part);
  void EndPass();
  absl::StatusOr<bool> NextOfRun(ThreadPool& pool, SampleWindow* window);
  absl::StatusOr<bool> NextRecord(ThreadPool& pool, SampleWindow* window);
  absl::Status CheckHasSamples() const;

  const std::vector<StreamedFile> files_;
  const StreamOptions options_;
  const std::function<void(std::string line)> say_;
  const bool has_samples_;
  int64_t num_bytes_ = 0;

  // The place where the next piece begins, and its file, if it is open.
  StreamPlace next_;
  std::unique_ptr<SourceReader> reader_;
  int64_t skip_ = 0;     // of the next part, after GoTo
  absl::Status failed_;  // the error after parts_
  std::deque<Part> parts_;

  // The run's tokens; those before run_begin_ were given already.
  std::vector<int32_t> run_;
  int64_t run_begin_ = 0;
  std::deque<Mark> marks_;

  // How many lines and values of parts_.front() were given, for records.
  int64_t line_ = 0, value_ = 0;

  // Samples and tokens of this pass, as far as it was read from its begin.
  int64_t given_ = 0, seen_tokens_ = 0;
  bool is_whole_pass_ = true;
  int64_t twice_ = 0, documents_ = 0;
  std::set<std::string> unused_told_;
};

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_SAMPLE_STREAM_H_
