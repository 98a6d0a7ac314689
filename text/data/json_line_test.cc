#include "text/data/json_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(JsonLine, ReadsText) {
  JsonLine line;
  ASSERT_TRUE(ReadJsonLine(R"({"id": [[1, {"text": 3}]], "text": "a\nb\u00e9",
                               "meta": {"labels": "x"}})",
                           RecordKeys(), &line)
                  .ok());
  EXPECT_TRUE(line.has_text);
  EXPECT_FALSE(line.has_ids);
  EXPECT_EQ(line.text, "a\nb\xc3\xa9");
}

TEST(JsonLine, ReadsTokensAndForgetsTheLineBefore) {
  JsonLine line;
  ASSERT_TRUE(ReadJsonLine(R"({"input_ids": [5, 0, 2147483647],
                               "labels": [-100, 0, 9], "text": "t"})",
                           RecordKeys(), &line)
                  .ok());
  EXPECT_TRUE(line.has_ids && line.has_labels);
  EXPECT_THAT(line.ids, ElementsAre(5, 0, 2147483647));
  EXPECT_THAT(line.labels, ElementsAre(-100, 0, 9));
  ASSERT_TRUE(ReadJsonLine("{\"input_ids\": [7]}\r", RecordKeys(), &line).ok());
  EXPECT_FALSE(line.has_labels || line.has_text);
  EXPECT_THAT(line.ids, ElementsAre(7));
  EXPECT_THAT(line.labels, IsEmpty());
}

TEST(JsonLine, CutsOffWhatTheMaskLeavesOut) {
  JsonLine line;
  ASSERT_TRUE(ReadJsonLine(R"({"attention_mask": [1, 1, 0, 0],
                               "input_ids": [5, 6, 7, 8],
                               "labels": [1, 2, 3, 4]})",
                           RecordKeys(), &line)
                  .ok());
  EXPECT_THAT(line.ids, ElementsAre(5, 6));
  EXPECT_THAT(line.labels, ElementsAre(1, 2));
}

TEST(JsonLine, SaysWhichKeyIsWrongAndHow) {
  const auto error = [](absl::string_view text) {
    JsonLine line;
    const absl::Status status = ReadJsonLine(text, RecordKeys(), &line);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_EQ(
      error("{}"),
      "has none of \"text\", \"messages\", \"conversations\", \"prompt\", "
      "\"instruction\" and \"input_ids\"");
  EXPECT_EQ(
      error(R"({"title": "a"})"),
      "has none of \"text\", \"messages\", \"conversations\", \"prompt\", "
      "\"instruction\" and \"input_ids\", but "
      "\"title\"");
  EXPECT_EQ(error("3"), "expected an object, found a number");
  EXPECT_EQ(error("[]"),
            "expected an object, found a list, where each line is a sample of "
            "its own (jq -c '.[]' cuts a list)");
  EXPECT_EQ(error(R"({"text": 3})"), "text: expected a string, found a number");
  EXPECT_EQ(error(R"({"text": {"a": 1}})"),
            "text: expected a string, found an object");
  EXPECT_EQ(error(R"({"text": null})"), "text: expected a string, found null");
  EXPECT_EQ(error(R"({"text": "a", "text": "b"})"),
            "text: is there twice in one line");
  EXPECT_EQ(error(R"({"input_ids": "1"})"),
            "input_ids: expected a list of integers, found a string");
  EXPECT_EQ(error(R"({"input_ids": [[1]]})"),
            "input_ids: expected a list of integers, found a list in it");
  EXPECT_EQ(error(R"({"input_ids": [1.5]})"),
            "input_ids: expected a list of integers, found a fraction in it");
  EXPECT_EQ(error(R"({"input_ids": [1, -1]})"),
            "input_ids: -1 at position 1 is no token");
  EXPECT_EQ(error(R"({"input_ids": [2147483648]})"),
            "input_ids: 2147483648 at position 0 is no token");
  EXPECT_THAT(error(R"({"input_ids": [18446744073709551615]})"),
              HasSubstr("is no token"));
  EXPECT_EQ(error(R"({"input_ids": []})"), "input_ids: is empty");
  EXPECT_EQ(error(R"({"input_ids": [1], "labels": [-99]})"),
            "labels: -99 at position 0 is no token, nor the -100 of what is "
            "not counted");
  EXPECT_EQ(error(R"({"input_ids": [1, 2], "labels": [1]})"),
            "labels: has 1 values, and input_ids 2");
  EXPECT_EQ(error(R"({"labels": [1]})"), "labels: needs input_ids");
  EXPECT_EQ(error(R"({"text": "a", "attention_mask": [1]})"),
            "attention_mask: needs input_ids");
  EXPECT_EQ(error(R"({"input_ids": [1, 2], "attention_mask": [0, 1]})"),
            "attention_mask: has 0 at position 0 and 1 at position 1: only "
            "padding at the right end is supported");
  EXPECT_THAT(error(R"({"input_ids": [1, 2, 3], "attention_mask": [1, 0, 1]})"),
              HasSubstr("only padding at the right end"));
  EXPECT_EQ(error(R"({"input_ids": [1], "attention_mask": [0]})"),
            "attention_mask: leaves no token");
  EXPECT_EQ(error(R"({"input_ids": [1], "attention_mask": [2]})"),
            "attention_mask: 2 at position 0 is no 0 or 1");
  EXPECT_EQ(error(R"({"input_ids": [1], "attention_mask": true})"),
            "attention_mask: expected a list of integers, found a boolean");
  EXPECT_EQ(error(R"({"input_ids": [1], "loss_mask": [0.5]})"),
            "loss_mask: expected a list of integers, found a fraction in it");
  EXPECT_EQ(error(R"({"input_ids": [1], "completion_mask": [-100]})"),
            "completion_mask: -100 at position 0 is no 0 or 1");
  EXPECT_EQ(error(R"({"input_ids": [1, 2], "assistant_masks": [1]})"),
            "assistant_masks: has 1 values, and input_ids 2");
  EXPECT_EQ(error(R"({"text": "a", "completion_mask": [1]})"),
            "completion_mask: needs input_ids");
  EXPECT_EQ(error(R"({"input_ids": [1, 1], "attention_mask": [1]})"),
            "attention_mask: has 1 values, and input_ids 2");
}

// By hand from TRL's DataCollatorForLanguageModeling: labels are input_ids or
// the line's own, and -100 wherever a mask has 0.
TEST(JsonLine, MasksBecomeLabels) {
  JsonLine line;
  const auto labels = [&](absl::string_view text) {
    const absl::Status status = ReadJsonLine(text, RecordKeys(), &line);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(line.has_labels);
    EXPECT_THAT(line.unused, IsEmpty());
    return line.labels;
  };
  EXPECT_THAT(labels(R"({"completion_mask": [0, 1, 1],
                         "input_ids": [5, 6, 7]})"),
              ElementsAre(-100, 6, 7));
  EXPECT_THAT(labels(R"({"input_ids": [5, 6, 7], "labels": [5, -100, 9],
                         "assistant_masks": [0, 1, 1]})"),
              ElementsAre(-100, -100, 9));
  EXPECT_THAT(labels(R"({"input_ids": [5, 6, 7, 0], "loss_mask": [1.0, 0.0, 1,
                         1], "attention_mask": [1, 1, 1, 0]})"),
              ElementsAre(5, -100, 7));
  EXPECT_THAT(labels(R"({"input_ids": [5, 6, 7],
                         "assistant_masks": [true, true, false],
                         "completion_mask": [0, 1, 1]})"),
              ElementsAre(-100, 6, -100));
}

TEST(JsonLine, RefusesAKeyThatIsNearOneThatIsMissing) {
  const auto error = [](absl::string_view text) {
    JsonLine line;
    return std::string(ReadJsonLine(text, RecordKeys(), &line).message());
  };
  EXPECT_EQ(error(R"({"input_ids": [1], "label": [1]})"),
            "unknown key \"label\": is \"labels\" meant? Rename it, or leave "
            "it out");
  for (const char* key :
       {"lables", "Labels", "label_ids", "loss-mask", "completion_masks",
        "assistant_mask", "attn_mask", "atention_msk"}) {
    EXPECT_THAT(error(absl::StrCat("{\"input_ids\": [1], \"", key, "\": [1]}")),
                HasSubstr(absl::StrCat("unknown key \"", key, "\"")));
  }
  EXPECT_THAT(error(R"({"inputs_ids": [1], "labels": [1]})"),
              HasSubstr("is \"input_ids\" meant?"));
  EXPECT_THAT(error(R"({"Text": "a"})"), HasSubstr("is \"text\" meant?"));
  // A key that the line has is not meant by another one; and these are words.
  for (const char* text :
       {R"({"input_ids": [1], "labels": [1], "label": 0})",
        R"({"text": "a", "label": 1, "test": true})",
        R"({"input_ids": [1], "levels": 1, "token_type_ids": [0], "length": 1,
            "special_tokens_mask": [0], "id": "x"})"}) {
    EXPECT_EQ(error(text), "");
  }
}

TEST(JsonLine, RefusesWhatKeepsDocumentsApart) {
  JsonLine line;
  for (const char* key : {"position_ids", "document_ids", "seq_lengths"}) {
    const absl::Status status = ReadJsonLine(
        absl::StrCat("{\"input_ids\": [1, 2], \"", key, "\": [0, 0]}"),
        RecordKeys(), &line);
    EXPECT_THAT(
        std::string(status.message()),
        testing::AllOf(HasSubstr(key), HasSubstr("they would see each other")));
  }
  EXPECT_TRUE(
      ReadJsonLine(R"({"text": "a", "document_ids": [3]})", RecordKeys(), &line)
          .ok());
  EXPECT_THAT(line.unused, ElementsAre("document_ids"));
}

TEST(JsonLine, TellsDocumentsApartWhereAsked) {
  const auto read = [](absl::string_view rest, JsonLine* line) {
    return ReadJsonLine(
        absl::StrCat("{\"input_ids\": [7, 8, 9, 7, 5]", rest, "}"),
        RecordKeys(), line, /*tells_documents_apart=*/true);
  };
  for (const char* keys :
       {R"(, "position_ids": [0, 1, 0, 0, 1])",
        R"(, "document_ids": [4, 4, 0, 9, 9])", R"(, "seq_lengths": [2, 1, 2])",
        R"(, "seq_lengths": [2, 1, 2], "position_ids": [0, 1, 0, 0, 1])"}) {
    JsonLine line;
    ASSERT_TRUE(read(keys, &line).ok()) << keys;
    EXPECT_THAT(line.starts, ElementsAre(0, 2, 3)) << keys;
    EXPECT_THAT(line.unused, SizeIs(0));
  }
  JsonLine line;
  ASSERT_TRUE(read("", &line).ok());
  EXPECT_THAT(line.starts, SizeIs(0));
  ASSERT_TRUE(read(R"(, "seq_lengths": [2, 1, 2],
                      "attention_mask": [1, 1, 1, 0, 0])",
                   &line)
                  .ok());
  EXPECT_THAT(line.starts, ElementsAre(0, 2));
  EXPECT_THAT(line.ids, SizeIs(3));
  const auto error = [&](absl::string_view rest) {
    const absl::Status status = read(rest, &line);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << rest;
    return std::string(status.message());
  };
  EXPECT_THAT(error(R"(, "position_ids": [0, 1, 3, 0, 1])"),
              HasSubstr("position_ids: 3 at position 2 is neither 0"));
  EXPECT_THAT(error(R"(, "position_ids": [1, 2, 3, 4, 5])"),
              HasSubstr("1 at position 0"));
  EXPECT_THAT(error(R"(, "position_ids": [0, 1])"),
              HasSubstr("has 2 values, and input_ids 5"));
  EXPECT_THAT(error(R"(, "document_ids": [])"),
              HasSubstr("has 0 values, and input_ids 5"));
  EXPECT_THAT(error(R"(, "position_ids": "0")"),
              HasSubstr("position_ids: expected a list"));
  EXPECT_THAT(error(R"(, "document_ids": [[0], 1, 1, 1, 1])"),
              HasSubstr("document_ids: expected a list"));
  EXPECT_THAT(error(R"(, "document_ids": [0, 0, 1, 0, 0])"),
              HasSubstr("document 0 goes on at position 3"));
  EXPECT_THAT(error(R"(, "seq_lengths": [2, 0, 3])"),
              HasSubstr("seq_lengths: 0 at position 1"));
  EXPECT_THAT(error(R"(, "seq_lengths": [2, 4])"),
              HasSubstr("4 at position 1"));
  EXPECT_THAT(error(R"(, "seq_lengths": [2, 2])"), HasSubstr("a sum of 4"));
  EXPECT_THAT(error(R"(, "seq_lengths": [5], "position_ids": [0, 1, 0, 0, 1])"),
              HasSubstr("other documents"));
  EXPECT_THAT(error(R"(, "cu_seqlens": [0, 5])"), HasSubstr("cu_seqlens"));
}

TEST(JsonLine, RefusesWhatIsNoJson) {
  const auto error = [](absl::string_view text) {
    JsonLine line;
    const absl::Status status = ReadJsonLine(text, RecordKeys(), &line);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(error(R"({"text": "a")"),
              testing::AllOf(HasSubstr("no valid JSON at byte 13: "),
                             HasSubstr("expected '}'")));
  EXPECT_THAT(error("{\"text\": \"\xff\"}"), HasSubstr("no valid JSON"));
  EXPECT_THAT(error(R"({"text": "\ud800"})"), HasSubstr("no valid JSON"));
  EXPECT_THAT(error(R"({"text": "a"} {})"), HasSubstr("no valid JSON"));
  EXPECT_THAT(error(R"({"input_ids": [1e999]})"), HasSubstr("JSON"));
  EXPECT_THAT(error(absl::string_view("{\"text\": \"a\"}\0 b", 16)),
              HasSubstr("a NUL byte at byte 14"));
  EXPECT_THAT(error(R"({"messages": []})"),
              testing::AllOf(HasSubstr("has \"messages\", where the file's"),
                             HasSubstr("files of their own")));
  // A message is short however long what is wrong is, and holds no control.
  const std::string bad =
      error(absl::StrCat("{\"text\": \"", std::string(100000, 'a'), "\x01\"}"));
  EXPECT_THAT(bad, testing::Not(HasSubstr("\x01")));
  EXPECT_LT(bad.size(), 300u);
  // Depth costs no stack.
  EXPECT_THAT(error(absl::StrCat("{\"a\": ", std::string(1 << 20, '['))),
              HasSubstr("no valid JSON"));
  JsonLine line;
  EXPECT_TRUE(ReadJsonLine(absl::StrCat("{\"a\": ", std::string(1 << 18, '['),
                                        std::string(1 << 18, ']'),
                                        ", \"input_ids\": [1]}"),
                           RecordKeys(), &line)
                  .ok());
  EXPECT_THAT(line.ids, SizeIs(1));
}

}  // namespace
}  // namespace castor
