#include "text/data/labelled_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/data/sequence_label.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A letter is a token, "a" 10; [CLS] is 1 and [SEP] 2, as BERT has them.
TextEncoding Letters() {
  TextEncoding encoding;
  encoding.name = "letters";
  encoding.encode = [](absl::string_view text, std::vector<int32_t>* ids) {
    for (const char c : text) ids->push_back(10 + c - 'a');
    return absl::OkStatus();
  };
  encoding.before = {1};
  encoding.after = {2};
  encoding.pair = {{1, 0},
                   {text::PairPiece::kFirst, 0},
                   {2, 0},
                   {text::PairPiece::kSecond, 1},
                   {2, 1}};
  encoding.vocabulary = 36;
  return encoding;
}

constexpr int32_t kV = 40;

LabelledRules RulesOf(const TextEncoding* encoding, ModelTask task) {
  return {.task = task,
          .vocabulary = kV,
          .labels = 3,
          .segments = 2,
          .most_tokens = 10,
          .keys = RecordKeys(),
          .encoding = encoding};
}

JsonLine Read(const LabelledRules& rules, const std::string& line) {
  JsonLine out;
  const absl::Status status = ReadLabelledRecord(line, rules, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

TEST(LabelledRecord, PairsHaveTwoSegmentsAndALabelAtTheirFirstToken) {
  const TextEncoding letters = Letters();
  const LabelledRules rules = RulesOf(&letters, ModelTask::kSequenceLabel);
  const JsonLine one = Read(rules, R"({"text": "ab", "label": 2, "id": 7})");
  EXPECT_THAT(one.ids, ElementsAre(1, 10, 11, 2));
  EXPECT_THAT(one.labels, ElementsAre(2, -100, -100, -100));
  EXPECT_THAT(one.unused, ElementsAre("id"));
  const JsonLine two =
      Read(rules, R"({"text": "a", "text_pair": "bc", "labels": 0})");
  EXPECT_THAT(two.ids, ElementsAre(1, 10, 2, kV + 11, kV + 12, kV + 2));
  EXPECT_THAT(two.labels, ElementsAre(0, -100, -100, -100, -100, -100));
  EXPECT_EQ(Read(rules, R"({"text": "a", "label": true})").labels[0], 1);
  EXPECT_EQ(Read(rules, R"({"text": "a", "label": false})").labels[0], 0);
}

// Does as `tokenizers` with 10 tokens, 3 of which are its own: 7 are left.
// Lengths are those of tokenizer("a" * n, "b" * m, truncation=True,
// max_length=10) of transformers 5.23 with such a vocabulary.
TEST(LabelledRecord, CutsTheLongerOfAPairFirst) {
  const TextEncoding letters = Letters();
  const LabelledRules rules = RulesOf(&letters, ModelTask::kSequenceLabel);
  const struct {
    int first, second, kept_first, kept_second;
  } cases[] = {{3, 4, 3, 4}, {2, 9, 2, 5}, {9, 2, 5, 2},  {9, 9, 3, 4},
               {4, 5, 3, 4}, {5, 4, 4, 3}, {3, 20, 3, 4}, {20, 3, 4, 3}};
  for (const auto& test : cases) {
    const JsonLine line =
        Read(rules,
             absl::StrCat(R"({"text": ")", std::string(test.first, 'a'),
                          R"(", "text_pair": ")", std::string(test.second, 'b'),
                          R"(", "label": 0})"));
    EXPECT_EQ(std::count(line.ids.begin(), line.ids.end(), 10), test.kept_first)
        << test.first << " " << test.second;
    EXPECT_EQ(std::count(line.ids.begin(), line.ids.end(), kV + 11),
              test.kept_second)
        << test.first << " " << test.second;
    EXPECT_EQ(line.ids.back(), kV + 2);
  }
  const JsonLine one =
      Read(rules, R"({"text": "aaaaaaaaaaaaaaaa", "label": 1})");
  EXPECT_EQ(one.ids.size(), 10u);
  EXPECT_EQ(one.ids.back(), 2);
}

TEST(LabelledRecord, TokensHaveSegmentsAndLabelsOfTheirOwn) {
  const LabelledRules rules = RulesOf(nullptr, ModelTask::kTokenLabels);
  const JsonLine line = Read(rules, R"({"input_ids": [1, 5, 6, 2, 0],
      "token_type_ids": [0, 1, 1, 1, 0], "labels": [-100, 2, 0, -100, -100],
      "attention_mask": [1, 1, 1, 1, 0]})");
  EXPECT_THAT(line.ids, ElementsAre(1, kV + 5, kV + 6, kV + 2));
  EXPECT_THAT(line.labels, ElementsAre(-100, 2, 0, -100));
}

TEST(LabelledRecord, TextsForMaskingHaveTheirOwnTokensAsLabels) {
  const TextEncoding letters = Letters();
  const LabelledRules rules = RulesOf(&letters, ModelTask::kMaskedTokens);
  const JsonLine line = Read(rules, R"({"text": "ab", "text_pair": "c"})");
  EXPECT_THAT(line.ids, ElementsAre(1, 10, 11, 2, kV + 12, kV + 2));
  EXPECT_THAT(line.labels, ElementsAre(-100, 10, 11, -100, 12, -100));
}

TEST(LabelledRecord, PairsForPreTrainingSayWhetherTheSecondTextFollows) {
  const TextEncoding letters = Letters();
  LabelledRules rules = RulesOf(&letters, ModelTask::kMaskedTokens);
  rules.sequence_labels = 2;
  const JsonLine texts = Read(
      rules, R"({"text": "a", "text_pair": "b", "next_sentence_label": 1})");
  EXPECT_THAT(texts.ids, ElementsAre(1, 10, 2, kV + 11, kV + 2));
  const TwoTargets of_text = SplitTarget(texts.labels[0], kV);
  EXPECT_EQ(of_text.word, -100);
  EXPECT_EQ(of_text.sequence, 1);
  EXPECT_EQ(texts.labels[1], 10);
  LabelledRules tokens = rules;
  tokens.encoding = nullptr;
  tokens.labels = kV;
  const JsonLine ids = Read(tokens, R"({"input_ids": [1, 2, 3],
      "labels": [39, -100, 5], "next_sentence_label": false})");
  const TwoTargets of_ids = SplitTarget(ids.labels[0], kV);
  EXPECT_EQ(of_ids.word, 39);
  EXPECT_EQ(of_ids.sequence, 0);
  EXPECT_EQ(ids.labels[2], 5);

  const auto error = [](const LabelledRules& by, const char* line) {
    JsonLine out;
    return std::string(ReadLabelledRecord(line, by, &out).message());
  };
  EXPECT_THAT(error(rules, R"({"text": "a", "text_pair": "b"})"),
              HasSubstr("next_sentence_label: is missing"));
  EXPECT_THAT(error(rules, R"({"text": "a", "next_sentence_label": 1})"),
              HasSubstr("text_pair: is missing, and model.head"));
  EXPECT_THAT(error(tokens, R"({"input_ids": [1], "labels": [1],
                                "next_sentence_label": 2})"),
              HasSubstr("next_sentence_label: has 2, and must be in [0, 2)"));
  EXPECT_NE(KeyOf(rules), KeyOf(RulesOf(&letters, ModelTask::kMaskedTokens)));
}

constexpr int32_t kPositions = 12;

LabelledRules SpanRules(const TextEncoding* encoding) {
  LabelledRules rules = RulesOf(encoding, ModelTask::kSpan);
  rules.labels = rules.sequence_labels = kPositions;
  rules.doc_stride = 2;
  return rules;
}

// [CLS] a [SEP] and [SEP] leave room for 4 letters of the context in 8 tokens.
TEST(LabelledRecord, AContextHasWindowsAndItsAnswerPositions) {
  const TextEncoding letters = Letters();
  LabelledRules rules = SpanRules(&letters);
  rules.most_tokens = 8;
  const JsonLine line = Read(rules, R"({"question": " a", "id": "1",
      "context": "bcdefgh", "answers": {"text": ["efg", "b"],
                                        "answer_start": [3, 0]}})");
  EXPECT_THAT(line.starts, ElementsAre(0, 8, 16));
  ASSERT_EQ(line.ids.size(), 23u);
  EXPECT_THAT(
      std::vector<int32_t>(line.ids.begin() + 8, line.ids.begin() + 16),
      ElementsAre(1, 10, 2, kV + 13, kV + 14, kV + 15, kV + 16, kV + 2));
  const auto span = [&](int64_t at) {
    const TwoTargets both = SplitTarget(line.labels[at], kPositions);
    return std::pair(both.word, both.sequence);
  };
  // "bcde" and "fgh" have a part of it.
  EXPECT_EQ(span(0), std::pair(0, 0));
  EXPECT_EQ(span(8), std::pair(4, 6));
  EXPECT_EQ(span(16), std::pair(0, 0));
  EXPECT_EQ(std::count(line.labels.begin(), line.labels.end(), -100), 20);
  EXPECT_THAT(line.unused, ElementsAre("id"));
  // Windows do not lie further apart than they are long.
  LabelledRules far = rules;
  far.doc_stride = 100;
  EXPECT_THAT(Read(far, R"({"question": "a", "context": "bcdefgh",
                            "answers": []})")
                  .starts,
              ElementsAre(0, 8));

  // A list of answers; none at all; characters of two bytes.
  const auto first = [&](const char* text) {
    const TwoTargets both =
        SplitTarget(Read(rules, text).labels[0], kPositions);
    return std::pair(both.word, both.sequence);
  };
  EXPECT_EQ(first(R"({"question": "a", "context": "bcd", "answers":
                      [{"text": "cd", "answer_start": 1}]})"),
            std::pair(4, 5));
  EXPECT_EQ(first(R"({"question": "a", "context": "bcd", "answers": []})"),
            std::pair(0, 0));
  TextEncoding bytes = letters;
  bytes.encode = [](absl::string_view text, std::vector<int32_t>* ids) {
    for (const char c : text) ids->push_back(static_cast<uint8_t>(c) % 30);
    return absl::OkStatus();
  };
  rules.encoding = &bytes;
  EXPECT_EQ(first(R"({"question": "a", "context": "\u00fcb", "answers":
                      [{"text": "b", "answer_start": 1}]})"),
            std::pair(5, 5));
  rules.doc_stride = 3;
  EXPECT_NE(KeyOf(rules), KeyOf(SpanRules(&letters)));
}

// A blank belongs to the word behind it; those before it, and those at a text's
// end, are one token, as GPT-2's encoding has them.
TEST(LabelledRecord, AnAnswerBehindSeveralBlanksBeginsWithItsWord) {
  TextEncoding words = Letters();
  words.encode = [](absl::string_view text, std::vector<int32_t>* ids) {
    int blanks = 0;
    for (const char c : text) {
      if (c == ' ') {
        ++blanks;
        continue;
      }
      if (blanks > 1) ids->push_back(30 + blanks - 1);
      ids->push_back((blanks > 0 ? 20 : 10) + c - 'a');
      blanks = 0;
    }
    if (blanks > 0) ids->push_back(30 + blanks);
    return absl::OkStatus();
  };
  const JsonLine line = Read(SpanRules(&words), R"({"question": "a",
      "context": "b   c d", "answers": {"text": ["c"], "answer_start": [4]}})");
  const TwoTargets both = SplitTarget(line.labels[0], kPositions);
  // [CLS] a [SEP] b, two blanks, c
  EXPECT_EQ(std::pair(both.word, both.sequence), std::pair(5, 5));
}

// Words are cut into pieces of two letters.
TEST(LabelledRecord, AnAnswerWithinATokenIsAllOfIt) {
  TextEncoding pieces = Letters();
  pieces.encode = [](absl::string_view text, std::vector<int32_t>* ids) {
    for (const absl::string_view word : absl::StrSplit(text, ' ')) {
      for (size_t i = 0; i < word.size(); i += 2) {
        ids->push_back(word[i] - 'a' + (i + 1 < word.size() ? 3 : 20));
      }
    }
    return absl::OkStatus();
  };
  const LabelledRules rules = SpanRules(&pieces);
  const auto span = [&](const char* answer, int start) {
    const JsonLine line = Read(
        rules, absl::StrCat(R"({"question": "aa", "context": "bb ccdd ee",
                                "answers": {"text": [")",
                            answer, R"("], "answer_start": [)", start, "]}}"));
    const TwoTargets both = SplitTarget(line.labels[0], kPositions);
    return std::pair(both.word, both.sequence);
  };
  // The context's tokens are at 3 (bb), 4 (cc), 5 (dd) and 6 (ee).
  EXPECT_EQ(span("bb", 0), std::pair(3, 3));
  EXPECT_EQ(span("cc", 3), std::pair(4, 4));
  EXPECT_EQ(span("dd ee", 5), std::pair(5, 6));
  EXPECT_EQ(span("cd", 4), std::pair(4, 5));
  EXPECT_EQ(span("d", 6), std::pair(5, 5));
  EXPECT_EQ(span("bb ccd", 0), std::pair(3, 5));
}

TEST(LabelledRecord, TokensSayTheirSpansPositions) {
  const LabelledRules rules = SpanRules(nullptr);
  const auto span = [&](const char* text) {
    const JsonLine line = Read(rules, text);
    EXPECT_TRUE(line.starts.empty());
    if (line.labels[0] == -100) return std::pair(-100, -100);
    const TwoTargets both = SplitTarget(line.labels[0], kPositions);
    return std::pair(both.word, both.sequence);
  };
  EXPECT_EQ(span(R"({"input_ids": [1, 5, 2], "token_type_ids": [0, 0, 1],
                     "start_positions": 1, "end_positions": 2})"),
            std::pair(1, 2));
  // A position behind the sequence does not count.
  EXPECT_EQ(span(R"({"input_ids": [1, 5, 2, 0], "attention_mask": [1, 1, 1, 0],
                     "start_positions": 2, "end_positions": 3})"),
            std::pair(2, -100));
  EXPECT_EQ(span(R"({"input_ids": [1, 5], "start_positions": 9,
                     "end_positions": 0})"),
            std::pair(-100, 0));
  EXPECT_EQ(span(R"({"input_ids": [1, 5], "start_positions": 2,
                     "end_positions": 2})"),
            std::pair(-100, -100));
}

TEST(LabelledRecord, RefusesByKeyWhatSaysNoSpan) {
  const TextEncoding letters = Letters();
  const auto error = [](const LabelledRules& rules, const std::string& line) {
    JsonLine out;
    return std::string(ReadLabelledRecord(line, rules, &out).message());
  };
  const auto with = [](const char* answers) {
    return absl::StrCat(R"({"question": "a", "context": "bcd", "answers": )",
                        answers, "}");
  };
  LabelledRules texts = SpanRules(&letters);
  EXPECT_THAT(error(texts, R"({"question": "a", "context": "b"})"),
              HasSubstr("answers: is missing"));
  EXPECT_THAT(error(texts, R"({"context": "b", "answers": []})"),
              HasSubstr("question: is missing"));
  EXPECT_THAT(error(texts, with(R"([{"text": "c", "answer_start": 2}])")),
              HasSubstr("answers: the answer \"c\" does not stand at character "
                        "2 of the context"));
  for (const char* answers :
       {R"("c")", R"([1])", R"([{"text": "c"}])",
        R"({"text": ["c"], "answer_start": []})", R"({"text": "c"})"}) {
    EXPECT_THAT(error(texts, with(answers)), HasSubstr("answers: expected {"));
  }
  for (const char* answers : {R"([{"text": "", "answer_start": 0}])",
                              R"([{"text": "c", "answer_start": "1"}])"}) {
    EXPECT_THAT(error(texts, with(answers)),
                HasSubstr("answers: an answer has a"));
  }
  texts.most_tokens = 4;
  EXPECT_THAT(error(texts, with("[]")),
              HasSubstr("question: its 1 tokens leave no room for the context "
                        "in data.sequence_length (4)"));
  const LabelledRules tokens = SpanRules(nullptr);
  EXPECT_THAT(error(tokens, R"({"input_ids": [1], "start_positions": 0})"),
              HasSubstr("end_positions: is missing"));
  EXPECT_THAT(error(tokens, R"({"input_ids": [1], "start_positions": -1,
                                "end_positions": 0})"),
              HasSubstr("start_positions: has -1, and must be in"));
}

// A table's cells are texts, and pandas makes fractions of numbers.
TEST(LabelledRecord, ANumberMayBeATextOrAWholeFraction) {
  const TextEncoding letters = Letters();
  const LabelledRules rules = RulesOf(&letters, ModelTask::kSequenceLabel);
  for (const char* label : {"1", "\"1\"", "\"1.0\"", "1.0", "true"}) {
    JsonLine out;
    const absl::Status read = ReadLabelledRecord(
        absl::StrCat(R"({"text": "a", "label": )", label, "}"), rules, &out);
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(out.labels[0], 1) << label;
  }
}

TEST(LabelledRecord, RefusesByKeyWhatIsNoSuchRecord) {
  const TextEncoding letters = Letters();
  const auto error = [](const LabelledRules& rules, const char* line) {
    JsonLine out;
    return std::string(ReadLabelledRecord(line, rules, &out).message());
  };
  const LabelledRules tokens = RulesOf(nullptr, ModelTask::kTokenLabels);
  EXPECT_THAT(error(tokens, R"({"input_ids": [1], "label": 1})"),
              HasSubstr("label: is a sequence's"));
  EXPECT_THAT(error(tokens, R"({"input_ids": [1]})"),
              HasSubstr("labels: is missing"));
  EXPECT_THAT(error(tokens, R"({"input_ids": [1], "labels": [0, 1]})"),
              HasSubstr("labels: has 2 elements, input_ids 1"));
  // 2^64 - 100, whose bits are those of -100.
  EXPECT_THAT(error(tokens, R"({"input_ids": [1],
                                "labels": [18446744073709551516]})"),
              HasSubstr("labels: has 18446744073709551516, and must be"));
  EXPECT_THAT(error(tokens, R"({"input_ids": [], "labels": []})"),
              HasSubstr("input_ids: is empty"));
  EXPECT_THAT(error(tokens, R"({"text": "a", "labels": [0]})"),
              HasSubstr("input_ids: is missing"));
  LabelledRules texts = RulesOf(&letters, ModelTask::kSequenceLabel);
  EXPECT_THAT(error(texts, R"({"text": "a", "label": 1, "labels": 1})"),
              HasSubstr("labels: is there, and so is label"));
  EXPECT_THAT(error(texts, R"({"text": "a", "label": "good"})"),
              HasSubstr("found the text \"good\": give each class its number"));
  EXPECT_THAT(error(texts, R"({"text": "a", "label": 0.5})"),
              HasSubstr("label: expected an integer"));
  EXPECT_THAT(error(RulesOf(&letters, ModelTask::kMaskedTokens),
                    R"({"text": "a", "label": 1})"),
              HasSubstr("the model learns masked words: leave it out"));
  EXPECT_THAT(error(RulesOf(&letters, ModelTask::kSpan),
                    R"({"version": "1.1", "data": [{"paragraphs": [{"qas":
                        [{"answers": [{"text": "a"}]}]}]}]})"),
              HasSubstr("give each question a record of its own"));
  EXPECT_THAT(error(texts, R"({"text": 3, "label": 1})"),
              HasSubstr("text: expected a string"));
  EXPECT_THAT(error(texts, R"([1])"), HasSubstr("expected an object"));
  texts.most_tokens = 2;
  EXPECT_THAT(error(texts, R"({"text": "a", "label": 1})"),
              HasSubstr("leaves no room"));
  texts.most_tokens = 10;
  texts.vocabulary = 12;
  EXPECT_THAT(error(texts, R"({"text": "abcz", "label": 1})"),
              HasSubstr("do not fit together"));
}

}  // namespace
}  // namespace castor
