#include "cli/run/look_at_data.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/annotate.h"
#include "base/document_range.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/data/sequence_label.h"
#include "text/data/find_files.h"

namespace castor::cli {
namespace {

// Tokens up to which a data set is read through before training. What is
// larger would take too long, and is checked batch by batch.
constexpr int64_t kMaxTokensChecked = int64_t{1} << 29;
constexpr int64_t kTokensSampled = int64_t{1} << 22;

// From so many percent on, padding is told of.
constexpr double kPaddingTold = 1;

// Says what would give the unlabelled samples a label.
std::string Remedy(const LabelCount& count) {
  if (count.never == count.unlabelled) {
    return "they have none at any length (not counted are labels of -100, a "
           "line's first, and in conversations what no message of the role "
           "\"assistant\" says)";
  }
  return absl::StrCat(
      count.never == 0
          ? ""
          : absl::StrCat(count.never, " have none at any length; "),
      "with data.sequence_length ", count.reach,
      count.never == 0 ? " each has one" : " each of the others has one");
}

// To which lengths batches are padded, how many, and what that saves.
std::string DescribeBatches(const SampleLengths& lengths,
                            int64_t sequence_length) {
  int64_t steps = 0, tokens = 0;
  std::vector<std::string> each;
  for (const auto& [length, batches] : lengths.batches) {
    steps += batches;
    tokens += length * batches;
    each.push_back(absl::StrCat(length, " tokens (", batches, ")"));
  }
  const auto padding = [&](double length) {
    return 100 * (1 - lengths.average() / length);
  };
  return absl::StrFormat(
      "batches are formed by length (data.shuffle, data.packing \"none\"), in "
      "%d steps of the first epoch padded to %s: %.1f%% of these tokens is "
      "padding, which takes their time and is not counted in tokens/s; if each "
      "had data.sequence_length (%d) it would be %.1f%%; each of these lengths "
      "is "
      "planned by itself, and the memory plan that follows is of the longest",
      steps, absl::StrJoin(each, ", "),
      padding(static_cast<double>(tokens) / static_cast<double>(steps)),
      sequence_length, padding(static_cast<double>(sequence_length)));
}

}  // namespace

std::vector<OtherFile> FilesRead(const ModelConfig& model,
                                 const DataConfig& data) {
  std::vector<OtherFile> files =
      FilesOfModel(absl::StrCat("a file of model.", model.directory_key()),
                   model.directory());
  for (OtherFile& file :
       FilesOfModel("a file of data.tokenizer", data.tokenizer)) {
    files.push_back(std::move(file));
  }
  const auto add = [&](const char* key,
                       const std::vector<DataSource>& sources) {
    for (const DataSource& source : sources) {
      // Files that cannot be found are refused where they are opened.
      const absl::StatusOr<FoundFiles> found = FindFiles(source.path);
      if (!found.ok()) continue;
      for (const std::string& path : found->paths) files.push_back({key, path});
    }
  };
  add("data.train", data.train);
  add("data.validation", data.validation);
  return files;
}

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
    const std::function<void(absl::string_view line)>& say, int64_t padded_to) {
  const auto lengths = data.CountTokens();
  CASTOR_RETURN_IF_ERROR(Annotate(key, lengths.status()));
  const double average = lengths->average();
  const auto padding = [&](int64_t length) {
    return 100 * (1 - average / static_cast<double>(length));
  };
  if (say == nullptr) return *lengths;
  if (lengths->cut > 0) {
    say(absl::StrCat(key, ": ", lengths->cut, " of ", lengths->num_records(),
                     " lines are cut to data.sequence_length (",
                     sequence_length, " tokens); the longest has ",
                     lengths->longest));
  }
  if (lengths->records > 0) {
    say(absl::StrFormat(
        "%s: %d samples, of %.1f tokens on average, share %d rows of %d "
        "(data.packing \"rows\"): %.1f%% of these is padding",
        key, lengths->records,
        static_cast<double>(lengths->tokens) /
            static_cast<double>(lengths->records),
        lengths->samples, sequence_length, padding(sequence_length)));
    return *lengths;
  }
  if (!lengths->batches.empty()) {
    say(absl::StrCat(key, ": ", DescribeBatches(*lengths, sequence_length)));
    return *lengths;
  }
  const bool is_shorter = padded_to > 0 && padded_to < sequence_length;
  if (padding(is_shorter ? padded_to : sequence_length) < kPaddingTold) {
    return *lengths;
  }
  if (is_shorter) {
    say(absl::StrFormat(
        "%s: each line is padded to the longest, which makes %d tokens, as it "
        "is evaluated: %.0f%% of them is padding, lines have %.1f on average",
        key, padded_to, padding(padded_to), average));
    return *lengths;
  }
  // One token has no target.
  const int64_t enough = std::max<int64_t>(lengths->longest, 2);
  say(absl::StrFormat(
      "%s: %.0f%% of the batches is padding, which takes the time of tokens "
      "and is not counted in tokens/s: lines have %.1f tokens on average, at "
      "most %d, and data.sequence_length is %d%s",
      key, padding(sequence_length), average, lengths->longest, sequence_length,
      enough < sequence_length
          ? absl::StrFormat(
                "; with data.sequence_length %d it would be %.0f%%, "
                "and no line is cut",
                enough, padding(enough))
          : "; a smaller one would cut lines"));
  return *lengths;
}

absl::StatusOr<LabelCount> LookAtLabels(
    absl::string_view key, const DataSet& data, int64_t sequence_length,
    const std::function<void(absl::string_view line)>& say) {
  const auto count = data.CountLabels();
  CASTOR_RETURN_IF_ERROR(Annotate(key, count.status()));
  if (count->unlabelled == 0) return *count;
  const std::string within =
      absl::StrCat("a labelled token among the first ", sequence_length,
                   " (data.sequence_length)");
  if (count->unlabelled == count->samples && !count->is_part) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": none of its ", count->samples, " samples has ",
                     within, ": ", Remedy(*count)));
  }
  if (say != nullptr) {
    say(absl::StrCat(key, ": ", count->unlabelled, " of ", count->samples,
                     " samples", count->is_part ? " that were looked at" : "",
                     " have nothing to learn from, for want of ", within, ": ",
                     Remedy(*count),
                     "; a step of such samples alone ends the run"));
  }
  return *count;
}

absl::StatusOr<std::string> ShowSample(const DataSet& data,
                                       const TextOfTokens& text_of,
                                       const Architecture& model) {
  // The tokens that are shown; of a long sample the begin tells what it is.
  constexpr int64_t kMost = 2000;
  const int64_t length = data.sequence_length();
  std::vector<int32_t> tokens(static_cast<size_t>(length));
  std::vector<int32_t> targets(tokens.size());
  CASTOR_RETURN_IF_ERROR(data.FillBatch(0, 1, tokens.data(), targets.data()));
  // Where samples share a row, the first one is shown.
  std::vector<DocumentRange> documents(tokens.size());
  CASTOR_RETURN_IF_ERROR(data.FillDocuments(0, 1, documents.data()));
  const auto first = static_cast<size_t>(documents[0].end);
  tokens.resize(first);
  targets.resize(first);
  const bool whole = model.task() != ModelTask::kNextToken;
  TwoTargets of_first = {.word = targets[0]};
  if (model.task() == ModelTask::kSequenceLabel) {
    of_first = {.sequence = targets[0]};
  } else if (model.sequence_labels() > 0) {
    of_first = SplitTarget(targets[0], model.labels());
  }
  targets[0] = of_first.word;
  std::string label = of_first.sequence != kNoTarget
                          ? absl::StrCat("  label ", of_first.sequence)
                          : "";
  if (model.task() == ModelTask::kSpan) {
    // The span's tokens are those that are marked as learned.
    const auto says = [](int32_t position) {
      return position == kNoTarget ? "none" : absl::StrCat(position);
    };
    label = absl::StrCat("  span from ", says(of_first.word), " to ",
                         says(of_first.sequence));
    targets[0] = kNoTarget;
    // An end that does not count leaves the other one alone.
    const int32_t first =
        of_first.word != kNoTarget ? of_first.word : of_first.sequence;
    const int32_t last = std::min(
        of_first.sequence != kNoTarget ? of_first.sequence : of_first.word,
        documents[0].end - 1);
    for (int32_t i = std::max(first, 0); i <= last; ++i) {
      targets[static_cast<size_t>(i)] = 0;
    }
  }
  // The tokens after the last target may be padding, and are not shown. A
  // sample of a run has a target beyond its tokens.
  tokens.push_back(targets.back());
  int64_t end = documents[0].end;
  while (end > 0 && targets[static_cast<size_t>(end - 1)] == kNoTarget) --end;
  if (whole) {
    end = documents[0].end;
  } else if (end == 0) {
    // Nothing is learned, and all but its padding is shown.
    constexpr int32_t kPadding = 0;
    end = documents[0].end;
    while (end > 1 && tokens[static_cast<size_t>(end - 1)] == kPadding) --end;
  } else {
    ++end;
  }
  const int64_t shown = std::min(end, kMost);
  const auto is_learned = [&](int64_t i) {
    if (whole) return targets[static_cast<size_t>(i)] != kNoTarget;
    return i > 0 && targets[static_cast<size_t>(i - 1)] != kNoTarget;
  };
  const auto text_of_first = [&](int64_t count) {
    return text_of(absl::MakeSpan(tokens).first(static_cast<size_t>(count)));
  };
  std::string line, before;
  for (int64_t begin = 0; begin < shown;) {
    int64_t next = begin + 1;
    while (next < shown && is_learned(next) == is_learned(begin)) ++next;
    // A token's text may depend on those before it.
    CASTOR_ASSIGN_OR_RETURN(std::string until, text_of_first(next));
    const absl::string_view text =
        absl::string_view(until).substr(std::min(before.size(), until.size()));
    const std::string escaped =
        nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                  nlohmann::json::error_handler_t::replace);
    const bool learned = is_learned(begin);
    absl::StrAppend(&line, learned ? "[[" : "",
                    absl::string_view(escaped).substr(1, escaped.size() - 2),
                    learned ? "]]" : "");
    before = std::move(until);
    begin = next;
  }
  if (shown < end) {
    absl::StrAppend(&line, "... (", end - shown, " more tokens)");
  }
  return line + label;
}

}  // namespace castor::cli
