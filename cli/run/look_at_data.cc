#include "cli/run/look_at_data.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

// Tokens up to which a data set is read through before training. What is
// larger would take too long, and is checked batch by batch.
constexpr int64_t kMaxTokensChecked = int64_t{1} << 29;
constexpr int64_t kTokensSampled = int64_t{1} << 22;

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
