#include "cli/run/look_at_data.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/annotate.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

// Tokens up to which a data set is read through before training. What is
// larger would take too long, and is checked batch by batch.
constexpr int64_t kMaxTokensChecked = int64_t{1} << 29;
constexpr int64_t kTokensSampled = int64_t{1} << 22;

// From so many percent on, padding is told of.
constexpr double kPaddingTold = 1;

// What would give the unlabelled samples a label.
std::string Remedy(const LabelCount& count) {
  if (count.never == count.unlabelled) {
    return "they have none at any length (labels of -100 are not counted, nor "
           "is a line's first)";
  }
  return absl::StrCat(
      count.never == 0
          ? ""
          : absl::StrCat(count.never, " have none at any length; "),
      "with data.sequence_length ", count.reach,
      count.never == 0 ? " each has one" : " each of the others has one");
}

}  // namespace

absl::Status LookAtTokens(absl::string_view key, const DataSet* data,
                          std::vector<InputIdentity>* inputs) {
  if (data == nullptr) return absl::OkStatus();
  const auto identity = data->Check(kMaxTokensChecked, kTokensSampled);
  CASTOR_RETURN_IF_ERROR(Annotate(key, identity.status()));
  inputs->push_back({std::string(key), *identity});
  return absl::OkStatus();
}

absl::StatusOr<SampleLengths> LookAtLengths(
    absl::string_view key, const DataSet& data, int64_t sequence_length,
    const std::function<void(absl::string_view line)>& say) {
  const auto lengths = data.CountTokens();
  CASTOR_RETURN_IF_ERROR(Annotate(key, lengths.status()));
  const double average = lengths->average();
  const auto padding = [&](int64_t length) {
    return 100 * (1 - average / static_cast<double>(length));
  };
  if (say == nullptr) return *lengths;
  if (lengths->cut > 0) {
    say(absl::StrCat(key, ": ", lengths->cut, " of ", lengths->samples,
                     " lines are cut to data.sequence_length (",
                     sequence_length, " tokens); the longest has ",
                     lengths->longest));
  }
  if (padding(sequence_length) < kPaddingTold) return *lengths;
  // One token has no target.
  const int64_t enough = std::max<int64_t>(lengths->longest, 2);
  say(absl::StrFormat(
      "%s: %.0f%% of the batches is padding, which takes the time of tokens "
      "and "
      "is not counted in tokens/s: lines have %.1f tokens on average, at most "
      "%d, and data.sequence_length is %d%s",
      key, padding(sequence_length), average, lengths->longest, sequence_length,
      enough < sequence_length
          ? absl::StrFormat(
                "; with data.sequence_length %d it would be %.0f%%, "
                "and no line is cut",
                enough, padding(enough))
          : "; a smaller one would cut lines"));
  return *lengths;
}

absl::Status LookAtLabels(
    absl::string_view key, const DataSet* data, int64_t sequence_length,
    const std::function<void(absl::string_view line)>& say) {
  if (data == nullptr) return absl::OkStatus();
  const auto count = data->CountLabels();
  CASTOR_RETURN_IF_ERROR(Annotate(key, count.status()));
  if (count->unlabelled == 0) return absl::OkStatus();
  const std::string within =
      absl::StrCat("a labelled token among the first ", sequence_length,
                   " (data.sequence_length)");
  if (count->unlabelled == data->num_samples()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": none of its ", count->samples, " samples has ",
                     within, ": ", Remedy(*count)));
  }
  if (say != nullptr) {
    say(absl::StrCat(
        key, ": ", count->unlabelled, " of ", count->samples, " samples",
        count->samples < data->num_samples() ? " that were looked at" : "",
        " have nothing to learn from, for want of ", within, ": ",
        Remedy(*count), "; a step of such samples alone ends the run"));
  }
  return absl::OkStatus();
}

}  // namespace castor::cli
