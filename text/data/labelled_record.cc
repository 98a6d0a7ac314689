#include "text/data/labelled_record.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "runtime/data/data_set.h"
#include "runtime/data/sequence_label.h"
#include "text/data/answer_windows.h"
#include "text/data/json_record.h"

namespace castor {
namespace {

// Another number where a record means something else than it did, so that what
// was kept of records before is not taken for it.
constexpr uint64_t kLabelledRules = 2;

constexpr absl::string_view kText = "text", kPair = "text_pair",
                            kIds = "input_ids", kTypes = "token_type_ids",
                            kMask = "attention_mask", kLabel = "label",
                            kLabels = "labels",
                            kNextSentence = "next_sentence_label",
                            kQuestion = "question", kContext = "context",
                            kAnswers = "answers", kStart = "start_positions",
                            kEnd = "end_positions";

constexpr JsonLimits kLimits = {.max_depth = 8, .max_values = 2'000'000};

using text::PairPiece;

// The tokens that are left of texts of `first` and `second` tokens with room
// for `room` in all: those of the `tokenizers` library's LongestFirst.
std::pair<size_t, size_t> LongestFirst(size_t first, size_t second,
                                       size_t room) {
  if (first + second <= room) return {first, second};
  size_t shorter = std::min(first, second);
  size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return first <= second ? std::pair(shorter, longer)
                         : std::pair(longer, shorter);
}

// Returns true of an integer that fits 31 bits; NaN is none.
bool IsWhole(double value) {
  return value == std::floor(value) && std::abs(value) < 1e9;
}

// A record that is being read.
class Record {
 public:
  Record(const LabelledRules& rules, JsonLine* out)
      : rules_(rules), out_(*out), record_(rules.keys) {}

  absl::Status Read(absl::string_view line) {
    const absl::Status parsed = record_.Parse(
        line, kLimits, LabelledKeys(rules_.task, rules_.sequence_labels),
        &out_.unused);
    if (!parsed.ok() && rules_.task == ModelTask::kSpan &&
        absl::StrContains(line, "\"paragraphs\"")) {
      return absl::InvalidArgumentError(
          "has articles with paragraphs, as SQuAD's own files: give each "
          "question a record of its own, with its context and answers");
    }
    CASTOR_RETURN_IF_ERROR(parsed);
    const bool has_ids = Find(kIds) != nullptr;
    if (has_ids == (rules_.encoding != nullptr)) {
      return absl::InvalidArgumentError(
          absl::StrCat(NameOf(kIds),
                       has_ids ? ": is there, but the first record has text"
                               : ": is missing, but the first record has it",
                       ": all records of a file have the one or the other"));
    }
    if (rules_.task == ModelTask::kSpan) return ReadSpan(has_ids);
    CASTOR_RETURN_IF_ERROR(has_ids ? ReadIds() : ReadTexts());
    CASTOR_RETURN_IF_ERROR(ReadLabels());
    Cut();
    CASTOR_RETURN_IF_ERROR(Encode());
    return rules_.sequence_labels > 0 ? AddNextSentence() : absl::OkStatus();
  }

 private:
  const OrderedJson* Find(absl::string_view known) const {
    return record_.Find(known);
  }
  std::string NameOf(absl::string_view known) const {
    return record_.NameOf(known);
  }
  absl::Status Wrong(absl::string_view known, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(known), ": ", what));
  }

  absl::StatusOr<std::string> Text(absl::string_view known) const {
    const OrderedJson* const value = Find(known);
    if (value == nullptr) return Wrong(known, "is missing");
    if (value->is_string()) return value->get<std::string>();
    return Wrong(known, absl::StrCat("expected a string, found a value of "
                                     "type ",
                                     value->type_name()));
  }
  absl::StatusOr<std::vector<int32_t>> Tokens(absl::string_view known) const {
    CASTOR_ASSIGN_OR_RETURN(const std::string text, Text(known));
    return TokensOf(text);
  }
  absl::StatusOr<std::vector<int32_t>> TokensOf(absl::string_view text) const {
    std::vector<int32_t> ids;
    CASTOR_RETURN_IF_ERROR(rules_.encoding->encode(text, &ids));
    return ids;
  }
  absl::Status CheckHasPairs(absl::string_view known) const {
    if (!rules_.encoding->pair.empty()) return absl::OkStatus();
    return Wrong(known, absl::StrCat(rules_.encoding->name,
                                     " does not say how it joins two texts "
                                     "(\"pair\" of its post_processor)"));
  }

  // Returns the room in the sequence beside `added` tokens that are put around
  // the text.
  absl::StatusOr<size_t> Room(size_t added) const {
    const auto most = static_cast<size_t>(rules_.most_tokens);
    if (added < most) return most - added;
    return absl::InvalidArgumentError(
        absl::StrCat("data.sequence_length (", most,
                     ") leaves no room for a text: the tokenizer puts ", added,
                     " tokens around it"));
  }

  absl::Status ReadTexts() {
    CASTOR_ASSIGN_OR_RETURN(std::vector<int32_t> first, Tokens(kText));
    const TextEncoding& encoding = *rules_.encoding;
    if (Find(kPair) == nullptr) {
      if (rules_.sequence_labels > 0) {
        return Wrong(kPair,
                     "is missing, and model.head \"pretraining\" learns from "
                     "pairs whether the second text follows the first one");
      }
      CASTOR_ASSIGN_OR_RETURN(const size_t room, Room(encoding.before.size() +
                                                      encoding.after.size()));
      first.resize(std::min(first.size(), room));
      Append(encoding.before, 0, /*is_text=*/false);
      Append(first, 0, /*is_text=*/true);
      Append(encoding.after, 0, /*is_text=*/false);
      return absl::OkStatus();
    }
    CASTOR_RETURN_IF_ERROR(CheckHasPairs(kPair));
    CASTOR_ASSIGN_OR_RETURN(std::vector<int32_t> second, Tokens(kPair));
    CASTOR_ASSIGN_OR_RETURN(const size_t room, Room(encoding.pair.size() - 2));
    const auto [of_first, of_second] =
        LongestFirst(first.size(), second.size(), room);
    first.resize(of_first);
    second.resize(of_second);
    AppendPair(first, second);
    return absl::OkStatus();
  }

  // Returns the place of the second text's first token.
  size_t AppendPair(const std::vector<int32_t>& first,
                    const std::vector<int32_t>& second) {
    size_t place = 0;
    for (const PairPiece& piece : rules_.encoding->pair) {
      if (piece.token == PairPiece::kFirst) {
        Append(first, piece.segment, /*is_text=*/true);
      } else if (piece.token == PairPiece::kSecond) {
        place = out_.ids.size();
        Append(second, piece.segment, /*is_text=*/true);
      } else {
        Append({piece.token}, piece.segment, /*is_text=*/false);
      }
    }
    return place;
  }

  // --- Spans.

  absl::Status ReadSpan(bool has_ids) {
    if (!has_ids) {
      CASTOR_RETURN_IF_ERROR(ReadWindows());
      return Encode();
    }
    CASTOR_RETURN_IF_ERROR(ReadIds());
    TwoTargets span;
    CASTOR_ASSIGN_OR_RETURN(span.word, Position(kStart));
    CASTOR_ASSIGN_OR_RETURN(span.sequence, Position(kEnd));
    Cut();
    const auto count = static_cast<int32_t>(out_.ids.size());
    if (span.word >= count) span.word = kNoTarget;
    if (span.sequence >= count) span.sequence = kNoTarget;
    out_.labels[0] = JoinTargets(span, rules_.labels);
    return Encode();
  }

  absl::StatusOr<int32_t> Position(absl::string_view known) const {
    const OrderedJson* const value = Find(known);
    if (value == nullptr) return Wrong(known, "is missing");
    return Integer(known, *value, 0, std::numeric_limits<int32_t>::max());
  }

  absl::Status ReadWindows() {
    const TextEncoding& encoding = *rules_.encoding;
    CASTOR_RETURN_IF_ERROR(CheckHasPairs(kContext));
    CASTOR_ASSIGN_OR_RETURN(const std::string asked, Text(kQuestion));
    CASTOR_ASSIGN_OR_RETURN(const std::vector<int32_t> question,
                            TokensOf(absl::StripLeadingAsciiWhitespace(asked)));
    CASTOR_ASSIGN_OR_RETURN(const std::string context, Text(kContext));
    CASTOR_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                            TokensOf(context));
    CASTOR_ASSIGN_OR_RETURN(size_t room, Room(encoding.pair.size() - 2));
    if (question.size() >= room) {
      return Wrong(kQuestion,
                   absl::StrCat("its ", question.size(),
                                " tokens leave no room for the context in "
                                "data.sequence_length (",
                                rules_.most_tokens, ")"));
    }
    room -= question.size();
    CASTOR_ASSIGN_OR_RETURN(const std::optional<TextRange> answer,
                            AnswerIn(context, tokens));
    for (const TextRange& window :
         WindowsOf(static_cast<int64_t>(tokens.size()),
                   static_cast<int64_t>(room), rules_.doc_stride)) {
      const size_t begin = out_.ids.size();
      const auto at = static_cast<int64_t>(
          AppendPair(question, {tokens.begin() + window.begin,
                                tokens.begin() + window.end}) -
          begin);
      TwoTargets span = {.word = 0, .sequence = 0};
      if (answer.has_value() && answer->begin >= window.begin &&
          answer->end <= window.end) {
        const int64_t first = at + answer->begin - window.begin;
        const int64_t last = at + answer->end - 1 - window.begin;
        span = {.word = static_cast<int32_t>(first),
                .sequence = static_cast<int32_t>(last)};
      }
      out_.starts.push_back(static_cast<int64_t>(begin));
      out_.labels.resize(out_.ids.size(), kNoTarget);
      out_.labels[begin] = JoinTargets(span, rules_.labels);
    }
    return absl::OkStatus();
  }

  // The tokens of the context that are its answer; absent: it has none.
  absl::StatusOr<std::optional<TextRange>> AnswerIn(
      absl::string_view context, const std::vector<int32_t>& tokens) const {
    const OrderedJson* const answers = Find(kAnswers);
    if (answers == nullptr) return Wrong(kAnswers, "is missing");
    absl::StatusOr<std::optional<TextRange>> bytes =
        FindAnswer(*answers, context);
    if (!bytes.ok()) return Wrong(kAnswers, bytes.status().message());
    if (!bytes->has_value() || tokens.empty()) return std::nullopt;
    CASTOR_ASSIGN_OR_RETURN(
        const TextRange range,
        TokensOfAnswer(*rules_.encoding, context, tokens, **bytes));
    return range;
  }

  // --- Tokens and labels.

  void Append(const std::vector<int32_t>& ids, int32_t segment, bool is_text) {
    out_.ids.insert(out_.ids.end(), ids.begin(), ids.end());
    segments_.insert(segments_.end(), ids.size(), segment);
    if (!masks()) return;
    for (const int32_t id : ids) {
      out_.labels.push_back(is_text ? id : kNoTarget);
    }
  }
  // Returns true if the words to mask are chosen later.
  bool masks() const {
    return rules_.task == ModelTask::kMaskedTokens &&
           rules_.encoding != nullptr;
  }

  // The integers of a list, each in [least, end).
  absl::StatusOr<std::vector<int32_t>> Integers(absl::string_view known,
                                                int64_t least,
                                                int64_t end) const {
    const OrderedJson& list = *Find(known);
    if (!list.is_array()) return Wrong(known, "expected a list of integers");
    std::vector<int32_t> values;
    values.reserve(list.size());
    for (const OrderedJson& each : list) {
      CASTOR_ASSIGN_OR_RETURN(const int32_t value,
                              Integer(known, each, least, end));
      values.push_back(value);
    }
    return values;
  }
  absl::StatusOr<int32_t> Integer(absl::string_view known,
                                  const OrderedJson& value, int64_t least,
                                  int64_t end) const {
    if (!value.is_number_integer()) {
      return Wrong(known, absl::StrCat("expected an integer, found a value of "
                                       "type ",
                                       value.type_name()));
    }
    // A number that only an unsigned integer holds is above every bound.
    const bool huge = value.is_number_unsigned() &&
                      value.get<uint64_t>() > static_cast<uint64_t>(end);
    const int64_t number = huge ? end : value.get<int64_t>();
    const bool ignored = number == kNoTarget && least < 0;
    if (ignored || (number >= std::max<int64_t>(least, 0) && number < end)) {
      return static_cast<int32_t>(number);
    }
    return Wrong(
        known, absl::StrCat("has ", value.dump(), ", and must be in [0, ", end,
                            ")", least < 0 ? ", or -100" : "", ": ",
                            BoundOf(known), " is ", end));
  }
  std::string BoundOf(absl::string_view known) const {
    if (known == kIds) return "model.vocab_size";
    if (known == kTypes) return "model.type_vocab_size";
    if (known == kMask) return "the number of values";
    if (known == kNextSentence) return "the number of these labels";
    if (known == kStart || known == kEnd) return "a position's bound";
    return rules_.task == ModelTask::kMaskedTokens ? "model.vocab_size"
                                                   : "model.num_labels";
  }

  absl::Status CheckLength(absl::string_view known, size_t length) const {
    if (length == out_.ids.size()) return absl::OkStatus();
    return Wrong(known, absl::StrCat("has ", length, " elements, ",
                                     NameOf(kIds), " ", out_.ids.size()));
  }

  absl::Status ReadIds() {
    CASTOR_ASSIGN_OR_RETURN(out_.ids, Integers(kIds, 0, rules_.vocabulary));
    if (out_.ids.empty()) return Wrong(kIds, "is empty");
    segments_.assign(out_.ids.size(), 0);
    if (Find(kTypes) != nullptr) {
      CASTOR_ASSIGN_OR_RETURN(segments_, Integers(kTypes, 0, rules_.segments));
      CASTOR_RETURN_IF_ERROR(CheckLength(kTypes, segments_.size()));
    }
    // The labels of tokens are as many as these.
    if (rules_.task != ModelTask::kSpan && Find(kLabels) != nullptr &&
        Find(kLabels)->is_array()) {
      CASTOR_ASSIGN_OR_RETURN(out_.labels,
                              Integers(kLabels, -1, rules_.labels));
      CASTOR_RETURN_IF_ERROR(CheckLength(kLabels, out_.labels.size()));
    }
    if (Find(kMask) == nullptr) return absl::OkStatus();
    CASTOR_ASSIGN_OR_RETURN(const std::vector<int32_t> mask,
                            Integers(kMask, 0, 2));
    CASTOR_RETURN_IF_ERROR(CheckLength(kMask, mask.size()));
    const auto end = std::find(mask.begin(), mask.end(), 0);
    if (end == mask.begin() || std::find(end, mask.end(), 1) != mask.end()) {
      return Wrong(kMask, "must have ones, and zeros only at its right end");
    }
    out_.ids.resize(static_cast<size_t>(end - mask.begin()));
    return absl::OkStatus();
  }

  absl::Status ReadLabels() {
    const bool of_tokens = rules_.task != ModelTask::kSequenceLabel;
    const OrderedJson* label = Find(kLabel);
    const OrderedJson* labels = Find(kLabels);
    if (label != nullptr && labels != nullptr) {
      return Wrong(kLabels, absl::StrCat("is there, and so is ", NameOf(kLabel),
                                         ": leave out one"));
    }
    if (of_tokens) {
      if (label != nullptr && rules_.sequence_labels > 0) {
        return Wrong(kLabel,
                     "has no meaning for model.head \"pretraining\", whose "
                     "pairs have a next_sentence_label: where that is meant, "
                     "say \"data\": {\"keys\": {\"next_sentence_label\": "
                     "\"label\"}}");
      }
      if (label != nullptr && masks()) {
        return Wrong(kLabel,
                     "is a sequence's, and the model learns masked words: "
                     "leave it out");
      }
      if (label != nullptr) {
        return Wrong(kLabel,
                     "is a sequence's, and model.head wants labels of "
                     "tokens: give them as a list, labels");
      }
      if (masks() && labels == nullptr) return absl::OkStatus();
      if (labels == nullptr) return Wrong(kLabels, "is missing");
      if (rules_.encoding != nullptr) {
        return Wrong(kLabels,
                     "needs input_ids: which token of a text each "
                     "label is about is not known");
      }
      if (!labels->is_array()) return Wrong(kLabels, "expected a list");
      return absl::OkStatus();
    }
    const absl::string_view known = labels != nullptr ? kLabels : kLabel;
    if (labels != nullptr) label = labels;
    if (label == nullptr) return Wrong(kLabel, "is missing");
    if (label->is_array()) {
      return Wrong(known,
                   "is a list, and model.head "
                   "\"sequence_classification\" wants one label");
    }
    CASTOR_ASSIGN_OR_RETURN(const int32_t value,
                            SequenceLabel(known, *label, rules_.labels));
    out_.labels = {value};
    return absl::OkStatus();
  }

  // A label of a whole sequence, in [0, end).
  absl::StatusOr<int32_t> SequenceLabel(absl::string_view known,
                                        const OrderedJson& label,
                                        int64_t end) const {
    if (label.is_boolean()) return label.get<bool>() ? 1 : 0;
    // A table's cells are texts, and pandas writes 1.0 where one is missing.
    int64_t number = 0;
    if (label.is_string()) {
      const std::string& text = label.get_ref<const std::string&>();
      if (!absl::SimpleAtoi(text, &number)) {
        double value = 0;
        if (!absl::SimpleAtod(text, &value) || !IsWhole(value)) {
          return Wrong(known,
                       absl::StrCat("expected a number from 0 to ", end - 1,
                                    ", found the text ", QuotedForMessage(text),
                                    ": give each class its number"));
        }
        number = static_cast<int64_t>(value);
      }
      return Integer(known, number, 0, end);
    }
    if (label.is_number_float()) {
      const double value = label.get<double>();
      if (IsWhole(value)) {
        return Integer(known, static_cast<int64_t>(value), 0, end);
      }
    }
    return Integer(known, label, 0, end);
  }

  absl::Status AddNextSentence() {
    const OrderedJson* const label = Find(kNextSentence);
    if (label == nullptr) return Wrong(kNextSentence, "is missing");
    CASTOR_ASSIGN_OR_RETURN(
        const int32_t value,
        SequenceLabel(kNextSentence, *label, rules_.sequence_labels));
    int32_t& first = out_.labels[0];
    first = JoinTargets({.word = first, .sequence = value}, rules_.vocabulary);
    return absl::OkStatus();
  }

  // Cuts all to the same length.
  void Cut() {
    const size_t length =
        std::min(out_.ids.size(), static_cast<size_t>(rules_.most_tokens));
    out_.ids.resize(length);
    out_.labels.resize(length, kNoTarget);
  }

  // Joins tokens and segments.
  absl::Status Encode() {
    for (size_t i = 0; i < out_.ids.size(); ++i) {
      // A tokenizer's tokens may be outside the model's vocabulary.
      const int64_t token = out_.ids[i], segment = segments_[i];
      if (token >= rules_.vocabulary || segment >= rules_.segments) {
        const bool is_token = token >= rules_.vocabulary;
        return absl::InvalidArgumentError(absl::StrCat(
            rules_.encoding->name, " gives ", is_token ? "token " : "segment ",
            is_token ? token : segment, ", but model.",
            is_token ? "vocab_size" : "type_vocab_size", " is ",
            is_token ? rules_.vocabulary : rules_.segments,
            ": tokenizer and model do not fit together"));
      }
      out_.ids[i] = static_cast<int32_t>(token + rules_.vocabulary * segment);
    }
    out_.has_ids = out_.has_labels = true;
    return absl::OkStatus();
  }

  const LabelledRules& rules_;
  JsonLine& out_;
  JsonRecord record_;
  std::vector<int32_t> segments_;
};

}  // namespace

std::vector<absl::string_view> LabelledKeys(ModelTask task,
                                            int64_t sequence_labels) {
  if (task == ModelTask::kSpan) {
    return {kQuestion, kContext, kAnswers, kIds, kTypes, kMask, kStart, kEnd};
  }
  std::vector<absl::string_view> keys = {kText, kPair,  kIds,   kTypes,
                                         kMask, kLabel, kLabels};
  if (sequence_labels > 0) keys.push_back(kNextSentence);
  return keys;
}

uint64_t KeyOf(const LabelledRules& rules) {
  std::string all = absl::StrCat(
      kLabelledRules, " ", static_cast<int>(rules.task), " ", rules.vocabulary,
      " ", rules.labels, " ", rules.segments, " ", rules.most_tokens);
  if (rules.sequence_labels > 0) {
    absl::StrAppend(&all, " next ", rules.sequence_labels);
  }
  if (rules.doc_stride > 0) absl::StrAppend(&all, " by ", rules.doc_stride);
  if (rules.encoding != nullptr) {
    for (const PairPiece& piece : rules.encoding->pair) {
      absl::StrAppend(&all, " ", piece.token, " ", piece.segment);
    }
  }
  return XXH3_64bits(all.data(), all.size());
}

absl::Status ReadLabelledRecord(absl::string_view line,
                                const LabelledRules& rules, JsonLine* out) {
  *out = JsonLine();
  return Record(rules, out).Read(line);
}

}  // namespace castor
