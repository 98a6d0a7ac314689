#include "text/data/sample_window.h"

#include <algorithm>

#include "base/check.h"
#include "text/data/line_data.h"

namespace castor {
namespace {

// The place in a record of its first label that counts, or -1, and how many
// there are among its first `kept` tokens.
struct RecordLabels {
  int64_t first = -1;
  int64_t count = 0;
};

RecordLabels LabelsOf(int64_t tokens, int64_t kept,
                      absl::Span<const int32_t> labels) {
  // No token is kNoTarget.
  if (labels.empty()) return {tokens > 1 ? 1 : -1, kept - 1};
  RecordLabels found;
  for (int64_t i = 1; i < tokens && (i < kept || found.first < 0); ++i) {
    if (labels[static_cast<size_t>(i)] == kNoTarget) continue;
    if (found.first < 0) found.first = i;
    found.count += i < kept;
  }
  return found;
}

}  // namespace

void SampleCounts::Add(const SampleCounts& other) {
  labels.samples += other.labels.samples;
  labels.unlabelled += other.labels.unlabelled;
  labels.never += other.labels.never;
  labels.reach = std::max(labels.reach, other.labels.reach);
  labels.labels += other.labels.labels;
  lengths.samples += other.lengths.samples;
  lengths.tokens += other.lengths.tokens;
  lengths.longest = std::max(lengths.longest, other.lengths.longest);
  lengths.cut += other.lengths.cut;
}

void SampleWindow::Reserve(int64_t samples, int64_t values) {
  samples_.reserve(static_cast<size_t>(samples));
  values_.reserve(static_cast<size_t>(values));
}

void SampleWindow::AddRun(absl::Span<const int32_t> tokens) {
  CASTOR_CHECK(static_cast<int64_t>(tokens.size()) == length_ + 1);
  samples_.push_back({.begin = num_values(),
                      .tokens = static_cast<int32_t>(length_),
                      .is_run = true});
  values_.insert(values_.end(), tokens.begin(), tokens.end());
  last_ = {.labels = {.samples = 1, .labels = length_},
           .lengths = {.samples = 1, .tokens = length_, .longest = length_}};
  counts_.Add(last_);
}

void SampleWindow::AddRecord(absl::Span<const int32_t> tokens,
                             absl::Span<const int32_t> labels) {
  const auto all = static_cast<int64_t>(tokens.size());
  const int64_t kept = std::min(all, length_);
  samples_.push_back({.begin = num_values(),
                      .tokens = static_cast<int32_t>(kept),
                      .has_labels = !labels.empty()});
  values_.insert(values_.end(), tokens.begin(), tokens.begin() + kept);
  if (!labels.empty()) {
    values_.insert(values_.end(), labels.begin(), labels.begin() + kept);
  }
  const RecordLabels found = LabelsOf(all, kept, labels);
  const bool none = found.count == 0;
  last_ = {
      .labels = {.samples = 1,
                 .unlabelled = none,
                 .never = none && found.first < 0,
                 .reach = none ? found.first + 1 : 0,
                 .labels = found.count},
      .lengths = {
          .samples = 1, .tokens = kept, .longest = all, .cut = all > length_}};
  counts_.Add(last_);
}

void SampleWindow::Fill(int64_t index, int32_t* tokens,
                        int32_t* targets) const {
  CASTOR_CHECK(index >= 0 && index < size());
  const Sample& sample = samples_[static_cast<size_t>(index)];
  const auto count = static_cast<size_t>(sample.tokens);
  const absl::Span<const int32_t> values =
      absl::MakeSpan(values_).subspan(static_cast<size_t>(sample.begin));
  if (sample.is_run) {
    std::copy_n(values.data(), count, tokens);
    std::copy_n(values.data() + 1, count, targets);
    return;
  }
  FillFromRecord(values.first(count),
                 values.subspan(sample.has_labels ? count : 0, count), length_,
                 tokens, targets);
}

}  // namespace castor
