#include "text/data/streamed_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/philox.h"
#include "base/test_files.h"
#include "runtime/data/permutation.h"
#include "text/data/encodings_for_test.h"
#include "text/data/open_data.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A sample: T tokens, then T targets.
using Sample = std::vector<int32_t>;
using Samples = std::vector<Sample>;

constexpr int64_t kLength = 8;
constexpr uint64_t kSeed = 11;

class StreamedDataTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = directory_.path() + "/" + name;
    WriteFile(path, text);
    return path;
  }
  // Lines with texts of one to nine words each.
  std::string Texts(const std::string& name, int64_t lines) {
    std::string text;
    for (int64_t i = 0; i < lines; ++i) {
      absl::StrAppend(&text, "{\"text\": \"", name, " ", i);
      for (int64_t w = 0; w < (i * 7 + 3) % 9; ++w) {
        absl::StrAppend(&text, " w", i * w);
      }
      absl::StrAppend(&text, "\"}\n", i % 50 == 7 ? "\n" : "");
    }
    return text;
  }
  // Lines with tokens and labels, some longer than T, some without a label.
  std::string Lines(int64_t first, int64_t lines) {
    std::string text;
    for (int64_t i = first; i < first + lines; ++i) {
      std::vector<int64_t> ids, labels;
      for (int64_t t = 0; t < 2 + i % 11; ++t) {
        ids.push_back((i * 13 + t) % 50'000);
        labels.push_back(t < i % 5 || i % 17 == 3 ? -100 : ids.back());
      }
      absl::StrAppend(&text, "{\"input_ids\": [", absl::StrJoin(ids, ", "),
                      "], \"labels\": [", absl::StrJoin(labels, ", "), "]}\n");
    }
    return text;
  }
  std::string Packed(const std::string& name, const std::string& text) {
    const std::string path = directory_.path() + "/" + name;
    gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
              static_cast<int>(text.size()));
    gzclose(file);
    return path;
  }

  static DataConfig Data(const std::vector<std::string>& train, bool shuffle,
                         int64_t window = 16) {
    DataConfig data;
    for (const std::string& path : train) data.train.push_back({path});
    data.sequence_length = kLength;
    data.shuffle = shuffle;
    data.streaming = true;
    data.shuffle_window = window;
    return data;
  }
  absl::StatusOr<DataSplits> Open(const DataConfig& data, int threads = 1) {
    return OpenData(
        data, {.vocabulary = 60'000,
               .seed = kSeed,
               .threads = threads,
               .model_directory = "model",
               .load_tokenizer =
                   [](const std::string&) -> absl::StatusOr<TextEncoding> {
                 return EncodingForTest(EncodeLikeGpt2);
               },
               .say = [](absl::string_view) {}});
  }
  DataSplits Opened(const DataConfig& data, int threads = 1) {
    absl::StatusOr<DataSplits> splits = Open(data, threads);
    EXPECT_TRUE(splits.ok()) << splits.status();
    return splits.ok() ? *std::move(splits) : DataSplits();
  }
  static Samples Read(const DataSet& data, int64_t first, int64_t count) {
    Samples samples;
    for (int64_t i = first; i < first + count; ++i) {
      Sample sample(2 * kLength);
      const absl::Status status =
          data.FillBatch(i, 1, sample.data(), sample.data() + kLength);
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) break;
      samples.push_back(std::move(sample));
    }
    return samples;
  }
  // The samples of the same files in their order, as the cache has them.
  Samples InOrder(const std::vector<std::string>& train) {
    DataConfig data = Data(train, /*shuffle=*/false);
    data.streaming = false;
    const DataSplits splits = Opened(data);
    return Read(*splits.train, 0, splits.train->num_samples());
  }

  TemporaryDirectory directory_;
};

// Without shuffling a pass of a stream is an epoch of the cache, whatever the
// files are.
TEST_F(StreamedDataTest, HasTheSamplesOfTheCacheInTheirOrder) {
  const std::string text = Texts("a", 300);
  std::string words;
  for (int i = 0; i < 90'000; ++i) absl::StrAppend(&words, "word", i, " ");
  std::string tokens;
  for (int i = 0; i < 200'000; ++i) {
    const auto token = static_cast<uint16_t>(i % 50'000);
    tokens.append(reinterpret_cast<const char*>(&token), 2);
  }
  const std::string list =
      "[{\"text\": \"one\"},\n {\"text\": \"two three four five six\"},"
      "{\"text\": \"seven eight nine ten\"}]";
  const std::map<std::string, std::vector<std::string>> cases = {
      {"texts", {Write("a.jsonl", text), Write("b.jsonl", Texts("b", 41))}},
      {"packed", {Packed("a.jsonl.gz", text), Packed("a.txt.gz", words)}},
      {"documents",
       {Write("a.txt", words), Write("b.txt", "short one"),
        Write("c.txt", "the last one")}},
      {"list and table",
       {Write("a.json", list), Write("a.csv", "text,id\n\"x, y\",1\nz w,2\n")}},
      {"tokens",
       {Write("a.bin", tokens), Write("d.txt", "between"),
        Write("b.bin", tokens.substr(0, 2000))}},
      {"lines",
       {Write("l.jsonl", Lines(0, 230)), Packed("m.jsonl.gz", Lines(230, 33))}},
  };
  for (const auto& [name, files] : cases) {
    SCOPED_TRACE(name);
    const Samples epoch = InOrder(files);
    const auto n = static_cast<int64_t>(epoch.size());
    for (const int64_t window : {int64_t{1}, int64_t{7}, n, 3 * n}) {
      const DataSplits splits =
          Opened(Data(files, /*shuffle=*/false, window), 9);
      ASSERT_NE(splits.stream, nullptr);
      const int64_t count = std::min<int64_t>(2 * n + 3, 800);
      const Samples samples = Read(*splits.train, 0, count);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(samples[i], epoch[i % n]) << i << " by " << window;
      }
    }
  }
}

// The order of a stream of one source, written again: files in an order of the
// pass, samples in one of their window, which ends with the pass.
Samples Shuffled(const std::vector<Samples>& files, int64_t window,
                 int64_t count) {
  const auto word = [](absl::string_view name, int64_t number) {
    return RandomKey{kSeed, MixKey(HashName(name.data(), name.size()),
                                   static_cast<uint64_t>(number))};
  };
  const auto num_files = static_cast<int64_t>(files.size());
  Samples result;
  int64_t number = 0;
  for (int64_t pass = 0;; ++pass) {
    Samples order;
    for (int64_t f = 0; f < num_files; ++f) {
      const Samples& file =
          files[num_files == 1
                    ? 0
                    : PermutedIndex(word("data/files", pass), num_files, f)];
      order.insert(order.end(), file.begin(), file.end());
    }
    const auto n = static_cast<int64_t>(order.size());
    for (int64_t begin = 0; begin < n; begin += window, ++number) {
      const int64_t size = std::min(window, n - begin);
      for (int64_t i = 0; i < size; ++i) {
        result.push_back(
            order[begin +
                  PermutedIndex(word("data/shuffle", number), size, i)]);
        if (static_cast<int64_t>(result.size()) == count) return result;
      }
    }
  }
}

TEST_F(StreamedDataTest, ShufflesFilesAndWindows) {
  const std::vector<std::string> files = {Write("a.jsonl", Lines(0, 50)),
                                          Write("b.jsonl", Lines(50, 33)),
                                          Write("c.jsonl", Lines(90, 4))};
  std::vector<Samples> each;
  for (const std::string& file : files) each.push_back(InOrder({file}));
  for (const int64_t window : {1, 16, 87, 1000}) {
    const DataSplits splits = Opened(Data(files, true, window));
    EXPECT_EQ(Read(*splits.train, 0, 300), Shuffled(each, window, 300))
        << window;
  }
}

// A file that fits into a window is shuffled as an epoch of the cache is.
TEST_F(StreamedDataTest, HasTheCachesOrderWhereAWindowHoldsAllOfAFile) {
  const std::string file = Write("a.jsonl", Texts("a", 300));
  DataConfig data = Data({file}, true, 100'000);
  const DataSplits streamed = Opened(data);
  data.streaming = false;
  const DataSplits cached = Opened(data);
  const int64_t count = 3 * cached.train->num_samples() + 5;
  EXPECT_EQ(Read(*streamed.train, 0, count), Read(*cached.train, 0, count));
}

// The files have several pieces, so that places lie within them.
TEST_F(StreamedDataTest, GoesOnFromABookmarkWithTheSameSamples) {
  const std::vector<std::vector<std::string>> cases = {
      {Write("a.jsonl", Texts("a", 6'000)), Write("b.jsonl", Texts("b", 50))},
      {Packed("a.jsonl.gz", Texts("a", 6'000)), Write("z.txt", "alpha beta")},
      {Write("l.jsonl", Lines(0, 5'000)), Write("m.jsonl", Lines(9, 20))}};
  for (const auto& files : cases) {
    for (const bool shuffle : {false, true}) {
      const DataConfig data = Data(files, shuffle, 300);
      const DataSplits whole = Opened(data);
      constexpr int64_t kCount = 8'000;
      Samples samples;
      std::map<int64_t, std::string> bookmarks;
      for (int64_t i = 0; i < kCount; ++i) {
        if (i % 1'999 == 0) bookmarks[i] = whole.stream->BookmarkAt(i);
        const Samples next = Read(*whole.train, i, 1);
        ASSERT_EQ(next.size(), 1u);
        samples.push_back(next[0]);
      }
      for (const auto& [position, bookmark] : bookmarks) {
        const DataSplits again = Opened(data, 12);
        // As a run does that shows its first sample.
        Read(*again.train, 0, 1);
        const absl::Status status =
            again.stream->GoOn(bookmark, position, /*changed=*/false);
        ASSERT_TRUE(status.ok()) << status;
        const int64_t count = std::min<int64_t>(kCount - position, 700);
        ASSERT_EQ(Read(*again.train, position, count),
                  Samples(samples.begin() + position,
                          samples.begin() + position + count))
            << position;
      }
    }
  }
}

// Positions that a rank skips are other ranks'.
TEST_F(StreamedDataTest, RanksSeeThePartsOfOneOrder) {
  const DataConfig data = Data({Write("a.jsonl", Texts("a", 400))}, true, 20);
  const Samples all = Read(*Opened(data).train, 0, 400);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const DataSplits splits = Opened(data, 8);
    std::string bookmark;
    for (int64_t i = 3 * rank; i + 3 <= 400; i += 6) {
      ASSERT_TRUE(splits.stream->Await(i - 3 * rank + 6).ok());
      EXPECT_EQ(Read(*splits.train, i, 3),
                Samples(all.begin() + i, all.begin() + i + 3));
      if (i / 6 == 30) bookmark = splits.stream->BookmarkAt(i - 3 * rank + 6);
    }
    const DataSplits one = Opened(data);
    ASSERT_TRUE(one.stream->GoOn(bookmark, 186, false).ok());
    EXPECT_EQ(Read(*one.train, 186, 9),
              Samples(all.begin() + 186, all.begin() + 195));
  }
}

// More is asked for at once than a window holds.
TEST_F(StreamedDataTest, AwaitsMoreThanAWindow) {
  const DataSplits splits =
      Opened(Data({Write("l.jsonl", Lines(0, 3))}, true, 2));
  EXPECT_TRUE(splits.stream->Await(500).ok());
  EXPECT_EQ(Read(*splits.train, 0, 500).size(), 500u);
  EXPECT_GT(splits.stream->TakeWaitedNs(), 0);
}

TEST_F(StreamedDataTest, SourcesHaveTheirSharesOfTheSamples) {
  DataConfig data = Data({Write("a.jsonl", Lines(0, 300))}, true, 64);
  data.train.push_back({Write("b.jsonl", Lines(20'000, 100)), 3});
  const DataSplits splits = Opened(data, 8);
  int64_t second = 0;
  std::map<Sample, int64_t> times;
  constexpr int64_t kCount = 1'200;
  for (const Sample& sample : Read(*splits.train, 0, kCount)) {
    // Token 0 of line i is 13 i modulo 50,000.
    second += sample[0] >= 10'000;
    ++times[sample];
  }
  // 300 samples once and 100 thrice; lines have nearly one length.
  EXPECT_NEAR(static_cast<double>(second) / kCount, 0.5, 0.03);
  // Each source goes through its files again and again.
  EXPECT_EQ(times.size(), 400u);
  const std::string bookmark = splits.stream->BookmarkAt(kCount);
  const DataSplits again = Opened(data, 1);
  ASSERT_TRUE(again.stream->GoOn(bookmark, kCount, false).ok());
  EXPECT_EQ(Read(*again.train, kCount, 200), Read(*splits.train, kCount, 200));
}

TEST_F(StreamedDataTest, TellsWhatIsKnownWhenItIs) {
  const DataSplits splits =
      Opened(Data({Write("l.jsonl", Lines(0, 100))}, true, 30));
  const auto lengths = splits.stream->CountTokens();
  ASSERT_TRUE(lengths.ok());
  EXPECT_EQ(lengths->samples, 30);
  const auto labels = splits.stream->CountLabels();
  ASSERT_TRUE(labels.ok());
  EXPECT_TRUE(labels->is_part);
  EXPECT_EQ(splits.train->num_samples(), 0);
  EXPECT_THAT(splits.stream->TakeNotes(), IsEmpty());
  Read(*splits.train, 0, 350);
  // The cache's counts of the same lines.
  DataConfig data = Data({directory_.path() + "/l.jsonl"}, false);
  data.streaming = false;
  const DataSplits cached = Opened(data);
  const auto all = cached.train->CountTokens();
  const auto learned = cached.train->CountLabels();
  EXPECT_THAT(
      splits.stream->TakeNotes(),
      ElementsAre(AllOf(
          HasSubstr("data.train: "), HasSubstr("100 samples"),
          HasSubstr(absl::StrCat(all->tokens, " tokens (", learned->labels,
                                 " learned), ", all->cut, " cut")),
          HasSubstr(absl::StrCat(learned->unlabelled, " with nothing")))));
}

TEST_F(StreamedDataTest, AnErrorComesWithFileAndLineAfterTheSamplesBefore) {
  std::string lines = Lines(0, 20'000);
  lines += "{\"input_ids\": [1, 2, \"three\"]}\n" + Lines(0, 10);
  const std::string path = Write("l.jsonl", lines);
  const Samples good = InOrder({Write("good.jsonl", Lines(0, 20'000))});
  for (const int threads : {1, 16}) {
    const DataSplits splits = Opened(Data({path}, false, 100), threads);
    int64_t given = 0;
    absl::Status status;
    for (; status.ok(); given += 100) {
      status = splits.stream->Await(given + 100);
      if (!status.ok()) break;
      ASSERT_EQ(Read(*splits.train, given, 100),
                Samples(good.begin() + given, good.begin() + given + 100));
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("data.train: file \"" + path +
                                "\", line 20001: input_ids")));
    EXPECT_GT(given, 15'000);
    EXPECT_LE(given, 20'000);
    // It stays so.
    EXPECT_EQ(splits.stream->Await(given + 100), status);
  }
}

TEST_F(StreamedDataTest, WhatIsTooShortIsRefused) {
  const DataSplits splits =
      Opened(Data({Write("a.txt", "one two"), Write("b.txt", "x")}, false));
  const absl::Status status = splits.stream->Await(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("too short: they have 8 tokens, and one sample takes "
                        "8 + 1"));
}

TEST_F(StreamedDataTest, AFileThatChangesIsNoticed) {
  const std::string path = Write("l.jsonl", Lines(0, 40'000));
  const DataConfig data = Data({path}, true, 100);
  const DataSplits splits = Opened(data);
  const auto before = splits.train->Check(0, 0);
  ASSERT_TRUE(splits.stream->Await(100).ok());
  WriteFile(path, Lines(1, 40'000));
  absl::Status status;
  for (int64_t end = 100; status.ok() && end < 40'000; end += 100) {
    status = splits.stream->Await(end);
    if (status.ok()) Read(*splits.train, end - 100, 100);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was written to"));
  // One byte is another one: so is the identity.
  std::string other = Lines(0, 40'000);
  ASSERT_EQ(*Opened(data).train->Check(0, 0) == *before, false);
  WriteFile(path, other);
  EXPECT_EQ(*Opened(data).train->Check(0, 0), *before);
  other[other.size() / 2] = other[other.size() / 2] == '1' ? '2' : '1';
  WriteFile(path, other);
  EXPECT_NE(*Opened(data).train->Check(0, 0), *before);
}

// A large file is not read again: its time tells.
TEST_F(StreamedDataTest, ALargeFileOfAnotherTimeIsRefused) {
  const std::string path = Write("a.bin", std::string(1 << 16, '\1'));
  std::filesystem::resize_file(path, (int64_t{64} << 20) + 4096);
  const DataConfig data = Data({path}, true, 100);
  DataSplits splits = Opened(data);
  const std::string bookmark = splits.stream->BookmarkAt(0);
  const std::string identity = *splits.train->Check(0, 0);
  splits = Opened(data);
  EXPECT_TRUE(splits.stream->GoOn(bookmark, 0, false).ok());
  const auto time = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, time + std::chrono::seconds(1));
  splits = Opened(data);
  EXPECT_EQ(*splits.train->Check(0, 0), identity);
  const absl::Status status = splits.stream->GoOn(bookmark, 0, false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(path), HasSubstr("--resume-changed")));
  EXPECT_TRUE(splits.stream->GoOn(bookmark, 0, true).ok());
}

// A line that was mended after the place is no reason to begin anew.
TEST_F(StreamedDataTest, WithChangedDataItGoesOnWhereItCan) {
  const std::string lines = Lines(0, 3'000);
  const std::string path = Write("l.jsonl", lines);
  const DataConfig data = Data({path}, false, 100);
  DataSplits splits = Opened(data);
  Read(*splits.train, 0, 250);
  const std::string bookmark = splits.stream->BookmarkAt(250);
  const Samples next = Read(*splits.train, 250, 100);
  WriteFile(path, lines + Lines(0, 1));
  splits = Opened(data);
  ASSERT_TRUE(splits.stream->GoOn(bookmark, 250, true).ok());
  EXPECT_EQ(Read(*splits.train, 250, 100), next);
  EXPECT_THAT(splits.stream->TakeNotes(), IsEmpty());
  // No place of another file.
  for (const std::string& other :
       {std::string("{\"bookmark\": 1}"), std::string("[1"), std::string()}) {
    splits = Opened(data);
    const absl::Status status = splits.stream->GoOn(other, 250, false);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << other;
    ASSERT_TRUE(splits.stream->GoOn(other, 250, true).ok());
    Samples first = InOrder({path});
    first.resize(10);
    EXPECT_EQ(Read(*splits.train, 250, 10), first);
    EXPECT_THAT(splits.stream->TakeNotes(),
                ElementsAre(HasSubstr("begins anew")));
  }
}

// A checkpoint's bookmark may hold anything.
TEST_F(StreamedDataTest, NoBookmarkBreaksIt) {
  const std::string path = Write("l.jsonl", Lines(0, 50));
  const DataConfig data = Data({path}, true, 10);
  DataSplits splits = Opened(data);
  Read(*splits.train, 0, 25);
  const std::string bookmark = splits.stream->BookmarkAt(25);
  uint64_t state = 5;
  for (int i = 0; i < 300; ++i) {
    std::string hostile = bookmark;
    for (int n = 0; n < 3; ++n) {
      state = MixKey(state, 1);
      hostile[state % hostile.size()] =
          "0123456789-,:[]{}\"e"[state / 977 % 19];
    }
    const absl::Status status = splits.stream->GoOn(hostile, 25, false);
    if (!status.ok()) continue;
    std::vector<int32_t> batch(2 * kLength);
    splits.train->FillBatch(25, 1, batch.data(), batch.data() + kLength)
        .IgnoreError();
  }
}

}  // namespace
}  // namespace castor
