// Some samples of a stream, which are given in an order of their own.
#ifndef CASTOR_TEXT_DATA_SAMPLE_WINDOW_H_
#define CASTOR_TEXT_DATA_SAMPLE_WINDOW_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/data/data_set.h"

namespace castor {

// The counts of samples and of their tokens.
struct SampleCounts {
  LabelCount labels = {};
  SampleLengths lengths = {};

  void Add(const SampleCounts& other);
};

// Not thread-safe while samples are added.
class SampleWindow {
 public:
  // The window's samples have T = `length` tokens.
  explicit SampleWindow(int64_t length) : length_(length) {}

  // Makes room for so many samples and values, so that memory is not moved as
  // they are added.
  void Reserve(int64_t samples, int64_t values);

  // Adds T tokens and the one after them.
  void AddRun(absl::Span<const int32_t> tokens);
  // Adds a record with its labels, as many as tokens; or, where there are none,
  // with its tokens as labels. Tokens after the first T are not kept.
  void AddRecord(absl::Span<const int32_t> tokens,
                 absl::Span<const int32_t> labels);

  int64_t size() const { return static_cast<int64_t>(samples_.size()); }
  int64_t num_values() const { return static_cast<int64_t>(values_.size()); }
  const SampleCounts& counts() const { return counts_; }
  // The counts of the sample that was added last.
  const SampleCounts& last() const { return last_; }

  // Writes tokens [T] and targets [T] of the sample that was added as `index`.
  void Fill(int64_t index, int32_t* tokens, int32_t* targets) const;

 private:
  struct Sample {
    int64_t begin = 0;  // of values_
    int32_t tokens = 0;
    bool is_run = false;
    bool has_labels = false;
  };

  const int64_t length_;
  std::vector<Sample> samples_;
  std::vector<int32_t> values_;
  SampleCounts counts_, last_;
};

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_SAMPLE_WINDOW_H_
