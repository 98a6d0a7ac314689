#include "text/data/json_line.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "runtime/data/data_set.h"
#include "text/data/line_documents.h"
#include "text/data/record_keys.h"

namespace castor {
namespace {

using Json = nlohmann::json;

// The masks come last. All but attention_mask say which tokens are learned.
enum Field {
  kText,
  kIds,
  kLabels,
  kAttention,
  kCompletion,
  kAssistant,
  kLoss,
  kOther
};
constexpr absl::string_view kNames[] = {
    "text",           "input_ids",       "labels",
    "attention_mask", "completion_mask", "assistant_masks",
    "loss_mask"};

bool IsMask(Field field) { return field >= kAttention && field < kOther; }

// Keys of other programs by the one that is known here.
constexpr std::pair<absl::string_view, Field> kOtherNames[] = {
    {"label_ids", kLabels},
    {"attn_mask", kAttention},
    {"assistant_tokens_mask", kAssistant}};

// Keys by which other programs keep the documents of a line apart.
constexpr absl::string_view kPacking[] = {
    "position_ids", "document_ids", "seq_idx",       "seq_lengths",
    "cu_seqlens",   "sequence_ids", "cu_seq_lens_q", "cu_seq_lens_k"};

// The known key that somebody probably means who writes `name`, which is not
// one; kOther: none.
Field Meant(absl::string_view name) {
  for (const auto& [theirs, field] : kOtherNames) {
    if (name == theirs) return field;
  }
  for (int i = 0; i < kOther; ++i) {
    if (IsNearKey(name, kNames[i])) return static_cast<Field>(i);
  }
  return kOther;
}

// The library's "parse error at line 1, column 9: syntax error ..." without the
// place, and cut where it repeats a long token.
std::string PlainError(absl::string_view what) {
  const size_t column = what.find("column ");
  const size_t end = what.find(": ", column);
  if (column != absl::string_view::npos && end != absl::string_view::npos) {
    what.remove_prefix(end + 2);
  }
  constexpr size_t kMax = 160;
  const bool cut = what.size() > kMax;
  return absl::StrCat(
      absl::StrReplaceAll(absl::Utf8SafeCHexEscape(what.substr(0, kMax)),
                          {{"\\'", "'"}, {"\\\"", "\""}}),
      cut ? "..." : "");
}

// Takes the fields that are known as the parser meets them, and no others: a
// line takes little more memory than its values.
class LineHandler : public nlohmann::json_sax<Json> {
 public:
  LineHandler(const RecordKeys& keys, JsonLine* line, size_t line_bytes,
              bool tells_apart)
      : keys_(keys),
        line_(line),
        line_bytes_(line_bytes),
        tells_apart_(tells_apart) {}

  bool null() override { return Scalar("null"); }
  bool boolean(bool value) override {
    return InMask() ? Integer(value) : Scalar("a boolean");
  }
  bool number_float(number_float_t value, const string_t&) override {
    const bool whole = value == 0 || value == 1;
    return InMask() && whole ? Integer(value == 1) : Scalar("a fraction");
  }
  bool number_integer(number_integer_t value) override {
    return Integer(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMax =
        static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max());
    return Integer(static_cast<int64_t>(std::min(value, kMax)));
  }
  bool string(string_t& value) override {
    if (depth_ != 1 || field_ != kText) return Scalar("a string");
    line_->text = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return Scalar("binary"); }

  bool start_object(std::size_t) override {
    if (!Container("an object")) return false;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (document_key_ >= 0 && depth_ == 1) {
      ++depth_;
      return true;
    }
    const bool list = depth_ == 1 && field_ >= kIds && field_ < kOther;
    if (!list && !Container("a list")) return false;
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    const auto of_documents =
        std::find(std::begin(kDocumentKeys), std::end(kDocumentKeys), name);
    document_key_ = of_documents == std::end(kDocumentKeys)
                        ? -1
                        : static_cast<int>(of_documents - kDocumentKeys);
    if (document_key_ >= 0) documents_[document_key_].is_there = true;
    const absl::string_view known = keys_.KnownOf(name);
    field_ = static_cast<Field>(
        std::find(std::begin(kNames), std::end(kNames), known) -
        std::begin(kNames));
    if (field_ == kOther) {
      AddOther(std::move(name));
      return true;
    }
    if (std::exchange(seen_[field_], true)) {
      return Refuse("is there twice in one line");
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // An object over several lines ends after this one.
    const bool goes_on = depth_ > 0 && position > line_bytes_;
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "no valid JSON at byte ", position, ": ", PlainError(error.what()),
        goes_on ? "; a sample is one line: jq -c . makes lines of objects over "
                  "several"
                : ""));
    return false;
  }

  const RecordKeys& keys() const { return keys_; }
  const absl::Status& status() const { return status_; }
  bool seen(Field field) const { return seen_[field]; }
  const std::vector<int32_t>& mask(Field field) const {
    return masks_[field - kAttention];
  }
  // A key that was probably meant to be that of `field`; "": there is none.
  const std::string& meant(Field field) const { return meant_[field]; }
  // A key that keeps documents of a line apart; "": there is none.
  const std::string& packing() const { return packing_; }
  // The values of a key that is known to do so. Not `is_list`: they are no list
  // of integers.
  struct DocumentValues {
    bool is_there = false;
    bool is_list = true;
    std::vector<int64_t> values;
  };
  const DocumentValues& documents(DocumentKey key) const {
    return documents_[static_cast<size_t>(key)];
  }

 private:
  bool Refuse(absl::string_view why) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(keys_.NameOf(kNames[field_]), ": ", why));
    return false;
  }

  void AddOther(std::string name) {
    if (const Field field = Meant(name); field != kOther) {
      if (meant_[field].empty()) meant_[field] = name;
    } else if (!(tells_apart_ && document_key_ >= 0) &&
               std::find(std::begin(kPacking), std::end(kPacking), name) !=
                   std::end(kPacking)) {
      packing_ = name;
    }
    constexpr size_t kMost = 8;
    if (line_->unused.size() < kMost) line_->unused.push_back(std::move(name));
  }

  bool InMask() const { return depth_ == 2 && IsMask(field_); }

  // A value that no field takes, unless it stands somewhere below another key.
  bool Unexpected(absl::string_view what) {
    if (depth_ == 0) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("expected an object, found ", what,
                       what == "a list" ? ", where each line is a sample of "
                                          "its own (jq -c '.[]' cuts a list)"
                                        : ""));
      return false;
    }
    if (field_ == kOther) {
      if (document_key_ >= 0) documents_[document_key_].is_list = false;
      return true;
    }
    return Refuse(field_ == kText
                      ? absl::StrCat("expected a string, found ", what)
                      : absl::StrCat("expected a list of integers, found ",
                                     what, depth_ > 1 ? " in it" : ""));
  }
  bool Scalar(absl::string_view what) { return Unexpected(what); }
  bool Container(absl::string_view what) {
    // The line itself.
    if (depth_ == 0 && what == "an object") return true;
    return Unexpected(what);
  }

  bool Integer(int64_t value) {
    if (document_key_ >= 0 && depth_ == 2) {
      documents_[document_key_].values.push_back(value);
      return true;
    }
    if (depth_ != 2 || field_ < kIds || field_ == kOther) {
      return Unexpected("a number");
    }
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    std::vector<int32_t>& list = field_ == kIds ? line_->ids
                                 : field_ == kLabels
                                     ? line_->labels
                                     : masks_[field_ - kAttention];
    const bool fits = IsMask(field_)
                          ? value == 0 || value == 1
                          : (value >= 0 && value <= kMax) ||
                                (field_ == kLabels && value == kNoTarget);
    if (!fits) {
      return Refuse(absl::StrCat(
          value, " at position ", list.size(), " is no ",
          IsMask(field_) ? "0 or 1" : "token",
          field_ == kLabels ? ", nor the -100 of what is not counted" : ""));
    }
    list.push_back(static_cast<int32_t>(value));
    return true;
  }

  const RecordKeys& keys_;
  JsonLine* const line_;
  const size_t line_bytes_;
  const bool tells_apart_;
  std::vector<int32_t> masks_[kOther - kAttention];
  std::string meant_[kOther];
  std::string packing_;
  DocumentValues documents_[std::size(kDocumentKeys)];
  int document_key_ = -1;  // the one whose value is read; -1: none
  bool seen_[kOther] = {};
  int depth_ = 0;
  Field field_ = kOther;
  absl::Status status_;
};

absl::Status CheckLength(absl::string_view key, size_t length, size_t ids) {
  if (length == ids) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": has ", length, " values, and input_ids ", ids));
}

// A key of `handler`'s line that was probably meant to be that of one of
// `fields`, which the line does not have.
absl::Status CheckNames(const LineHandler& handler,
                        std::initializer_list<Field> fields) {
  for (const Field field : fields) {
    if (handler.seen(field) || handler.meant(field).empty()) continue;
    return absl::InvalidArgumentError(
        UnknownKeyMessage(handler.meant(field), kNames[field], handler.keys()));
  }
  return absl::OkStatus();
}

// Keys of records that are not read by this file.
constexpr absl::string_view kOtherKinds[] = {"messages", "conversations",
                                             "prompt", "instruction"};

// The error of a line that has nothing to learn from; its keys are `keys`.
absl::Status NothingToLearn(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const auto end = kOtherKinds + std::size(kOtherKinds);
    if (std::find(kOtherKinds, end, key) == end) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "has \"", key,
        "\", where the file's first record has a text or tokens: give records "
        "of different kinds files of their own"));
  }
  std::string message =
      "has none of \"text\", \"messages\", \"conversations\", \"prompt\", "
      "\"instruction\" and \"input_ids\"";
  if (!keys.empty()) {
    absl::StrAppend(
        &message, ", but ",
        absl::StrJoin(keys, ", ", [](std::string* out, absl::string_view key) {
          out->append(QuotedForMessage(key));
        }));
  }
  return absl::InvalidArgumentError(message);
}

// Takes the labels of what `mask` leaves out.
absl::Status ApplyLabelMask(absl::string_view key,
                            const std::vector<int32_t>& mask, JsonLine* line) {
  CASTOR_RETURN_IF_ERROR(CheckLength(key, mask.size(), line->ids.size()));
  if (!line->has_labels) line->labels = line->ids;
  line->has_labels = true;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) line->labels[i] = kNoTarget;
  }
  return absl::OkStatus();
}

// Cuts off what `mask` leaves out.
absl::Status ApplyAttentionMask(const std::vector<int32_t>& mask,
                                JsonLine* line) {
  CASTOR_RETURN_IF_ERROR(
      CheckLength("attention_mask", mask.size(), line->ids.size()));
  const auto end = std::find(mask.begin(), mask.end(), 0);
  const auto after = std::find(end, mask.end(), 1);
  if (after != mask.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention_mask: has 0 at position ", end - mask.begin(),
                     " and 1 at position ", after - mask.begin(),
                     ": only padding at the right end is supported"));
  }
  const size_t kept = static_cast<size_t>(end - mask.begin());
  if (kept == 0) {
    return absl::InvalidArgumentError("attention_mask: leaves no token");
  }
  line->ids.resize(kept);
  if (line->has_labels) line->labels.resize(kept);
  while (!line->starts.empty() &&
         line->starts.back() >= static_cast<int64_t>(kept)) {
    line->starts.pop_back();
  }
  return absl::OkStatus();
}

// Sets line->starts from the keys that say it.
absl::Status FindDocuments(const LineHandler& handler, JsonLine* line) {
  for (const DocumentKey key : {DocumentKey::kPositions, DocumentKey::kNumbers,
                                DocumentKey::kLengths}) {
    const auto& [is_there, is_list, values] = handler.documents(key);
    if (!is_there) continue;
    const absl::string_view name = kDocumentKeys[static_cast<size_t>(key)];
    if (!is_list) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected a list of integers"));
    }
    CASTOR_ASSIGN_OR_RETURN(
        std::vector<int64_t> starts,
        DocumentStarts(key, values, static_cast<int64_t>(line->ids.size())));
    if (!line->starts.empty() && starts != line->starts) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": tells other documents than the keys before it"));
    }
    line->starts = std::move(starts);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadJsonLine(absl::string_view line, const RecordKeys& keys,
                          JsonLine* out, bool tells_documents_apart) {
  out->text.clear();
  out->ids.clear();
  out->labels.clear();
  out->starts.clear();
  out->unused.clear();
  CASTOR_RETURN_IF_ERROR(CheckNoNul(line));
  LineHandler handler(keys, out, line.size(), tells_documents_apart);
  try {
    if (!Json::sax_parse(line.begin(), line.end(), &handler)) {
      return handler.status();
    }
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(PlainError(error.what()));
  }
  out->has_text = handler.seen(kText);
  out->has_ids = handler.seen(kIds);
  out->has_labels = handler.seen(kLabels);
  if (!out->has_ids) {
    for (int i = kLabels; i < kOther; ++i) {
      if (handler.seen(static_cast<Field>(i))) {
        CASTOR_RETURN_IF_ERROR(CheckNames(handler, {kIds}));
        return absl::InvalidArgumentError(
            absl::StrCat(kNames[i], ": needs input_ids"));
      }
    }
    if (out->has_text) return absl::OkStatus();
    CASTOR_RETURN_IF_ERROR(CheckNames(handler, {kIds, kText}));
    return NothingToLearn(out->unused);
  }
  CASTOR_RETURN_IF_ERROR(CheckNames(
      handler, {kLabels, kAttention, kCompletion, kAssistant, kLoss}));
  if (!handler.packing().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        handler.packing(),
        ": keeps the documents of a line apart, which castor does not",
        tells_documents_apart
            ? " by this key: position_ids, document_ids or seq_lengths say "
              "where they begin"
            : " without data.packing \"rows\": they would see each other. Say "
              "\"rows\", or give each document a line of its own"));
  }
  if (out->ids.empty()) {
    return absl::InvalidArgumentError("input_ids: is empty");
  }
  if (tells_documents_apart) {
    CASTOR_RETURN_IF_ERROR(FindDocuments(handler, out));
    std::erase_if(out->unused, [](const std::string& name) {
      return std::find(std::begin(kDocumentKeys), std::end(kDocumentKeys),
                       name) != std::end(kDocumentKeys);
    });
  }
  if (out->has_labels) {
    CASTOR_RETURN_IF_ERROR(
        CheckLength("labels", out->labels.size(), out->ids.size()));
  }
  for (const Field field : {kCompletion, kAssistant, kLoss}) {
    if (!handler.seen(field)) continue;
    CASTOR_RETURN_IF_ERROR(
        ApplyLabelMask(kNames[field], handler.mask(field), out));
  }
  return handler.seen(kAttention)
             ? ApplyAttentionMask(handler.mask(kAttention), out)
             : absl::OkStatus();
}

}  // namespace castor
